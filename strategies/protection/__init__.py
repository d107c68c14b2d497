"""Protections of a job's state, usable with each scheme: one module per protection."""
