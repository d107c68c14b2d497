"""Who takes over failed stages: nodes next to them in the same pipeline, or peers of others."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from faultline.strategies.errors import StrategyError
from faultline.strategies.recovery import Move
from faultline.strategies.takeover.pipeline_scheme import LostStages

Side = Literal["lighter", "before", "split"]
"""Which neighbour takes over."""


def tasks_by_node(stages: int, failed: Collection[int]) -> tuple[int, ...]:
    """Return how many stages each live node of a pipeline does, in the order of the pipeline.

    Each node does its own stage and failed ones next to it, so that what a node does is one piece
    of the model. Of all ways to share them out the fullest node has as few as can be; of those, a
    failed stage goes to the node before it where that has room. The outcome depends on who is down
    only, not on the order in which they failed.

    Raises
    ------
    StrategyError
        No node is left, or a failed stage is not there.
    """
    down = set(failed)
    strangers = sorted(stage for stage in down if not 0 <= stage < stages)
    if strangers:
        raise StrategyError("failed", f"there is no stage {strangers[0]}", f"use 0 to {stages - 1}")
    if len(down) >= stages:
        raise StrategyError("failed", "no node of the pipeline is left", "restart the pipeline")
    # Failed stages before the first live node, then behind each of them.
    runs = [0]
    for stage in range(stages):
        if stage in down:
            runs[-1] += 1
        else:
            runs.append(0)
    most = 1
    while (shared := _shared_out(runs, most)) is None:
        most += 1
    return shared


def _shared_out(runs: list[int], most: int) -> tuple[int, ...] | None:
    """Give each node what waits before it, then what it has room for behind; None if it cannot."""
    waiting = runs[0]
    tasks = []
    for behind in runs[1:]:
        room = most - 1 - waiting
        if room < 0:
            return None
        taken = min(behind, room)
        tasks.append(1 + waiting + taken)
        waiting = behind - taken
    return None if waiting else tuple(tasks)


class Carriers:
    """Which node of a pipeline does which stages, as nodes fail and come back one after another.

    What a failed node did goes to the live nodes next to it, past nodes that are down. A node that
    comes back takes its own stage, and nothing else moves. Nodes thus come to do three stages
    though none of them would need more than two: `tasks_by_node` has the least there could be.

    Parameters
    ----------
    stages : int
        Stages of the pipeline, a node each.
    side : {"lighter", "before", "split"}
        Who takes over: the neighbour that does fewer stages, the one before where they do as many;
        always the one before; or both, stage by stage that which does fewer. Where there is none
        on a side, the other does.
    """

    def __init__(self, stages: int, side: Side) -> None:
        self._carrier = list(range(stages))
        self._side = side
        self._down: set[int] = set()

    def fail(self, stage: int) -> tuple[int, ...]:
        """The node of a stage goes down; it was up. Returns the stages that it did."""
        self._down.add(stage)
        live = [node for node in range(len(self._carrier)) if node not in self._down]
        orphans = [task for task, node in enumerate(self._carrier) if node == stage]
        handed_on = tuple(orphans)
        if not live:
            return handed_on
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
            # Each neighbour takes from its own side, so that what it does stays in one piece.
            if before and not (behind and self._behind_is_lighter(before[0], behind[0])):
                self._carrier[orphans.pop(0)] = before[0]
            else:
                self._carrier[orphans.pop()] = behind[0]
        return handed_on

    def come_back(self, stage: int) -> None:
        """The node of a stage is up again; it was down."""
        alone = len(self._down) == len(self._carrier)
        self._down.discard(stage)
        if alone:
            self._carrier = [stage] * len(self._carrier)
        self._carrier[stage] = stage

    def node_of(self, stage: int) -> int:
        """Return the node that does a stage."""
        return self._carrier[stage]

    def tasks(self) -> tuple[int, ...]:
        """Return how many stages each live node does, in the order of the pipeline."""
        nodes = range(len(self._carrier))
        return tuple(self._carrier.count(node) for node in nodes if node not in self._down)

    def _behind_is_lighter(self, before: int, behind: int) -> bool:
        return self._carrier.count(behind) < self._carrier.count(before)


class Roles:
    """The stages that nodes do: their own, until they swap roles or come back to another.

    Each group is a pipeline with a node of every stage; `left` is how many nodes do each stage.
    """

    def __init__(self, groups: int, stages: int) -> None:
        self._groups, self._stages = groups, range(stages)
        self._changed: dict[tuple[int, int], int] = {}
        self.left = [groups] * stages

    def of(self, group: int, node: int) -> int:
        """Return the stage that a node does."""
        return self._changed.get((group, node), node)

    def lose(self, group: int, node: int) -> None:
        """A node is lost, and whoever comes in its place has no role yet."""
        self.left[self.of(group, node)] -= 1
        self._changed.pop((group, node), None)

    def take(self, group: int, node: int, role: int) -> Move:
        """Let a node do a stage, whose state it copies from a peer."""
        self.left[role] += 1
        self._changed[group, node] = role
        return Move(group, node, role, len(self._stages))

    def lacking(self, own: int) -> int:
        """Return the stage that has the fewest nodes, of several a node's own."""
        return min(self._stages, key=lambda stage: (self.left[stage], stage != own))

    def even_out(self, lost: LostStages) -> Iterator[Move]:
        """Let nodes that are not lost change roles until no stage has two more than another."""
        left = self.left
        while max(left) - min(left) > 1:
            most, fewest = left.index(max(left)), left.index(min(left))
            group, node = next(
                (group, node)
                for group in range(self._groups)
                for node in self._stages
                if self.of(group, node) == most and node not in lost.of(group)
            )
            left[most] -= 1
            yield self.take(group, node, fewest)

    def by_stage(self, lost: LostStages) -> list[dict[int, list[int]]]:
        """Return the nodes that do each stage, by their groups."""
        nodes: list[dict[int, list[int]]] = [{} for _ in self._stages]
        changed = {group for group, _ in self._changed}
        for group in range(self._groups):
            if group not in changed and not lost.of(group):
                for node, at in enumerate(nodes):
                    at[group] = [node]
                continue
            for _, node in lost.live(group):
                nodes[self.of(group, node)].setdefault(group, []).append(node)
        return nodes
