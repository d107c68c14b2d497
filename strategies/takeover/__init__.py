"""Neighbour take-over: what a pipeline costs when a node does the work of two stages, or three.

MeCeFO (NeurIPS 2025). When a node fails, its neighbour in the same pipeline takes over its stage.
Three techniques make the double load lighter: the backward pass skips attention, the activations of
the feed-forward network are computed again instead of kept, and the gradient of its weights is
approximated at low rank.
"""
