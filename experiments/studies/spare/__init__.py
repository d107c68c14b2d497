"""SPARe against replication on 600k GPUs (Lee et al. 2026)."""
