"""Hardware that can replace failed hardware, and hardware under repair: groups, or machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import repeat
from math import inf

_ROUNDING = 1e-12


def is_over(end_s: float, now_s: float) -> bool:
    """Return whether a repair has ended by now; both in seconds.

    Repairs and steps often end at the same moment. The two engines add up its time in different
    orders, so their sums differ in the last digits.
    """
    return end_s <= now_s * (1.0 + _ROUNDING)


class SparePool:
    """Tracks when hardware for a failed group is ready again.

    A position of the job that has lost its group is filled by the hardware that is ready first: a
    spare, or a repaired group. Hardware that is repaired later becomes a spare. A position keeps
    its failure clock, whatever hardware fills it. There are `spare_groups` from the beginning. A
    repair takes `repair_s` seconds from the moment a failure is noticed. Hardware on standby fails
    after the next of `lives_s`, in seconds, counted from when it is ready; by default it never
    fails.

    Attributes
    ----------
    failures : int
        Number of failures on standby up to the last check.
    """

    def __init__(
        self, spare_groups: int, repair_s: float, lives_s: Iterator[float] | None = None
    ) -> None:
        self._spare_groups = spare_groups
        self._repair_s = repair_s
        self._lives_s = repeat(inf) if lives_s is None else lives_s
        self.failures = 0
        self._ready_s: list[tuple[float, float]] = []
        self.restart()

    def restart(self) -> None:
        """Start anew with the spares: a global restart brings all hardware back."""
        self._ready_s = [self._with_life(0.0) for _ in range(self._spare_groups)]
        heapify(self._ready_s)

    def add_failed(self, groups: int, now_s: float, ready_in_s: float | None = None) -> None:
        """Add failed groups, noticed at `now_s`: ready after a repair, or in `ready_in_s`."""
        for _ in range(groups):
            ready_s = now_s + (self._repair_s if ready_in_s is None else ready_in_s)
            heappush(self._ready_s, self._with_life(ready_s))

    def _with_life(self, ready_s: float) -> tuple[float, float]:
        """Return when hardware is ready, and when it fails if it stays on standby."""
        return ready_s, ready_s + next(self._lives_s)

    def _repair_until(self, now_s: float) -> None:
        """Send hardware that has failed on standby to repair."""
        for place, (_, first_s) in enumerate(self._ready_s):
            fails_s = first_s
            while fails_s <= now_s:
                self.failures += 1
                self._ready_s[place] = self._with_life(fails_s + self._repair_s)
                fails_s = self._ready_s[place][1]
        heapify(self._ready_s)

    @property
    def next_ready_s(self) -> float:
        """When there is hardware for a group, in seconds; infinite if none is under repair."""
        return self._ready_s[0][0] if self._ready_s else inf

    def has_ready(self, now_s: float) -> bool:
        """Whether there is hardware for a group at `now_s`, in seconds."""
        return is_over(self.next_ready_s, now_s)

    def ready(self, now_s: float) -> int:
        """Return for how many groups hardware is ready at `now_s`, in seconds."""
        self._repair_until(now_s)
        return sum(is_over(ready_s, now_s) for ready_s, _ in self._ready_s)

    def collect(self, down: Sequence[int], now_s: float) -> tuple[int, ...]:
        """Fill the positions `down`, in this order, with hardware that is ready at `now_s`.

        Returns the positions that are filled.
        """
        if any(fails_s <= now_s for _, fails_s in self._ready_s):
            self._repair_until(now_s)
        filled = 0
        while filled < len(down) and self.has_ready(now_s):
            heappop(self._ready_s)
            filled += 1
        return tuple(down[:filled])
