"""Which nodes take over failed stages: neighbours in the same pipeline."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

Side = Literal["lighter", "before", "split"]
"""Which neighbour takes over."""


def tasks_by_node(stages: int, failed: Collection[int]) -> tuple[int, ...]:
    """Return how many stages each live node of a pipeline computes, in the order of the pipeline.

    Each node computes its own stage and failed ones next to it, so that its layers are contiguous.
    The assignment minimises the stages of the busiest node; among equals a failed stage goes to the
    node before it if that has room. The result depends only on the set of failed nodes, not on the
    order of failures. At least one node is live.
    """
    # Failed stages before the first live node, then behind each live node.
    runs = [0]
    for stage in range(stages):
        if stage in failed:
            runs[-1] += 1
        else:
            runs.append(0)
    limit = 1
    while (tasks := _assigned(runs, limit)) is None:
        limit += 1
    return tasks


def _assigned(runs: list[int], limit: int) -> tuple[int, ...] | None:
    """Assign up to `limit` stages to each node, those before it first; None if impossible."""
    waiting = runs[0]
    tasks = []
    for behind in runs[1:]:
        room = limit - 1 - waiting
        if room < 0:
            return None
        taken = min(behind, room)
        tasks.append(1 + waiting + taken)
        waiting = behind - taken
    return None if waiting else tuple(tasks)


class Carriers:
    """The node of each stage of a pipeline, as nodes fail and return one after another.

    The stages of a failed node go to the nearest live nodes. A returning node takes its own stage,
    and nothing else moves. A node may thus have three stages although two per node would be enough:
    `tasks_by_node` has the optimum. The `side` that takes over is the neighbour with fewer stages,
    or the one before if equal ("lighter"); always the one before ("before"); or both, where each
    stage goes to the one with fewer ("split"). If there is no neighbour on a side, the other one
    takes over.
    """

    def __init__(self, stages: int, side: Side) -> None:
        self._carrier = list(range(stages))
        self._side = side
        self._down: set[int] = set()

    def fail(self, stage: int) -> tuple[int, ...]:
        """Record that the node of a stage, which was up, fails; return the stages that it had."""
        self._down.add(stage)
        live = [node for node in range(len(self._carrier)) if node not in self._down]
        orphans = [task for task, node in enumerate(self._carrier) if node == stage]
        handed_over = tuple(orphans)
        if not live:
            return handed_over
        before = [node for node in live if node < stage][-1:]
        behind = [node for node in live if node > stage][:1]
        if self._side == "before":
            behind = [] if before else behind
        elif self._side == "lighter" and before and behind:
            if self._behind_is_lighter(before[0], behind[0]):
                before = []
            else:
                behind = []
        while orphans:
            # Each neighbour takes from its own side, so that its stages remain contiguous.
            if before and not (behind and self._behind_is_lighter(before[0], behind[0])):
                self._carrier[orphans.pop(0)] = before[0]
            else:
                self._carrier[orphans.pop()] = behind[0]
        return handed_over

    def come_back(self, stage: int) -> None:
        """Record that the node of a stage, which was down, is up again."""
        all_down = len(self._down) == len(self._carrier)
        self._down.discard(stage)
        if all_down:
            self._carrier = [stage] * len(self._carrier)
        self._carrier[stage] = stage

    def node_of(self, stage: int) -> int:
        """Return the node that computes a stage."""
        return self._carrier[stage]

    def tasks(self) -> tuple[int, ...]:
        """Return how many stages each live node computes, in the order of the pipeline."""
        nodes = range(len(self._carrier))
        return tuple(self._carrier.count(node) for node in nodes if node not in self._down)

    def _behind_is_lighter(self, before: int, behind: int) -> bool:
        return self._carrier.count(behind) < self._carrier.count(before)
