"""Errors of simulations in SimGrid."""

from __future__ import annotations


class SimulationError(RuntimeError):
    """SimGrid stopped a simulation; the message has the reason in one line."""


class KilledError(SimulationError):
    """The process of a simulation was killed."""
