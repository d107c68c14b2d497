"""How long checkpoints in host memory survive: closed forms against random failures."""
