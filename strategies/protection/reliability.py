"""Closed forms: the survival probability of state in host memory, and the wasted time of failures.

Nodes fail independently, each with probability F within the period considered.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb, expm1, log1p


def loss_probability(failed: float, nodes: int, group: int, tolerated: int) -> float:
    """Return the probability that some group loses more nodes than it tolerates.

    ``1 - [sum over k <= t of C(n, k) F^k (1 - F)^(n - k)]^(m / n)`` (Wang et al. 2023 (REFT)): a
    group of n nodes survives up to t losses, and all m/n groups have to survive.

    Parameters
    ----------
    failed : float
        Probability F that a node has failed.
    nodes, group : int
        Total nodes m, and nodes n per group.
    tolerated : int
        Losses t that a group survives; 0 for state without protection.
    """
    if tolerated == 0:
        return 1.0 if failed >= 1.0 else -expm1(nodes * log1p(-failed))
    lost = sum(
        comb(group, k) * failed**k * (1.0 - failed) ** (group - k)
        for k in range(tolerated + 1, group + 1)
    )
    return 1.0 if lost >= 1.0 else -expm1(nodes / group * log1p(-lost))


def time_to_loss(
    probability: float,
    failed_by: Callable[[float], float],
    nodes: int,
    group: int,
    tolerated: int,
    longest: float,
) -> float:
    """Return the time at which the loss probability reaches `probability`.

    `failed_by` is the probability that a node has failed by a time; it defines the unit of time.
    The probability is reached by `longest`.
    """
    from scipy.optimize import brentq

    def excess(time: float) -> float:
        return loss_probability(failed_by(time), nodes, group, tolerated) - probability

    return float(brentq(excess, 0.0, longest, xtol=1e-12 * longest))


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


def weibull_failed_by(scale: float, shape: float) -> Callable[[float], float]:
    """Return F(t) = 1 - exp(-(t / scale)^shape)."""
    return lambda time: -expm1(-((time / scale) ** shape))


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
