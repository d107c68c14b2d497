"""closed forms beside Monte Carlo and simulated jobs (Lee et al. 2026)."""
