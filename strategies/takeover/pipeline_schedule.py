"""What an iteration of a pipeline takes: exact for any stage times, and the usual closed form.

In order 1F1B stage i of p does ``min(p - 1 - i, m)`` micro-batches forward, then one forward and
one backward in turn, then the backward passes that are left (Narayanan et al. 2021, section 2.2).
A forward pass needs the activations of the stage before, a backward pass the gradients of the stage
behind. Gradients leave when the backward pass is through, both of its halves: frameworks go through
it layer by layer. Messages take no time.

``(m - 1) slowest + sum`` over the stages is exact if all stages are equal, or all but the last.
With one slow stage 1F1B is faster than that, the more so the farther the slow stage is from the
end: while it waits for its first gradient it goes on with forward passes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

from faultline.strategies.errors import StrategyError
from faultline.strategies.takeover.stage_work import StageWork

Pass = tuple[Literal["forward", "backward"], int]
"""A pass of a micro-batch."""


def stage_order(stage: int, stages: int, micro_batches: int) -> list[Pass]:
    """Return the passes of a stage, one after the other."""
    ahead = min(stages - 1 - stage, micro_batches)
    passes: list[Pass] = [("forward", number) for number in range(ahead)]
    for number in range(micro_batches - ahead):
        passes += [("forward", ahead + number), ("backward", number)]
    passes += [("backward", number) for number in range(micro_batches - ahead, micro_batches)]
    return passes


def exact_iteration(stages: Sequence[StageWork], micro_batches: int) -> float:
    """Return what an iteration takes, exactly, in the unit of the stages' times.

    Parameters
    ----------
    stages : sequence of StageWork
        What a micro-batch takes on each node, in the order of the pipeline; a node that does two
        stages is one of them.
    micro_batches : int
        Micro-batches of an iteration.

    Raises
    ------
    StrategyError
        There is no stage, or no micro-batch.
    """
    _require_work(stages, micro_batches)
    last = len(stages) - 1
    todo = [deque(stage_order(place, last + 1, micro_batches)) for place in range(last + 1)]
    ends = [0.0] * len(stages)
    # The last stage has the loss right after its forward pass.
    arrived: dict[tuple[int, Pass], float] = {}
    for number in range(micro_batches):
        arrived[0, ("forward", number)] = arrived[last, ("backward", number)] = 0.0
    while any(todo):
        for place, work in enumerate(stages):
            while todo[place] and (place, todo[place][0]) in arrived:
                step = todo[place].popleft()
                now, following = max(ends[place], arrived[place, step]), place + 1
                parts = [work.forward]
                if step[0] == "backward":
                    parts = [work.recompute, work.input_gradient, work.weight_gradient]
                    following = place - 1
                for part in parts:
                    now += part.total
                # From the last stage forward, and from the first back, nobody waits for it.
                ends[place] = arrived[following, step] = now
    return max(ends)


def approximate_iteration(
    costs: Sequence[float], micro_batches: int, virtual_stages: int = 1
) -> float:
    """Return ``(m - 1) max + sum`` of the times of a micro-batch on each stage.

    With v virtual stages it takes 1/v of the time to fill and drain: ``m max + (sum - max) / v``.

    Raises
    ------
    StrategyError
        There is no stage, or no micro-batch.
    """
    _require_work(costs, micro_batches)
    most, whole = max(costs), sum(costs)
    return (micro_batches - 1) * most + whole - (whole - most) * (1.0 - 1.0 / virtual_stages)


def _require_work(stages: Sequence[object], micro_batches: int) -> None:
    if not stages:
        raise StrategyError("stages", "a pipeline needs a stage", "give one or more")
    if micro_batches < 1:
        raise StrategyError("micro_batches", f"{micro_batches} are too few", "use 1 or more")
