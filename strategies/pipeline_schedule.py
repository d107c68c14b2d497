"""The time of a pipeline iteration: exact for any stage times, and the usual closed form.

In 1F1B order stage i of p computes ``min(p - 1 - i, m)`` micro-batches forward, then one forward
and one backward in turn, then the remaining backward passes (Narayanan et al. 2021, section 2.2).
A forward pass needs the activations of the stage before, a backward pass the gradients of the stage
behind. Gradients leave at the end of the whole backward pass, since frameworks run it layer by
layer. Messages take no time.

``(m - 1) slowest + sum`` over the stages is exact if all stages are equal, or all but the last.
With one slow stage 1F1B is faster, and more so the farther that stage is from the end: it continues
with forward passes while it waits for its first gradient.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count
from math import inf
from typing import Literal

from faultline.strategies.stage_work import StageWork

Pass = tuple[Literal["forward", "backward", "weights"], int]
"""A pass of a micro-batch; a backward pass that is not split includes weight gradients."""


def stage_order(stage: int, stages: int, micro_batches: int) -> list[Pass]:
    """Return the passes of a stage in 1F1B order."""
    ahead = min(stages - 1 - stage, micro_batches)
    passes: list[Pass] = [("forward", number) for number in range(ahead)]
    for number in range(micro_batches - ahead):
        passes += [("forward", ahead + number), ("backward", number)]
    passes += [("backward", number) for number in range(micro_batches - ahead, micro_batches)]
    return passes


def exact_iteration(stages: Sequence[StageWork], micro_batches: int) -> float:
    """Return the exact time of an iteration, in the unit of the stages' times.

    Parameters
    ----------
    stages : sequence of StageWork
        Times of a micro-batch on each node, in the order of the pipeline; a node with two stages
        counts as one.
    micro_batches : int
        Micro-batches of an iteration.
    """
    places = range(len(stages))
    orders = [stage_order(place, len(stages), micro_batches) for place in places]
    return max(end for _, end in _spans(stages, orders, micro_batches))


def split_iteration(
    stages: Sequence[StageWork], micro_batches: int, orders: Sequence[str]
) -> float:
    """Return the exact time from one iteration to the next for given orders of passes.

    Each stage steps its optimizer independently, so that iterations follow each other at the
    longest time of any stage between its first and its last pass.

    Parameters
    ----------
    stages, micro_batches
        As in `exact_iteration`.
    orders : sequence of str
        For each stage, as in `rerouted_schedule.Rerouted`. A stage without separate weight
        gradients computes them within its backward passes.
    """
    spans = _spans(stages, list(map(_passes, orders)), micro_batches)
    return max(end - begin for begin, end in spans)


def _passes(order: str) -> list[Pass]:
    """Parse the letters of a stage's passes."""
    counts = {"F": count(), "B": count(), "W": count()}
    kinds: dict[str, Literal["forward", "backward", "weights"]]
    kinds = {"F": "forward", "B": "backward", "W": "weights"}
    return [(kinds[letter], next(counts[letter])) for letter in order if letter in kinds]


def _spans(
    stages: Sequence[StageWork], orders: Sequence[Sequence[Pass]], micro_batches: int
) -> list[tuple[float, float]]:
    """Return when each stage begins its first pass and ends its last one."""
    last = len(stages) - 1
    todo = list(map(deque, orders))
    splits = [any(kind == "weights" for kind, _ in order) for order in orders]
    begins, ends = [inf] * len(stages), [0.0] * len(stages)
    # The last stage has the loss right after its forward pass.
    arrived: dict[tuple[int, Pass], float] = {}
    for number in range(micro_batches):
        arrived[0, ("forward", number)] = arrived[last, ("backward", number)] = 0.0
    while any(todo):
        for place, work in enumerate(stages):
            while todo[place] and (
                todo[place][0][0] == "weights" or (place, todo[place][0]) in arrived
            ):
                step = todo[place].popleft()
                if step[0] == "weights":
                    ends[place] += work.weight_gradient.total
                    continue
                now, following = max(ends[place], arrived[place, step]), place + 1
                begins[place] = min(begins[place], now)
                parts = [work.forward]
                if step[0] == "backward":
                    parts = [work.recompute, work.input_gradient, work.weight_gradient]
                    parts = parts[:2] if splits[place] else parts
                    following = place - 1
                for part in parts:
                    now += part.total
                # No stage waits for the last forward pass or the first stage's backward pass.
                ends[place] = arrived[following, step] = now
    return list(zip(begins, ends, strict=True))


def approximate_iteration(
    costs: Sequence[float], micro_batches: int, virtual_stages: int = 1
) -> float:
    """Return ``(m - 1) max + sum`` of the times of a micro-batch on each stage.

    With v virtual stages, filling and draining take 1/v of the time: ``m max + (sum - max) / v``.
    """
    most, whole = max(costs), sum(costs)
    return (micro_batches - 1) * most + whole - (whole - most) * (1.0 - 1.0 / virtual_stages)
