"""GEMINI's closed forms: its bound of the survival of state, and the time that a failure wastes."""

from __future__ import annotations

from math import comb


def gemini_recovery_bound(machines: int, group: int, lost: int) -> float:
    """Return the lower bound of the probability that memory holds all state after `lost` losses.

    ``max(0, 1 - (N/m) C(N - m, k - m) / C(N, k))``, and 1 for k < m: each of N/m groups of m
    machines keeps m replicas, and is lost with probability C(N-m, k-m) / C(N, k). The bound is the
    sum over groups (Wang et al. 2023 (GEMINI), SOSP).
    """
    if lost < group:
        return 1.0
    group_lost = comb(machines - group, lost - group) / comb(machines, lost)
    return max(0.0, 1.0 - machines // group * group_lost)


def wasted_time_s(checkpoint_s: float, interval_s: float, retrieval_s: float) -> float:
    """Return the mean time that a failure wastes: ``t_ckpt + 1/(2f) + t_retrieval``.

    A failure occurs, on average, half an interval after the start of a checkpoint. If that one is
    incomplete, an older one is used (Wang et al. 2023 (GEMINI), SOSP).

    Parameters
    ----------
    checkpoint_s : float
        Time t_ckpt until a checkpoint is complete, in seconds.
    interval_s : float
        Time 1/f between two checkpoints, in seconds; at least t_ckpt, and at least an iteration.
    retrieval_s : float
        Time t_retrieval to load a checkpoint, in seconds.
    """
    return checkpoint_s + interval_s / 2.0 + retrieval_s


def expected_wasted_time_s(in_memory: float, memory_s: float, storage_s: float) -> float:
    """Return the mean wasted time of a failure; memory survives it with probability `in_memory`."""
    return in_memory * memory_s + (1.0 - in_memory) * storage_s
