"""Who does which stage, where nodes of other pipelines stand in for one another."""

from __future__ import annotations

from collections.abc import Iterator

from faultline.strategies.recovery import Move
from faultline.strategies.takeover.lost_stages import LostStages


class Roles:
    """The stages that nodes do: their own, until they swap roles or come back to another.

    Parameters
    ----------
    groups : int
        Pipelines, each with a node of every stage.
    stages : int
        Stages.

    Attributes
    ----------
    left : list of int
        How many nodes do each stage.
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
        for group in range(self._groups):
            for node in self._stages:
                if node not in lost.of(group):
                    nodes[self.of(group, node)].setdefault(group, []).append(node)
        return nodes
