"""Random streams of the study, each named by its seed, its purpose and an index."""

from __future__ import annotations

from enum import Enum

import numpy as np


class Purpose(Enum):
    """What a stream is for; the numbers are part of what a seed means and never change."""

    PLACEMENTS = 1
    TRACE = 2
    AVAILABILITY = 3
    BLASTS = 4
    FAILING_SPARES = 5


_STUDY = 0x4E5450
"""Keeps these streams apart from those of runs, which have keys of two numbers."""


def stream(seed: int, purpose: Purpose, index: int = 0) -> np.random.Generator:
    """Return a random stream of the study."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_STUDY, purpose.value, index))
    return np.random.Generator(np.random.PCG64(sequence))
