"""In which order a stage of a pipeline takes its micro-batches: one forward, one backward.

References
----------
Narayanan et al. 2021, Efficient large-scale language model training on GPU clusters using
Megatron-LM, SC21 (arXiv 2104.04473), section 2.2, figure 4: both schedules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Pass(NamedTuple):
    """A micro-batch through one part of the model: forward, backward, or its weight gradients."""

    forward: bool
    part: int
    micro_batch: int
    weights: bool = False


def stage_passes(
    stage: int, stages: int, virtual_stages: int, micro_batches: int
) -> Iterator[Pass]:
    """Yield the passes of a stage in the order in which it takes them.

    Parameters
    ----------
    stage, stages : int
        Which of how many.
    virtual_stages : int
        Parts of the model on each; above 1 the schedule is interleaved, and `micro_batches` is a
        multiple of `stages`.
    micro_batches : int
        Micro-batches of a step.
    """
    total = micro_batches * virtual_stages
    ahead = stages - 1 - stage
    if virtual_stages > 1:
        ahead = 2 * ahead + (virtual_stages - 1) * stages
    ahead = min(ahead, total)

    def nth(number: int, *, forward: bool) -> Pass:
        round_, within = divmod(number, stages * virtual_stages)
        chunk, place = divmod(within, stages)
        if virtual_stages == 1:
            return Pass(forward, stage, number)
        if not forward:
            chunk = virtual_stages - 1 - chunk
        return Pass(forward, chunk * stages + stage, round_ * stages + place)

    for number in range(ahead):
        yield nth(number, forward=True)
    for number in range(total - ahead):
        yield nth(number + ahead, forward=True)
        yield nth(number, forward=False)
    for number in range(total - ahead, total):
        yield nth(number, forward=False)
