"""Scenarios, runs, reproductions, figures, and the command line `faultline`."""
