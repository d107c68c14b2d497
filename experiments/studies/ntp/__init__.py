"""The study of Arfeen et al. 2025 (nonuniform tensor parallelism): settings, runs, figures."""
