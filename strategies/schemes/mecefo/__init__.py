"""MeCeFO: a neighbour in the pipeline takes over the stage of a failed node."""
