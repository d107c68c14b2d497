"""re-routed micro-batches: ReCycle against Oobleck and Bamboo (Gandhi et al. 2024)."""
