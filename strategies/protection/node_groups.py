"""Groups of nodes that keep each other's state and survive a number of losses each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import comb, expm1, log1p
from typing import Literal

Placement = Literal["across-domains", "neighbours"]
"""Whether the nodes of a group are far apart or next to each other."""


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """Nodes in groups, each of which survives the loss of up to `tolerated` of its nodes.

    Nodes form rows of `positions`: a row is a replica of the model, and nodes at the same position
    of all rows hold the same part of it. A group has nodes of one position. With "neighbours" they
    are in neighbouring rows, and thus possibly in one scale-up domain or rack. With
    "across-domains" their rows are as far apart as possible: k, k + G, k + 2G, ... for G groups per
    position. Left-over rows join the last group with "neighbours", the first ones with
    "across-domains".
    """

    nodes: int  # Total number of nodes.
    size: int  # Nodes n per group.
    tolerated: int  # Losses that a group survives.
    placement: Placement  # Which nodes share a group.
    positions: int = 1  # Nodes per row; 1 if any two nodes may share a group.
    slices: int = 1  # Nodes per server, which are lost together; they have consecutive numbers.

    @property
    def rows(self) -> int:
        """Nodes at one position."""
        return self.nodes // self.positions

    @property
    def groups(self) -> int:
        """Number of groups."""
        return self._groups_per_position * self.positions

    def group_of(self, node: int) -> int:
        """Return the group of a node."""
        row, position = divmod(node, self.positions)
        groups = self._groups_per_position
        if self.placement == "neighbours":
            return position * groups + min(row // self.size, groups - 1)
        return position * groups + row % groups

    def nodes_of(self, group: int) -> range:
        """Return the nodes of a group."""
        position, index = divmod(group, self._groups_per_position)
        return range(self.nodes)[position :: self.positions][self._rows_of(index)]

    def nodes_on(self, servers: Iterable[int]) -> list[int]:
        """Return the nodes of some servers."""
        ranges = (range(server * self.slices, (server + 1) * self.slices) for server in servers)
        return [node for nodes in ranges for node in nodes if node < self.nodes]

    def survives(self, lost: Iterable[int]) -> bool:
        """Return whether no group loses more nodes than it tolerates; duplicates count once."""
        losses = Counter(map(self.group_of, set(lost)))
        return max(losses.values(), default=0) <= self.tolerated

    @property
    def _groups_per_position(self) -> int:
        return self.rows // self.size

    def _rows_of(self, index: int) -> slice:
        groups = self._groups_per_position
        if self.placement == "neighbours":
            last = index == groups - 1
            return slice(index * self.size, None if last else (index + 1) * self.size)
        return slice(index, None, groups)


def loss_probability(failed: float, nodes: int, group: int, tolerated: int) -> float:
    """Return the probability that some group loses more nodes than it tolerates.

    ``1 - [sum over k <= t of C(n, k) F^k (1 - F)^(n - k)]^(m / n)`` (Wang et al. 2023 (REFT)): a
    group of n nodes survives up to t losses, and all m/n groups have to survive.

    Parameters
    ----------
    failed : float
        Probability F that a node has failed.
    nodes, group : int
        Total nodes m, and nodes n per group.
    tolerated : int
        Losses t that a group survives; 0 for state without protection.
    """
    if tolerated == 0:
        return 1.0 if failed >= 1.0 else -expm1(nodes * log1p(-failed))
    lost = sum(
        comb(group, k) * failed**k * (1.0 - failed) ** (group - k)
        for k in range(tolerated + 1, group + 1)
    )
    return 1.0 if lost >= 1.0 else -expm1(nodes / group * log1p(-lost))
