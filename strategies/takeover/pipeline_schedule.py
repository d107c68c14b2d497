"""When each stage of a pipeline does what: exact for any stage times, and the usual closed form.

In order ``1f1b`` stage i of p does ``min(p - 1 - i, m)`` micro-batches forward, then one forward
and one backward in turn, then the backward passes that are left (Narayanan et al. 2021, section
2.2). In order ``all-forward-first`` all forward passes come before all backward ones (Huang et al.
2019, GPipe). A forward pass needs the activations of the stage before, a backward pass the
gradients of the stage behind. Gradients leave when the backward pass is through, both of its
halves: frameworks go through it layer by layer.

``(m - 1) slowest + sum`` over the stages is exact for all-forward-first if all stages share their
time alike among forward and backward, and for 1F1B if all stages are equal. With one slow stage
1F1B is faster than that, the more so the farther the slow stage is from the end: while it waits
for its first gradient it goes on with forward passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from faultline.strategies.errors import StrategyError
from faultline.strategies.takeover.stage_work import StageWork

Order = Literal["1f1b", "all-forward-first"]
Kind = Literal["forward", "recompute", "input_gradient", "weight_gradient", "send"]


@dataclass(frozen=True, slots=True)
class Transfers:
    """Messages between neighbours; each direction of a link carries one at a time.

    Attributes
    ----------
    activation_s, gradient_s : float
        Seconds of a micro-batch's activations to the next stage, of their gradients to the one
        before.
    overlapped : bool
        Whether a stage computes on while it sends; else it waits until the message has arrived.
    """

    activation_s: float = 0.0
    gradient_s: float = 0.0
    overlapped: bool = True

    def __post_init__(self) -> None:
        for name in ("activation_s", "gradient_s"):
            if not getattr(self, name) >= 0:
                raise StrategyError(
                    f"transfers.{name}", f"{getattr(self, name)} cannot be", "use 0 or more"
                )


@dataclass(frozen=True, slots=True)
class Span:
    """What a stage does from when to when, in seconds after the start of the iteration."""

    kind: Kind
    micro_batch: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """What each stage of a pipeline does in an iteration, and when the last is through.

    Sends are there where a stage waits for them.
    """

    stages: tuple[tuple[Span, ...], ...]
    iteration_s: float


Step = tuple[Literal["forward", "backward"], int]
"""A pass of a micro-batch."""


def stage_order(stage: int, stages: int, micro_batches: int, order: Order = "1f1b") -> list[Step]:
    """Return the passes of a stage, one after the other."""
    ahead = (
        micro_batches if order == "all-forward-first" else min(stages - 1 - stage, micro_batches)
    )
    steps: list[Step] = [("forward", number) for number in range(ahead)]
    for number in range(micro_batches - ahead):
        steps += [("forward", ahead + number), ("backward", number)]
    steps += [("backward", number) for number in range(micro_batches - ahead, micro_batches)]
    return steps


def pipeline_timeline(
    stages: Sequence[StageWork],
    micro_batches: int,
    transfers: Transfers | None = None,
    order: Order = "1f1b",
) -> Timeline:
    """Return what each stage of a pipeline does when, exactly.

    Parameters
    ----------
    stages : sequence of StageWork
        Seconds of a micro-batch on each node, in the order of the pipeline; a node that does two
        stages is one of them.
    micro_batches : int
        Micro-batches of an iteration.
    transfers : Transfers, optional
        Messages between neighbours; they take no time by default.
    order : {"1f1b", "all-forward-first"}
        The order of passes on each stage.

    Raises
    ------
    StrategyError
        There is no stage, or no micro-batch.
    """
    _require_work(stages, micro_batches)
    players = [
        _Stage(work, stage_order(place, len(stages), micro_batches, order))
        for place, work in enumerate(stages)
    ]
    players[0].arrived = {("forward", number): 0.0 for number in range(micro_batches)}
    messages = transfers or Transfers()
    going_on = True
    while going_on:
        going_on = False
        for place, player in enumerate(players):
            before = players[place - 1] if place else None
            behind = players[place + 1] if place + 1 < len(players) else None
            while player.ready(last=behind is None):
                player.do_next(before, behind, messages)
                going_on = True
    return Timeline(
        stages=tuple(tuple(player.spans) for player in players),
        iteration_s=max(player.now_s for player in players),
    )


def approximate_iteration(costs: Sequence[float], micro_batches: int) -> float:
    """Return ``(m - 1) max + sum`` of the times of a micro-batch on each stage.

    Raises
    ------
    StrategyError
        There is no stage, or no micro-batch.
    """
    _require_work(costs, micro_batches)
    return (micro_batches - 1) * max(costs) + sum(costs)


class _Stage:
    """A stage on its way through its passes."""

    def __init__(self, work: StageWork, steps: list[Step]) -> None:
        self.work = work
        self.steps = steps
        self.done = 0
        self.now_s = 0.0
        self.spans: list[Span] = []
        self.arrived: dict[Step, float] = {}
        self._link_free_s = {"forward": 0.0, "backward": 0.0}

    def ready(self, *, last: bool) -> bool:
        """Return whether what the next pass needs has a time of arrival."""
        if self.done == len(self.steps):
            return False
        step = self.steps[self.done]
        return step in self.arrived or (last and step[0] == "backward")

    def do_next(self, before: _Stage | None, behind: _Stage | None, transfers: Transfers) -> None:
        """Do the next pass and send what comes out of it."""
        step = self.steps[self.done]
        self.done += 1
        # The last stage has the loss right after its forward pass.
        self.now_s = max(self.now_s, self.arrived.get(step, 0.0))
        if step[0] == "forward":
            self._spend("forward", step[1], self.work.forward.total)
            self._send(step, behind, transfers.activation_s, transfers.overlapped)
        else:
            self._spend("recompute", step[1], self.work.recompute.total)
            self._spend("input_gradient", step[1], self.work.input_gradient.total)
            self._spend("weight_gradient", step[1], self.work.weight_gradient.total)
            self._send(step, before, transfers.gradient_s, transfers.overlapped)

    def _spend(self, kind: Kind, micro_batch: int, seconds: float) -> None:
        if seconds > 0:
            self.spans.append(Span(kind, micro_batch, self.now_s, self.now_s + seconds))
            self.now_s += seconds

    def _send(self, step: Step, to: _Stage | None, seconds: float, overlapped: bool) -> None:
        if to is None:
            return
        if overlapped:
            self._link_free_s[step[0]] = max(self._link_free_s[step[0]], self.now_s) + seconds
            to.arrived[step] = self._link_free_s[step[0]]
        else:
            self._spend("send", step[1], seconds)
            to.arrived[step] = self.now_s


def _require_work(stages: Sequence[object], micro_batches: int) -> None:
    if not stages:
        raise StrategyError("stages", "a pipeline needs a stage", "give one or more")
    if micro_batches < 1:
        raise StrategyError("micro_batches", f"{micro_batches} are too few", "use 1 or more")
