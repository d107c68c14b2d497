"""Checkpoints in host memory: what survives which failures, and the code that makes it so."""
