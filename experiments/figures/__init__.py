"""Figures of sweeps and runs, one module per kind; their only input is tables."""
