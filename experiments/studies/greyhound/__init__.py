"""slow parts: deals, swaps, restarts, by ski rental (Wu et al. 2025, Greyhound)."""
