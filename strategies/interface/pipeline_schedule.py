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
from collections.abc import Iterator, Sequence
from itertools import count
from math import inf
from typing import NamedTuple

from faultline.strategies.interface.stage_work import StageWork


class Pass(NamedTuple):
    """A pass of a micro-batch over a part of the model: forward, backward or weight gradients."""

    forward: bool
    part: int
    micro_batch: int
    weights: bool = False


def stage_passes(
    stage: int, stages: int, virtual_stages: int, micro_batches: int
) -> Iterator[Pass]:
    """Yield the passes of a stage in the order in which it takes them.

    With more than one of `virtual_stages` the schedule is interleaved, and `micro_batches` is a
    multiple of `stages`.
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


def split_iteration(
    stages: Sequence[StageWork], micro_batches: int, orders: Sequence[str]
) -> float:
    """Return the exact time from one iteration to the next for given orders of passes.

    Each stage steps its optimizer independently, so that iterations follow each other at the
    longest time of any stage between its first and its last pass.

    Parameters
    ----------
    stages : sequence of StageWork
        Times of a micro-batch on each node, in the order of the pipeline; a node with two stages
        counts as one.
    micro_batches : int
        Micro-batches of an iteration.
    orders : sequence of str
        For each stage, as in `rerouted_schedule.Rerouted`. A stage without separate weight
        gradients computes them within its backward passes.
    """
    passes = [_passes(stage, order) for stage, order in enumerate(orders)]
    spans = _spans(stages, passes, micro_batches)
    return max(end - begin for begin, end in spans)


def _passes(stage: int, order: str) -> list[Pass]:
    """Parse the letters of a stage's passes."""
    counts = {letter: count() for letter in "FBW"}
    return [
        Pass(letter == "F", stage, next(counts[letter]), letter == "W")
        for letter in order
        if letter in counts
    ]


def _spans(
    stages: Sequence[StageWork], orders: Sequence[Sequence[Pass]], micro_batches: int
) -> list[tuple[float, float]]:
    """Return the times at which each stage begins its first pass and ends its last one."""
    last = len(stages) - 1
    waiting = list(map(deque, orders))
    splits = [any(each.weights for each in order) for order in orders]
    begins, ends = [inf] * len(stages), [0.0] * len(stages)
    # The last stage has the loss right after its forward pass.
    arrived: dict[Pass, float] = {}
    for number in range(micro_batches):
        arrived[Pass(True, 0, number)] = arrived[Pass(False, last, number)] = 0.0
    while any(waiting):
        for stage, (work, queue) in enumerate(zip(stages, waiting, strict=True)):
            while queue and (queue[0].weights or queue[0] in arrived):
                step = queue.popleft()
                if step.weights:
                    ends[stage] += work.weight_gradient.total
                    continue
                now = max(ends[stage], arrived[step])
                begins[stage] = min(begins[stage], now)
                parts = [work.forward]
                if not step.forward:
                    parts = [work.recompute, work.input_gradient, work.weight_gradient]
                    parts = parts[:2] if splits[stage] else parts
                for part in parts:
                    now += part.total
                # No stage waits for the last forward pass or the first stage's backward pass.
                following = stage + 1 if step.forward else stage - 1
                ends[stage] = arrived[Pass(step.forward, following, step.micro_batch)] = now
    return list(zip(begins, ends, strict=True))


def approximate_iteration(
    costs: Sequence[float], micro_batches: int, virtual_stages: int = 1
) -> float:
    """Return ``(m - 1) max + sum`` of the times of a micro-batch on each stage.

    With v virtual stages, filling and draining take 1/v of the time: ``m max + (sum - max) / v``.
    """
    slowest, total = max(costs), sum(costs)
    others = total - slowest
    return (micro_batches - 1) * slowest + total - others * (1.0 - 1.0 / virtual_stages)
