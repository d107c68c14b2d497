"""A trace: recorded failures, used once or repeated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Literal

import numpy as np
from faultline.simulator.failures.distributions import NEVER_S
from faultline.simulator.failures.failure import Failure
from faultline.simulator.failures.models import FailureSequence
from faultline.simulator.failures.recorded import RecordedFailures

AfterEnd = Literal["none", "repeat"]


@dataclass(frozen=True)
class Trace(FailureSequence):
    """Failures of a job, as recorded."""

    recorded: Sequence[Failure]  # Failures that stop groups, in the order of time from 0 on.
    groups: int  # Number of groups of the job.
    span_s: float  # How long was recorded, in seconds: positive, and not before the last failure.
    # After `span_s` no further failures happen, or the trace repeats.
    after_end: AfterEnd = "none"
    disturbing: tuple[Failure, ...] = ()  # Failures that stop nothing, in the order of time.

    def __post_init__(self) -> None:
        if not isinstance(self.recorded, RecordedFailures):
            object.__setattr__(self, "recorded", RecordedFailures.of(self.recorded))

    @property
    def _columns(self) -> RecordedFailures:
        assert isinstance(self.recorded, RecordedFailures)
        return self.recorded

    @property
    def groups_of_job(self) -> int:
        return self.groups

    @property
    def causes(self) -> tuple[str, ...]:
        """Names of the causes that stop groups, sorted."""
        columns = self._columns
        return tuple(sorted(columns.causes[place] for place in np.unique(columns.cause)))

    @property
    def disturbance_causes(self) -> tuple[str, ...]:
        """Names of the causes of failures that stop nothing, sorted."""
        return tuple(sorted({failure.cause for failure in self.disturbing}))

    @property
    def mtbf_s(self) -> float:
        """Mean time between two stops while the trace lasts, in seconds."""
        return self.span_s / len(self.recorded) if self.recorded else NEVER_S

    def survival(self, time_s: float) -> float:
        """Return 1 if every group has a gap of more than `time_s` between failures, else 0."""
        if self.after_end == "none" or not self.recorded:
            return 1.0
        columns = self._columns
        longest_s = np.full(self.groups, -inf)
        last_s = np.full(self.groups, nan)
        for round_s in (0.0, self.span_s):
            for failed_s, first, end in zip(
                columns.time_s + round_s, columns.first_group, columns.end_group, strict=True
            ):
                struck = slice(first, end)
                # The gap before the first failure is NaN, which fmax ignores.
                longest_s[struck] = np.fmax(longest_s[struck], failed_s - last_s[struck])
                last_s[struck] = failed_s
        return float(longest_s[~np.isnan(last_s)].min() > time_s)

    def spared(self) -> frozenset[int]:
        # Each failure adds one from its first group on, and takes it away after its last.
        changes = np.zeros(self.groups + 1, dtype=np.int64)
        np.add.at(changes, self._columns.first_group, 1)
        np.add.at(changes, self._columns.end_group, -1)
        return frozenset(np.flatnonzero(np.cumsum(changes[:-1]) == 0).tolist())

    def batches(self, seed: int) -> Iterator[Sequence[Failure]]:
        yield from self._columns.chunks()
        times = 0
        while self.after_end == "repeat" and self.recorded:
            times += 1
            yield from self._columns.later(times * self.span_s).chunks()

    def disturbances(self, seed: int) -> Iterator[Failure]:
        yield from self.disturbing
        times = 0
        while self.after_end == "repeat" and self.disturbing:
            times += 1
            for failure in self.disturbing:
                yield failure._replace(time_s=failure.time_s + times * self.span_s)
