"""Whole steps of a job that loses a node at a time and gets none back: Oobleck's artifact."""

from __future__ import annotations

from collections.abc import Sequence

SAMPLES_PER_S = (
    5.508, 5.324, 5.141, 4.957, 4.773, 4.809, 4.330, 4.185,
    3.947, 4.011, 4.154, 3.712, 3.593, 3.284, 3.531,
)  # fmt: skip
"""GPT-3 6.7B on 30 nodes down to 16 (branch sosp23-artifact)."""


def whole_steps(
    gap_s: float,
    samples_per_s: Sequence[float] = SAMPLES_PER_S,
    batch: int = 1024,
    start_s: float = 45.0,
    loss_s: float = 10.0,
) -> int:
    """Return the steps that are done before the last node goes.

    Parameters
    ----------
    gap_s : float
        Between two nodes that go, in seconds.
    samples_per_s : sequence of float
        Speed with all nodes, with one fewer, and so on; the job ends when there is none left.
    batch : int
        Samples of a step.
    start_s, loss_s : float
        At the beginning, and after each loss, until the job computes again, in seconds. The step
        under way is lost besides.
    """
    steps, idle_s = 0, start_s
    for speed in samples_per_s:
        steps += int((gap_s - idle_s) * speed / batch)
        idle_s = loss_s
    return steps
