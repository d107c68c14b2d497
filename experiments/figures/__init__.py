"""Pictures of sweeps and runs, a module a kind; they read tables and nothing else."""
