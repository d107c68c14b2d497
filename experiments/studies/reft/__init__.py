"""snapshots in host memory, and beneath other schemes (Wang et al. 2023)."""
