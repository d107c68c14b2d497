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

from collections import defaultdict, deque
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
    sent, last = transfers or Transfers(), len(stages) - 1
    todo = [deque(stage_order(at, last + 1, micro_batches, order)) for at in range(last + 1)]
    spans: list[list[Span]] = [[] for _ in stages]
    ends_s, links_free_s = [0.0] * len(stages), defaultdict[tuple[int, str], float](float)
    # The last stage has the loss right after its forward pass.
    arrived: dict[tuple[int, Step], float] = {}
    for number in range(micro_batches):
        arrived[0, ("forward", number)] = arrived[last, ("backward", number)] = 0.0
    while any(todo):
        for place, work in enumerate(stages):
            while todo[place] and (place, todo[place][0]) in arrived:
                step = todo[place].popleft()
                now_s = max(ends_s[place], arrived[place, step])
                parts: list[tuple[Kind, float]] = [("forward", work.forward.total)]
                to, message_s = place + 1, sent.activation_s
                if step[0] == "backward":
                    parts = [
                        ("recompute", work.recompute.total),
                        ("input_gradient", work.input_gradient.total),
                        ("weight_gradient", work.weight_gradient.total),
                    ]
                    to, message_s = place - 1, sent.gradient_s
                has_message = 0 <= to <= last
                if has_message and not sent.overlapped:
                    parts.append(("send", message_s))
                for kind, seconds in parts:
                    if seconds > 0:
                        spans[place].append(Span(kind, step[1], now_s, now_s + seconds))
                        now_s += seconds
                ends_s[place] = now_s
                if has_message and sent.overlapped:
                    # A direction of a link carries one message at a time.
                    now_s = max(links_free_s[place, step[0]], now_s) + message_s
                    links_free_s[place, step[0]] = now_s
                if has_message:
                    arrived[to, step] = now_s
    return Timeline(tuple(map(tuple, spans)), max(ends_s))


def approximate_iteration(costs: Sequence[float], micro_batches: int) -> float:
    """Return ``(m - 1) max + sum`` of the times of a micro-batch on each stage.

    Raises
    ------
    StrategyError
        There is no stage, or no micro-batch.
    """
    _require_work(costs, micro_batches)
    return (micro_batches - 1) * max(costs) + sum(costs)


def _require_work(stages: Sequence[object], micro_batches: int) -> None:
    if not stages:
        raise StrategyError("stages", "a pipeline needs a stage", "give one or more")
    if micro_batches < 1:
        raise StrategyError("micro_batches", f"{micro_batches} are too few", "use 1 or more")
