"""How long a training step takes: predicted, beside what has been published."""
