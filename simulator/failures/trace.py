"""A trace: failures that were written down, to be lived through once or again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Literal

import numpy as np
from faultline.simulator.failures.failure import Failure
from faultline.simulator.failures.recorded import RecordedFailures

AfterEnd = Literal["none", "repeat"]


@dataclass(frozen=True, slots=True)
class Trace:
    """Failures of a job, as recorded.

    Attributes
    ----------
    recorded : sequence of Failure
        The failures in the order of time, at least one, from time 0 on.
    groups : int
        Number of groups of the job.
    span_s : float
        How long was recorded, in seconds: positive, and not before the last failure.
    after_end : {"none", "repeat"}
        What happens after `span_s`: nothing fails any more, or the trace begins anew.
    """

    recorded: Sequence[Failure]
    groups: int
    span_s: float
    after_end: AfterEnd = "none"

    def __post_init__(self) -> None:
        if not isinstance(self.recorded, RecordedFailures):
            object.__setattr__(self, "recorded", RecordedFailures.of(self.recorded))

    @property
    def _columns(self) -> RecordedFailures:
        assert isinstance(self.recorded, RecordedFailures)
        return self.recorded

    @property
    def causes(self) -> tuple[str, ...]:
        """Names of all causes, sorted."""
        columns = self._columns
        return tuple(sorted(columns.causes[place] for place in np.unique(columns.cause)))

    @property
    def mtbf_s(self) -> float:
        """Mean time between two failures while the trace lasts, in seconds."""
        return self.span_s / len(self.recorded)

    def survival(self, time_s: float) -> float:
        """Return 1 if every group has a gap of more than `time_s` between failures, else 0."""
        if self.after_end == "none":
            return 1.0
        columns = self._columns
        longest_s = np.full(self.groups, -inf)
        last_s = np.full(self.groups, nan)
        for round_s in (0.0, self.span_s):
            for failed_s, first, end in zip(
                columns.time_s + round_s, columns.first_group, columns.end_group, strict=True
            ):
                hit = slice(first, end)
                # NaN, where it is the first, is never larger.
                longest_s[hit] = np.fmax(longest_s[hit], failed_s - last_s[hit])
                last_s[hit] = failed_s
        return float(longest_s[~np.isnan(last_s)].min() > time_s)

    def spared(self) -> frozenset[int]:
        """Return the groups that never fail."""
        # Of each failure, one more is hit from its first group on, and one less after its last.
        changes = np.zeros(self.groups + 1, dtype=np.int64)
        np.add.at(changes, self._columns.first_group, 1)
        np.add.at(changes, self._columns.end_group, -1)
        return frozenset(np.flatnonzero(np.cumsum(changes[:-1]) == 0).tolist())

    def batches(self, seed: int) -> Iterator[Sequence[Failure]]:
        """Yield the failures in the order of time, some at a time."""
        yield from self._columns.chunks()
        times = 0
        while self.after_end == "repeat":
            times += 1
            yield from self._columns.later(times * self.span_s).chunks()
