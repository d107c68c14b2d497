"""Closed forms beside simulation: Monte Carlo of wipe-outs and work, and runs of whole jobs."""
