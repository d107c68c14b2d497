"""Checkpoints in host memory: groups of nodes, and the failures that they survive."""
