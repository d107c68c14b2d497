"""How time passes: the training loop, failure processes, and the two engines that run it."""
