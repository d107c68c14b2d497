"""Collectives as messages between rank actors."""
