"""Mitigation of stragglers."""
