"""Many random sets of lost nodes at once, and which of them take a whole group's state away.

Sets come from random draws, or are windows cut out of failures that the simulator draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from faultline.experiments.config.errors import UserError
from faultline.simulator.failures.mix import CauseMix
from faultline.strategies.in_memory.node_groups import NodeGroups
from numpy.typing import NDArray

Integers = NDArray[np.int64]

LOST_NODES, LOST_DOMAINS = 1, 2
"""What random streams are for; the numbers are part of what a seed means and never change."""

_STUDY = 0x4D454D
_SECONDS_PER_HOUR = 3600.0


def stream(seed: int, purpose: int, index: int) -> np.random.Generator:
    """Return a random stream of the study, apart from those of runs and of other studies."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_STUDY, purpose, index))
    return np.random.Generator(np.random.PCG64(sequence))


@dataclass(frozen=True, slots=True)
class LossSets:
    """Sets of lost nodes, as pairs of a set and a node, each pair once.

    Attributes
    ----------
    sets : int
        Number of sets; those without a lost node count, too.
    set_index, node : array of int, shape (pairs,)
        Which set, and which of its lost nodes.
    """

    sets: int
    set_index: Integers
    node: Integers

    @classmethod
    def with_repeats(cls, sets: int, set_index: Integers, node: Integers) -> LossSets:
        """Return the sets of pairs that may occur more than once."""
        stride = int(node.max(initial=0)) + 1
        return cls(sets, *np.divmod(np.unique(set_index * stride + node), stride))

    def lost(self, groups: NodeGroups) -> NDArray[np.bool_]:
        """Return for each set whether some group loses more nodes than it tolerates.

        Returns
        -------
        array of bool, shape (sets,)
        """
        group_of = np.array([groups.group_of(node) for node in range(groups.nodes)])
        keys = self.set_index * groups.groups + group_of[self.node]
        hit, losses = np.unique(keys, return_counts=True)
        gone = np.zeros(self.sets, dtype=np.bool_)
        gone[hit[losses > groups.tolerated] // groups.groups] = True
        return gone


def uniform_sets(rng: np.random.Generator, sets: int, nodes: int, lost: int) -> LossSets:
    """Draw sets of `lost` nodes each, all sets of that size equally likely.

    Raises
    ------
    UserError
        If there are not that many nodes.
    """
    chosen = _distinct(rng, sets, nodes, lost)
    return LossSets(sets, np.repeat(np.arange(sets), lost), chosen.ravel())


def uniform_domain_sets(
    rng: np.random.Generator, sets: int, nodes: int, domain_nodes: int, lost: int
) -> LossSets:
    """Draw sets of `lost` whole domains each, all sets of that size equally likely.

    Raises
    ------
    UserError
        If there are not that many domains.
    """
    chosen = _distinct(rng, sets, -(-nodes // domain_nodes), lost)
    node = (chosen.reshape(-1, 1) * domain_nodes + np.arange(domain_nodes)).ravel()
    exists = node < nodes
    return LossSets(sets, np.repeat(np.arange(sets), lost * domain_nodes)[exists], node[exists])


def _distinct(rng: np.random.Generator, sets: int, things: int, chosen: int) -> Integers:
    """Draw `chosen` different things for each set, by Floyd's algorithm: a column a step.

    Bentley and Floyd 1987, "A sample of brilliance": step j draws one of the first j + 1 things,
    or takes thing j itself if that one is taken already.
    """
    if not 0 <= chosen <= things:
        raise UserError(f"{chosen} lost of {things}: use 0 to {things}")
    drawn = np.empty((sets, chosen), dtype=np.int64)
    for column, newest in enumerate(range(things - chosen, things)):
        candidate = rng.integers(newest + 1, size=sets)
        taken = (drawn[:, :column] == candidate[:, np.newaxis]).any(axis=1)
        drawn[:, column] = np.where(taken, newest, candidate)
    return drawn


class DrawnLosses:
    """Hosts that lost their memory, by time, over one long course of failures of a mix.

    Parameters
    ----------
    mix : CauseMix
        Where the failures come from. They are memoryless, so that windows cut out of one course
        do not depend on each other.
    hours : int
        How long the course is.
    seed : int
        Seed of the failures.
    """

    def __init__(self, mix: CauseMix, hours: int, seed: int) -> None:
        self._hours = hours
        end_s = hours * _SECONDS_PER_HOUR
        times_s: list[float] = []
        first: list[int] = []
        count: list[int] = []
        for batch in mix.batches(seed):
            for failure in batch:
                hosts = mix.layout.hosts_losing_memory(failure)
                times_s.append(failure.time_s)
                first.append(hosts.start)
                count.append(len(hosts))
            if times_s and times_s[-1] > end_s:
                break
        counts = np.array(count)
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        self._time_s = np.repeat(np.array(times_s), counts)
        self._host = np.repeat(np.array(first), counts) + offsets

    def windows(self, hours: int) -> LossSets:
        """Return the hosts lost in each window of so many hours; a rest at the end is left out."""
        sets = self._hours // hours
        index = (self._time_s // (hours * _SECONDS_PER_HOUR)).astype(np.int64)
        inside = index < sets
        return LossSets.with_repeats(sets, index[inside], self._host[inside])
