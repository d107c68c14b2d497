"""Machines outside of a job that can replace failed ones: standbys, or free machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush, nsmallest
from itertools import islice, repeat
from math import inf

from faultline.simulator.failures.random_streams import Purpose, stream

_ROUNDING = 1e-12


def is_over(end_s: float, now_s: float) -> bool:
    """Return whether a repair has ended by now; both in seconds.

    Repairs and steps often end at the same moment. The two engines add up its time in different
    orders, so their sums differ in the last digits.
    """
    return end_s <= now_s * (1.0 + _ROUNDING)


def exponential_lives_s(mean_s: float, seed: int) -> Iterator[float] | None:
    """Return a run's lifetimes of machines that stand by, in seconds; None if they never end."""
    if mean_s == inf:
        return None
    drawn = stream(seed, Purpose.STANDBY_LIVES)
    return (float(drawn.exponential(mean_s)) for _ in repeat(None))


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
        self._repair_s, self._lives_s = repair_s, lives_s
        self.failures = 0
        # When each ready machine fails, in the order in which they became ready.
        self._ready: dict[int, float] = {}
        # Ends of lives, some of machines that have left, and of repairs; each with its machine.
        self._ends_s: list[tuple[float, int]] = []
        self._repaired_s: list[tuple[float, int]] = []
        for machine in range(machines):
            self._enter(machine, 0.0)

    def __len__(self) -> int:
        return len(self._ready) + len(self._repaired_s)

    def next_ready_s(self, machines: int = 1) -> float:
        """Return when that many machines are ready, in seconds; infinite if there are fewer."""
        lacking = machines - len(self._ready)
        if not 0 < machines <= len(self):
            return inf
        return nsmallest(lacking, self._repaired_s)[-1][0] if lacking > 0 else 0.0

    def ready(self, now_s: float) -> int:
        """Return the number of machines that are ready at `now_s`, in seconds."""
        self._advance(now_s)
        return len(self._ready)

    def exchange(self, repaired_s: Sequence[float], now_s: float) -> int:
        """Exchange failed machines for ready ones at `now_s`, as far as there are any.

        The times at which the failed machines are repaired are `repaired_s`; all in seconds.
        Returns the number of exchanged machines, the first ones of `repaired_s`.
        """
        self._advance(now_s)
        taken = min(len(repaired_s), len(self._ready))
        for machine, time_s in zip([*islice(self._ready, taken)], repaired_s, strict=False):
            del self._ready[machine]
            heappush(self._repaired_s, (time_s, machine))
        return taken

    def _enter(self, machine: int, ready_s: float) -> None:
        if self._lives_s is None:
            self._ready[machine] = inf
            return
        self._ready[machine] = ends_s = ready_s + next(self._lives_s)
        heappush(self._ends_s, (ends_s, machine))

    def _advance(self, now_s: float) -> None:
        """Repair machines, and let ready ones fail, up to `now_s`, in seconds."""
        while True:
            ends_s = self._ends_s[0][0] if self._ends_s else inf
            repaired_s = self._repaired_s[0][0] if self._repaired_s else inf
            if ends_s <= min(now_s, repaired_s):
                _, machine = heappop(self._ends_s)
                if self._ready.get(machine) == ends_s:
                    del self._ready[machine]
                    self.failures += 1
                    heappush(self._repaired_s, (ends_s + self._repair_s, machine))
            elif is_over(repaired_s, now_s):
                _, machine = heappop(self._repaired_s)
                self._enter(machine, repaired_s)
            else:
                return
