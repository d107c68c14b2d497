"""Random streams of the study, each named by its seed, its purpose and an index."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream is for; the numbers are part of what a seed means and never change."""

    LOST_NODES = 1
    LOST_DOMAINS = 2
    LIFETIMES = 3


_STUDY = 0x4D454D
"""Keeps these streams apart from those of runs and of other studies."""


def stream(seed: int, purpose: Purpose, index: int = 0) -> np.random.Generator:
    """Return a random stream of the study."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_STUDY, int(purpose), index))
    return np.random.Generator(np.random.PCG64(sequence))
