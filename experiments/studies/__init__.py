"""Published comparisons, simulated again: a folder per study, found by its `study.py`."""
