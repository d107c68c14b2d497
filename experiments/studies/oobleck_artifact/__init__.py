"""fifteen of 30 nodes lost: Oobleck, Varuna, Bamboo by Oobleck's artifact (Jang et al. 2023)."""
