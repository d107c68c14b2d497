"""All collectives and their algorithms by name, and how nccl-tests counts their bandwidth.

References
----------
nccl-tests, doc/PERFORMANCE.md: algorithm bandwidth is size over time. Bus bandwidth is that times
`bus_factor`, which makes it comparable with the bandwidth of links for any number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from faultline.simulator.collectives.exchange import PairwiseAllToAll
from faultline.simulator.collectives.hierarchical import HierarchicalAllReduce
from faultline.simulator.collectives.ring import RingAllGather, RingAllReduce, RingReduceScatter
from faultline.simulator.collectives.schedule import Schedule


class CollectiveError(ValueError):
    """An unknown collective or algorithm, or one that does not fit the ranks; one line."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Properties of the platform that an algorithm may adapt to.

    Attributes
    ----------
    members : int
        Number of ranks.
    size_bytes : float
        Size of a member's buffer, as nccl-tests counts it.
    domains : sequence of sequence of int
        Positions of the members in each scale-up domain.
    """

    members: int
    size_bytes: float
    domains: Sequence[Sequence[int]]


def _hierarchical(setting: Setting) -> Schedule:
    sizes = sorted({len(domain) for domain in setting.domains})
    if len(sizes) != 1:
        raise CollectiveError(
            f"hierarchical needs equally many ranks in every scale-up domain, not {sizes}: "
            "choose a multiple of the domain's size"
        )
    return HierarchicalAllReduce(setting.members, setting.size_bytes, setting.domains)


def _plain(kind: type[Schedule]) -> Callable[[Setting], Schedule]:
    return lambda setting: kind(setting.members, setting.size_bytes)


ALGORITHMS: Mapping[str, Mapping[str, Callable[[Setting], Schedule]]] = {
    "all-reduce": {
        "ring": _plain(RingAllReduce),
        "hierarchical": _hierarchical,
    },
    "reduce-scatter": {"ring": _plain(RingReduceScatter)},
    "all-gather": {"ring": _plain(RingAllGather)},
    "all-to-all": {"pairwise": _plain(PairwiseAllToAll)},
}
"""Algorithms of each collective; the first is its default."""


def algorithm_of(collective: str, algorithm: str | None) -> str:
    """Return the name of an algorithm of a collective; its default if `algorithm` is None.

    Raises
    ------
    CollectiveError
        If there is no such collective, or it has no such algorithm.
    """
    if collective not in ALGORITHMS:
        raise CollectiveError(
            f"no collective is called {collective!r}: use one of {', '.join(ALGORITHMS)}"
        )
    known = ALGORITHMS[collective]
    if algorithm is None:
        return next(iter(known))
    if algorithm not in known:
        raise CollectiveError(
            f"{collective} has no algorithm {algorithm!r}: use one of {', '.join(known)}"
        )
    return algorithm


def schedule_of(collective: str, algorithm: str, setting: Setting) -> Schedule:
    """Return the schedule of an algorithm.

    Raises
    ------
    CollectiveError
        If there is none, or it does not fit the setting.
    """
    name = algorithm_of(collective, algorithm)
    if setting.members < 2:
        raise CollectiveError(f"{setting.members} ranks are too few: a collective needs 2")
    return ALGORITHMS[collective][name](setting)


def bus_factor(collective: str, members: int) -> float:
    """Return bus bandwidth over algorithm bandwidth, as defined by nccl-tests.

    ``2 (n - 1)/n`` for an all-reduce, ``(n - 1)/n`` for reduce-scatter, all-gather and all-to-all.
    """
    return (2 if collective == "all-reduce" else 1) * (members - 1) / members
