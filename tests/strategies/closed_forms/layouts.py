"""Layouts of copies judged by other means: every subset of failures, and a transfer matrix."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb

import numpy as np
from faultline.strategies.golomb import ruler_for


def sets_of(groups: int, redundancy: int) -> list[set[int]]:
    """Replication's sets of consecutive groups, the last one smaller where it must be."""
    return [
        set(range(first, min(first + redundancy, groups))) for first in range(0, groups, redundancy)
    ]


def outliving_by_enumeration(groups: int, sets: list[set[int]]) -> list[float]:
    """P(k): the share of all k-subsets of the groups that take no whole set."""
    probabilities = []
    for k in range(groups):
        subsets = (set(failed) for failed in combinations(range(groups), k))
        outlived = sum(not any(whole <= failed for whole in sets) for failed in subsets)
        probabilities.append(outlived / comb(groups, k))
    return probabilities


def ring_reliability(groups: int, redundancy: int) -> Callable[[float], float]:
    """Return R(p) of SPARe's layout exactly: the trace of a transfer matrix around the ring.

    Type i lives on the groups i - offset. A state is which of the last max(offset) groups are down;
    the next group must not complete the set of a type.
    """
    offsets = ruler_for(groups, redundancy)
    reach = offsets[-1]
    states = 2**reach
    others = sum(1 << (offset - 1) for offset in offsets if offset)

    def reliability(failed: float) -> float:
        matrix = np.zeros((states, states))
        for state in range(states):
            shifted = (state << 1) & (states - 1)
            matrix[state, shifted] += 1.0 - failed
            if state & others != others:
                matrix[state, shifted | 1] += failed
        return float(np.trace(np.linalg.matrix_power(matrix, groups)))

    return reliability
