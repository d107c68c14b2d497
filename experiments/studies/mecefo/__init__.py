"""neighbour take-over, with Bamboo and Oobleck (MeCeFO, NeurIPS 2025)."""
