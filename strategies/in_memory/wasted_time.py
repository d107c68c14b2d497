"""What a failure costs, by how often the state is checkpointed and where it is kept."""

from __future__ import annotations

from faultline.strategies.errors import StrategyError


def wasted_time_s(checkpoint_s: float, interval_s: float, retrieval_s: float) -> float:
    """Return the mean time that a failure wastes: ``t_ckpt + 1/(2f) + t_retrieval``.

    A failure comes, on average, half an interval after a checkpoint was begun; what that one
    holds is of use if it is complete, else an older one is (Wang et al. 2023 (GEMINI), SOSP).

    Parameters
    ----------
    checkpoint_s : float
        Time t_ckpt until a checkpoint is complete, in seconds.
    interval_s : float
        Time 1/f between two checkpoints, in seconds; at least t_ckpt, and at least an iteration.
    retrieval_s : float
        Time t_retrieval to bring a checkpoint back, in seconds.

    Raises
    ------
    StrategyError
        If checkpoints would overlap.
    """
    if interval_s < checkpoint_s:
        raise StrategyError(
            "interval_s",
            f"a checkpoint of {checkpoint_s:g} s every {interval_s:g} s",
            f"use at least {checkpoint_s:g} s",
        )
    return checkpoint_s + interval_s / 2.0 + retrieval_s


def expected_wasted_time_s(in_memory: float, memory_s: float, storage_s: float) -> float:
    """Return the mean wasted time of a failure that memory survives with a probability.

    Parameters
    ----------
    in_memory : float
        Probability that memory still holds all state.
    memory_s, storage_s : float
        Wasted time of a recovery from memory and from storage, in seconds.
    """
    return in_memory * memory_s + (1.0 - in_memory) * storage_s
