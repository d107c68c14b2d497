"""Passes of a pipeline in given orders, in which stages may have unequal micro-batches.

If a stage has more or fewer micro-batches than its neighbour, its k-th one is paired with the
neighbour's at the same share of the step. Some of them belong to other pipelines, which send the
same bytes.

Without a barrier between steps, each stage counts time from its own start. A stage starts one
forward pass after the stage before it. So messages from that stage were sent one pass earlier, and
messages from the next stage one pass later, unless that stage was idle in between.
"""

from __future__ import annotations

from collections.abc import Sequence

from faultline.strategies.interface.pipeline_schedule import Pass

_IDLE = "."


class OrderedPasses:
    """The passes of each stage, in order.

    An order consists of F, B, W (weight gradients, if these are a pass of their own) and dots, at
    which the stage waits. If passes are `staggered`, there is no barrier between steps.
    """

    def __init__(self, orders: Sequence[str], staggered: bool) -> None:
        self._staggered = staggered
        self._loads = [order.count("F") for order in orders]
        self._splits = ["W" in order for order in orders]
        self._behind: dict[Pass, Pass] = {}
        self.stages = [self._of_stage(stage, order) for stage, order in enumerate(orders)]

    def _of_stage(self, stage: int, order: str) -> list[Pass]:
        counts, passes, waits = dict.fromkeys("FBW", 0), list[Pass](), False
        for kind in order:
            if kind != _IDLE:
                passes.append(Pass(kind == "F", stage, counts[kind], kind == "W"))
                counts[kind] += 1
                if kind == "F" and len(passes) > 1 and not waits:
                    self._behind[passes[-2]] = passes[-1]
            waits = kind == _IDLE
        return passes

    def share_of_backward(self, pass_: Pass) -> float:
        """Return the share of its stage's backward work that a pass does."""
        return 0.5 if self._splits[pass_.part] else 1.0

    def input_of(self, pass_: Pass) -> Pass | None:
        """Return the pass that a pass waits for, on another stage or its own; None without one."""
        _, stage, number, weights = pass_
        if weights or (pass_.forward and stage == 0):
            return None
        if not pass_.forward and stage == len(self._loads) - 1:
            return Pass(True, stage, number)
        near = stage - 1 if pass_.forward else stage + 1
        place = number * self._loads[near] // self._loads[stage]
        if not pass_.forward:
            return self._one_later(Pass(False, near, place))
        place -= self._staggered
        return Pass(True, near, place) if place >= 0 else None

    def receivers(self, pass_: Pass) -> list[Pass]:
        """Return the passes of the neighbour that receive a pass's result."""
        stage = pass_.part + (1 if pass_.forward else -1)
        if pass_.weights or not 0 <= stage < len(self._loads):
            return []
        sent = (Pass(pass_.forward, stage, number) for number in range(self._loads[stage]))
        return [one for one in sent if self._sender_of(one) == pass_]

    def _sender_of(self, pass_: Pass) -> Pass | None:
        needed = self.input_of(pass_)
        if needed is not None and needed.forward != pass_.forward:
            return next(one for one, later in self._behind.items() if later == needed)
        return needed

    def _one_later(self, pass_: Pass) -> Pass:
        return self._behind.get(pass_, pass_) if self._staggered else pass_
