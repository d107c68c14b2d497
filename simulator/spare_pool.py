"""Failed groups under repair, and the spare groups that stand in for them."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import inf


class SparePool:
    """Knows when hardware for a failed group is ready again.

    A position of the job that has lost its group takes whatever is ready first: a spare, or a
    repaired group. What was repaired later is a spare from then on. A position's failure clock
    stands for the hardware that fills it.

    Parameters
    ----------
    spare_groups : int
        Groups that stand by from the beginning.
    repair_s : float
        Seconds from the moment a failure is noticed until the group could come back.
    """

    def __init__(self, spare_groups: int, repair_s: float) -> None:
        self._spare_groups = spare_groups
        self._repair_s = repair_s
        self._ready_s: list[float] = []
        self.restart()

    def restart(self) -> None:
        """A global restart brings all hardware back."""
        self._ready_s = [0.0] * self._spare_groups
        heapify(self._ready_s)

    def bring(self, groups: int, now_s: float) -> None:
        """Take in failed groups, noticed at `now_s`."""
        for _ in range(groups):
            heappush(self._ready_s, now_s + self._repair_s)

    @property
    def next_ready_s(self) -> float:
        """When there is hardware for a group, in seconds; infinite if none is under repair."""
        return self._ready_s[0] if self._ready_s else inf

    def has_ready(self, now_s: float) -> bool:
        """Whether there is hardware for a group at `now_s`, in seconds."""
        return self.next_ready_s <= now_s

    def collect(self, down: Sequence[int], now_s: float) -> tuple[int, ...]:
        """Return those of the positions `down` that can be filled at `now_s`; they count as filled.

        Positions are filled in the order given.
        """
        filled = 0
        while filled < len(down) and self.has_ready(now_s):
            heappop(self._ready_s)
            filled += 1
        return tuple(down[:filled])
