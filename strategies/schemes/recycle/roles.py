"""The stages that nodes of a ReCycle job compute, as they are lost and return."""

from __future__ import annotations

from collections.abc import Iterator

from faultline.strategies.interface.recovery import Move
from faultline.strategies.schemes.takeover.pipeline_scheme import LostStages


class Roles:
    """The stages that nodes compute: their own, until they swap roles or return to another.

    Each group is a pipeline with one node per stage. `nodes_left` has the number of live nodes of
    each stage.
    """

    def __init__(self, groups: int, stages: int) -> None:
        self._groups, self._stages = groups, range(stages)
        self._changed: dict[tuple[int, int], int] = {}
        self.nodes_left = [groups] * stages

    def of(self, group: int, node: int) -> int:
        """Return the stage that a node computes."""
        return self._changed.get((group, node), node)

    def lose(self, group: int, node: int) -> None:
        """Record the loss of a node; its replacement has no role yet."""
        self.nodes_left[self.of(group, node)] -= 1
        self._changed.pop((group, node), None)

    def take(self, group: int, node: int, role: int) -> Move:
        """Assign a stage to a node; return the move of its state from a peer."""
        self.nodes_left[role] += 1
        self._changed[group, node] = role
        return Move(group, node, role, len(self._stages))

    def fewest(self, own: int) -> int:
        """Return the stage with the fewest nodes; among equals a node's own."""
        return min(self._stages, key=lambda stage: (self.nodes_left[stage], stage != own))

    def balance(self, lost: LostStages) -> Iterator[Move]:
        """Reassign live nodes until no stage has two more nodes than another."""
        left = self.nodes_left
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
        """Return the nodes of each stage, by their groups."""
        nodes: list[dict[int, list[int]]] = [{} for _ in self._stages]
        for group in range(self._groups):
            for _, node in lost.live(group):
                nodes[self.of(group, node)].setdefault(group, []).append(node)
        return nodes
