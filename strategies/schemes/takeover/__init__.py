"""Take-over of lost pipeline stages by neighbours, peers, or re-formed pipelines.

MeCeFO (NeurIPS 2025): when a node fails, its neighbour in the same pipeline takes over its stage.
Three techniques reduce the double load: the backward pass skips attention, activations of the
feed-forward network are recomputed instead of kept, and the gradients of its weights are
approximated at low rank.
"""
