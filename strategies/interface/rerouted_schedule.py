"""An iteration of pipelines of which some stages have fewer workers than others (ReCycle).

D pipelines of p stages have m micro-batches each. A stage with n of its D workers left assigns the
micro-batches of all pipelines to them round robin, so that its busiest worker has
``ceil(m D / n)``. The unit of time is t, a micro-batch's forward and backward pass on a stage.

No iteration is shorter than ``max(m + p - 1, m D / n) t``: the time of a healthy pipeline, or the
busy time of the stage with the fewest workers. With m >= p, two techniques come within one
micro-batch of this bound:

- *Split backward*: input gradients are computed at once, since the stage before waits for them;
  weight gradients are computed later, when a worker would idle.
- *Staggered optimizer*: each stage steps its optimizer after its own all-reduce. A stage that
  begins later than the first may end that much later, so the bubbles at both ends of an iteration
  are filled as well. Iterations follow each other at the longest time of any stage between its
  first forward pass and its last weight gradient.

With fewer micro-batches than stages a worker may idle before its first gradient arrives. Stage s,
whose busiest worker has M micro-batches, takes at least ``M t``, plus the time by which
``2 (p - s) - 1`` passes to the end of the pipeline and back exceed its M forward passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import accumulate
from math import ceil, inf

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ScheduleTechniques:
    """Techniques that a schedule may use besides re-routing."""

    # See the module's docstring.
    split_backward: bool = True
    staggered_optimizer: bool = True
    # Micro-batches whose weight gradients a worker may postpone, over those in flight in the first
    # stage of a healthy pipeline; scaled by the worker's load.
    activations_held: float = 1.5
    most_held: float = inf  # Micro-batches whose activations fit into a worker's memory.

    def held(self, load: int, stages: int, micro_batches: int) -> float:
        """Return the micro-batches whose activations a worker with this load would keep."""
        return self.activations_held * ceil(stages * load / micro_batches)


@dataclass(frozen=True, slots=True)
class Rerouted:
    """An iteration of re-routed micro-batches: the time from one to the next, in t.

    For each stage, `orders` lists the passes of its busiest worker: F forward, B backward, W weight
    gradients that are not part of B, a dot for a wait.
    """

    time: float
    orders: tuple[str, ...]

    @property
    def most_held(self) -> int:
        """Most micro-batches whose activations a worker keeps at once."""
        return max(map(_most_held, self.orders))


def _most_held(order: str) -> int:
    releases = "W" if "W" in order else "B"
    return max(accumulate((kind == "F") - (kind == releases) for kind in order))


@lru_cache(maxsize=4096)
def rerouted(
    loads: tuple[int, ...], micro_batches: int, backward_share: float, allowed: ScheduleTechniques
) -> Rerouted:
    """Return the fastest iteration; the backward pass is split only if that is faster.

    `loads` are the micro-batches of each stage's busiest worker, `micro_batches` those of a
    pipeline. The backward pass takes `backward_share` of t; half of it is weight gradients.
    """
    splits = (False, True) if allowed.split_backward else (False,)
    iterations = (
        _Schedule(loads, micro_batches, backward_share, split, allowed).iteration()
        for split in splits
    )
    return min(iterations, key=lambda iteration: iteration.time)


class _Schedule:
    """The busiest worker of each stage: backward passes first, then forward, weights if idle.

    A stage with more micro-batches than its neighbour shares one stream with it: a micro-batch is
    available when the neighbour's at the same relative place is.
    """

    def __init__(
        self,
        loads: Sequence[int],
        micro_batches: int,
        backward_share: float,
        split: bool,
        allowed: ScheduleTechniques,
    ) -> None:
        stages = len(loads)
        self._loads, self._staggered, self._split = loads, allowed.staggered_optimizer, split
        self._forward = 1.0 - backward_share
        self._gradient = backward_share / 2 if split else backward_share
        self._weight = backward_share / 2
        self._forward_ends: list[list[float]] = [[] for _ in loads]
        self._gradient_ends: list[list[float]] = [[] for _ in loads]
        self._weights = [0] * stages
        self._begin, self._free = [0.0] * stages, [0.0] * stages
        ahead = [2 * (stages - s) - 1 if split else stages - s for s in range(stages)]
        self._in_flight = [
            ceil(number * load / micro_batches) for number, load in zip(ahead, loads, strict=True)
        ]
        fits = allowed.most_held if allowed.most_held == inf else max(1, int(allowed.most_held))
        self._held = [
            min(fits, allowed.held(load, stages, micro_batches) if split else inf) for load in loads
        ]
        self._orders: list[list[str]] = [[] for _ in loads]

    def iteration(self) -> Rerouted:
        """Return the time from one iteration to the next, and the passes of each worker."""
        waking = [(0.0, stage) for stage in range(len(self._loads))]
        while waking:
            now, stage = heappop(waking)
            if self._free[stage] > now + _ROUNDING:
                continue
            end, wakes = self._do_next(stage, now)
            if end > now:
                self._free[stage] = end
                heappush(waking, (end, stage))
                if 0 <= wakes < len(self._loads):
                    heappush(waking, (end, wakes))
        times = zip(self._begin, self._free, strict=True)
        time = max(end - begin if self._staggered else end for begin, end in times)
        return Rerouted(time, tuple(map("".join, self._orders)))

    def _do_next(self, stage: int, now: float) -> tuple[float, int]:
        """Begin the next pass of a free worker; return its end and the stage that may wake."""
        forward, gradient = self._forward_ends[stage], self._gradient_ends[stage]
        postponed, order = len(forward) - self._weights[stage], self._orders[stage]
        waited = "." if order and now > self._free[stage] + _ROUNDING else ""
        if self._gradient_arrives(stage) <= now + _ROUNDING:
            order.append(f"{waited}B")
            gradient.append(now + self._gradient)
            self._weights[stage] += not self._split
            return gradient[-1], stage - 1
        has_room = (
            len(forward) - len(gradient) < self._in_flight[stage] and postponed < self._held[stage]
        )
        if has_room and self._input_arrives(stage) <= now + _ROUNDING:
            if not forward:
                self._begin[stage] = now
            order.append(f"{waited}F")
            forward.append(now + self._forward)
            return forward[-1], stage + 1
        if self._weights[stage] < len(gradient):
            order.append(f"{waited}W")
            self._weights[stage] += 1
            return now + self._weight, -1
        return now, -1

    def _input_arrives(self, stage: int) -> float:
        number, load = len(self._forward_ends[stage]), self._loads[stage]
        if number == load or not stage:
            return inf if number == load else 0.0
        return _at(self._forward_ends[stage - 1], number * self._loads[stage - 1] // load)

    def _gradient_arrives(self, stage: int) -> float:
        number, own = len(self._gradient_ends[stage]), self._forward_ends[stage]
        if number == len(own):
            return inf
        if stage == len(self._loads) - 1:
            return own[number]
        place = number * self._loads[stage + 1] // self._loads[stage]
        return _at(self._gradient_ends[stage + 1], place)


def _at(ends: Sequence[float], place: int) -> float:
    return ends[place] if place < len(ends) else inf
