"""checkpoints in peers' memory, and lost scale-up domains (Wang et al. 2023)."""
