"""Errors of simulations in SimGrid."""

from __future__ import annotations


class SimulationError(RuntimeError):
    """SimGrid stopped a simulation; the message says why in one line."""


class KilledError(SimulationError):
    """Somebody killed the process of a simulation."""
