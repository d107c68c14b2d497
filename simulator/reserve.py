"""Machines outside of a job that can replace failed ones: standbys, or free machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush, nsmallest
from itertools import repeat
from math import inf

_ROUNDING = 1e-12


def is_over(end_s: float, now_s: float) -> bool:
    """Return whether a repair has ended by now; both in seconds.

    Repairs and steps often end at the same moment. The two engines add up its time in different
    orders, so their sums differ in the last digits.
    """
    return end_s <= now_s * (1.0 + _ROUNDING)


class Reserve:
    """A constant number of machines outside of a job: each is ready, or under repair.

    A machine leaves only in exchange for a failed one, which is under repair in its place. A ready
    machine fails after the next of `lives_s`, in seconds, counted from when it is ready; by default
    it never fails. Its own repair takes `repair_s` seconds.

    Attributes
    ----------
    failures : int
        Number of failures of ready machines up to the last check.
    """

    def __init__(
        self, machines: int, repair_s: float, lives_s: Iterator[float] | None = None
    ) -> None:
        self._repair_s = repair_s
        # Thousands of free machines never fail, so nothing looks for failed ones among them.
        self._fails = lives_s is not None
        self._lives_s = repeat(inf) if lives_s is None else lives_s
        self.failures = 0
        # For each machine, when it is ready, and when it fails if it stays in the reserve.
        self._machines = [self._with_life(0.0) for _ in range(machines)]
        heapify(self._machines)

    def __len__(self) -> int:
        return len(self._machines)

    def _with_life(self, ready_s: float) -> tuple[float, float]:
        return ready_s, ready_s + next(self._lives_s)

    def next_ready_s(self, machines: int = 1) -> float:
        """Return when that many machines are ready, in seconds; infinite if there are fewer."""
        if not 0 < machines <= len(self):
            return inf
        if machines == 1:
            return self._machines[0][0]
        return nsmallest(machines, self._machines)[-1][0]

    def ready(self, now_s: float) -> int:
        """Return the number of machines that are ready at `now_s`, in seconds."""
        self._repair_until(now_s)
        return sum(is_over(ready_s, now_s) for ready_s, _ in self._machines)

    def exchange(self, repaired_s: Sequence[float], now_s: float) -> int:
        """Exchange failed machines for ready ones at `now_s`, as far as there are any.

        The times at which the failed machines are repaired are `repaired_s`; all in seconds.
        Returns the number of exchanged machines, the first ones of `repaired_s`.
        """
        self._repair_until(now_s)
        taken = 0
        while taken < len(repaired_s) and is_over(self.next_ready_s(), now_s):
            heappop(self._machines)
            taken += 1
        for ready_s in repaired_s[:taken]:
            heappush(self._machines, self._with_life(ready_s))
        return taken

    def _repair_until(self, now_s: float) -> None:
        """Send machines that have failed in the reserve to repair."""
        if not self._fails or all(fails_s > now_s for _, fails_s in self._machines):
            return
        for place, (_, first_s) in enumerate(self._machines):
            fails_s = first_s
            while fails_s <= now_s:
                self.failures += 1
                self._machines[place] = self._with_life(fails_s + self._repair_s)
                fails_s = self._machines[place][1]
        heapify(self._machines)
