"""Mitigation of stragglers: how micro-batches are rebalanced, and when to do more.

As in Greyhound (Wu et al. 2025, USENIX ATC): replicas get micro-batches in proportion to their
speeds, nodes change places, or the job restarts without stragglers. Each remedy has a price. Since
the duration of a slowdown is unknown in advance, a remedy waits until the lost time equals its
price.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple

RemedyName = Literal["redeal", "swap", "restart"]

_ROUNDING = 1e-9


class Remedy(NamedTuple):
    """A mitigation of stragglers, and its cost for all groups, in seconds.

    Redistribute micro-batches, move slow nodes to other places, or restart without them.
    """

    name: RemedyName
    price_s: float


@dataclass(frozen=True, slots=True)
class StragglerPolicy:
    """How the job responds to stragglers that were located."""

    remedies: tuple[Remedy, ...]  # The cheapest first.
    located_after_s: float  # Seconds from the beginning of a slowdown until it is located.
    waits: bool = True  # Whether a remedy waits until the lost time equals its cost (ski rental).

    def lost_until_s(self, remedy: Remedy) -> float:
        """Return the lost seconds after which a remedy is taken."""
        return remedy.price_s if self.waits else 0.0


def next_remedy(
    policy: StragglerPolicy,
    lost_s: Mapping[RemedyName, float],
    helps: Callable[[Remedy], bool],
) -> Remedy | None:
    """Return the cheapest remedy that is due and helps; None to wait.

    With one remedy, losses plus price are at most twice the optimum in hindsight. With several
    remedies, each of which leaves less loss, the bound grows by the prices of all but the last:
    when the k-th is taken, each policy has lost or paid at least its price. `lost_s` has the lost
    seconds since each remedy was last taken, or since the last healthy step. A remedy `helps` if it
    would shorten steps.
    """
    due = (
        remedy for remedy in policy.remedies if lost_s[remedy.name] >= policy.lost_until_s(remedy)
    )
    return next((remedy for remedy in due if helps(remedy)), None)


def balanced_shares(paces: Sequence[float], micro_batches: int) -> tuple[int, ...]:
    """Distribute micro-batches to replicas so that the last one finishes as early as possible.

    The least T with ``sum(floor(T / pace)) >= micro_batches`` is a multiple of some pace. The
    `paces` are times of a micro-batch on each replica, in any unit; above 0. A share is 0 if the
    others finish all micro-batches first.
    """
    replicas = Counter(paces)

    def all_done_by(time: float) -> int:
        return sum(_done_by(time, pace) * count for pace, count in replicas.items())

    best = inf
    for pace in replicas:
        numbers = range(1, micro_batches)
        enough = bisect_left(numbers, micro_batches, key=lambda number: all_done_by(number * pace))
        best = min(best, (enough + 1) * pace)
    shares = [_done_by(best, pace) for pace in paces]
    # There may be room for more micro-batches than exist: those that would end last are removed.
    excess = sum(shares) - micro_batches
    last = sorted(range(len(paces)), key=lambda place: (-shares[place] * paces[place], -place))
    for place in last[:excess]:
        shares[place] -= 1
    return tuple(shares)


def _done_by(time: float, pace: float) -> int:
    """Return the number of complete micro-batches at a time."""
    return int(time / pace + _ROUNDING)


def gather_stragglers(groups: Sequence[int], room: int) -> list[int]:
    """Return the group that each slow node moves to, so that as few groups as possible are slow.

    `groups` lists the groups of slow nodes, the slowest first. Each group takes up to `room` nodes.
    """
    homes = list(dict.fromkeys(groups))
    return [homes[min(place // room, len(homes) - 1)] for place in range(len(groups))]
