"""Numerics of neighbour take-over (MeCeFO): gradients of a small transformer, and its ablation.

The transformer is real, in numpy, with an exact backward pass next to the approximate one.
"""
