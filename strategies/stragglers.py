"""What is done about slow parts: how micro-batches are dealt anew, and when to do more.

As Greyhound does (Wu et al. 2025, USENIX ATC): micro-batches go to replicas by their speeds, nodes
change places, the job restarts without what is slow. Each remedy has its price, and is taken when
the time that was lost has come to as much: nobody knows how long something stays slow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple

RemedyName = Literal["redeal", "swap", "restart"]

_ROUNDING = 1e-9


class Remedy(NamedTuple):
    """Something to do about slow parts, and what it costs all, in seconds.

    Deal micro-batches anew, give slow nodes other places, or restart without them.
    """

    name: RemedyName
    price_s: float


@dataclass(frozen=True, slots=True)
class SlowPolicy:
    """What is done about slow parts that have been found.

    Attributes
    ----------
    remedies : tuple of Remedy
        The cheapest first.
    found_after_s : float
        Seconds from when something becomes slow until it is located.
    waits : bool
        Whether a remedy waits until as much time is lost as it costs (ski rental).
    """

    remedies: tuple[Remedy, ...]
    found_after_s: float
    waits: bool = True

    def lost_until_s(self, remedy: Remedy) -> float:
        """Return the seconds that are lost before a remedy is taken."""
        return remedy.price_s if self.waits else 0.0


def next_remedy(
    policy: SlowPolicy,
    lost_s: Mapping[RemedyName, float],
    helps: Callable[[Remedy], bool],
) -> Remedy | None:
    """Return the remedy that is taken now, the cheapest of those that are due; None to wait.

    With one remedy of price c the sum of what is lost and paid is at most twice the best in
    hindsight. With several that lose less and less, at most that and the prices of those taken
    before the last: whoever takes the k-th has lost its price, and so has, or pays, anybody.

    Parameters
    ----------
    policy : SlowPolicy
        What there is to do.
    lost_s : mapping of str to float
        Seconds that were lost since each remedy was last taken, or all was well.
    helps : callable
        Whether steps would be shorter.
    """
    due = (one for one in policy.remedies if lost_s[one.name] >= policy.lost_until_s(one))
    return next((one for one in due if helps(one)), None)


def best_deal(paces: Sequence[float], micro_batches: int) -> tuple[int, ...]:
    """Deal micro-batches to replicas so that the last is done as early as can be.

    The least T with ``sum(floor(T / pace)) >= micro_batches`` is a multiple of some pace.

    Parameters
    ----------
    paces : sequence of float
        Time of a micro-batch on each replica, in any unit; above 0.
    micro_batches : int
        How many there are for all.

    Returns
    -------
    tuple of int
        Micro-batches of each replica; 0 for one that is so slow that the others are done first.
    """
    alike = Counter(paces)

    def taken(time: float) -> int:
        return sum(_by(time, pace) * count for pace, count in alike.items())

    best = inf
    for pace in alike:
        low, high = 1, micro_batches
        while low < high:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if taken(middle * pace) >= micro_batches else (middle + 1, high)
            )
        best = min(best, low * pace)
    shares = [_by(best, pace) for pace in paces]
    # At the same time there may be room for more than there are: who would be last has one fewer.
    over = sum(shares) - micro_batches
    last = sorted(range(len(paces)), key=lambda one: (-shares[one] * paces[one], -one))
    for place in last[:over]:
        shares[place] -= 1
    return tuple(shares)


def _by(time: float, pace: float) -> int:
    """Return how many micro-batches are done by a time."""
    return int(time / pace + _ROUNDING)


def gathered(groups: Sequence[int], room: int) -> list[int]:
    """Return the group that each slow node moves to: as few groups as can be are slow.

    The slowest node comes first; of the groups there are, each gets as many as it has room for.
    """
    homes = list(dict.fromkeys(groups))
    return [homes[min(place // room, len(homes) - 1)] for place in range(len(groups))]
