"""nonuniform tensor parallelism on 32K GPUs (Arfeen et al. 2025)."""
