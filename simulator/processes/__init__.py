"""Processes of simulations: one for each, supervised."""
