"""The training loop, its parts, and the check of what a scheme returns."""
