"""One random stream per component; no stream is shared or global.

A stream is named by the run's seed, a purpose and an index. It depends on nothing else. So all
schemes have the same failures, and a run has the same result on any machine and with any number of
workers.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """The purpose of a stream. The numbers define the meaning of a seed and never change."""

    GROUP_FAILURES = 1
    COMPUTE_JITTER = 2
    RANK_COMPUTE_JITTER = 3
    CAUSE_TIMES = 4
    CAUSE_PLACES = 5
    CAUSE_REPAIRS = 6
    GROUP_FAILURE_PLACES = 7
    RECOVERY_TIMES = 8
    CAUSE_LENGTHS = 9
    CAUSE_FACTORS = 10
    CAUSE_SIZES = 11
    BURSTS = 12
    LEMONS = 13
    RECURRENCES = 14
    STANDBY_LIVES = 20
    MODEL_WEIGHTS = 30
    TRAINING_TEXT = 31
    HELD_OUT_TEXT = 32
    PRIOR_SAMPLES = 40


def stream(seed: int, purpose: Purpose, index: int = 0) -> np.random.Generator:
    """Return the random stream of one component.

    The seed is not negative; `index` is the number of the component.
    """
    # The same as SeedSequence(seed, spawn_key=(purpose, index)), which converts the numbers one by
    # one and takes twice as long. It matters for the streams of 100,000 groups.
    words = np.frombuffer(_words(seed, 4) + _words(purpose) + _words(index), "<u4")
    sequence = np.random.SeedSequence(words.astype(np.uint32, copy=False))
    return np.random.Generator(np.random.PCG64(sequence))


def _words(number: int, least: int = 1) -> bytes:
    """Return a number as at least `least` words of 32 bits, the lowest first."""
    return number.to_bytes(4 * max(least, -(-number.bit_length() // 32)), "little")
