"""A trace: failures that were written down, to be lived through once or again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from faultline.simulator.failures.failure import Failure

AfterEnd = Literal["none", "repeat"]


@dataclass(frozen=True, slots=True)
class Trace:
    """Failures of a job, as recorded.

    Attributes
    ----------
    recorded : tuple of Failure
        The failures in the order of time, at least one, from time 0 on.
    groups : int
        Number of groups of the job.
    span_s : float
        How long was recorded, in seconds: positive, and not before the last failure.
    after_end : {"none", "repeat"}
        What happens after `span_s`: nothing fails any more, or the trace begins anew.
    """

    recorded: tuple[Failure, ...]
    groups: int
    span_s: float
    after_end: AfterEnd = "none"

    @property
    def causes(self) -> tuple[str, ...]:
        """Names of all causes, sorted."""
        return tuple(sorted({failure.cause for failure in self.recorded}))

    @property
    def mtbf_s(self) -> float:
        """Mean time between two failures while the trace lasts, in seconds."""
        return self.span_s / len(self.recorded)

    def survival(self, time_s: float) -> float:
        """Return 1 if every group has a gap of more than `time_s` between failures, else 0."""
        if self.after_end == "none":
            return 1.0
        longest_s: dict[int, float] = {}
        last_s: dict[int, float] = {}
        for failure in self.recorded + self._again(1):
            for group in failure.groups:
                if group in last_s:
                    gap_s = failure.time_s - last_s[group]
                    longest_s[group] = max(longest_s.get(group, 0.0), gap_s)
                last_s[group] = failure.time_s
        return float(min(longest_s.values()) > time_s)

    def spared(self) -> frozenset[int]:
        """Return the groups that never fail."""
        hit = {group for failure in self.recorded for group in failure.groups}
        return frozenset(range(self.groups)) - hit

    def batches(self, seed: int) -> Iterator[Sequence[Failure]]:
        """Yield the failures in the order of time, the whole trace at a time."""
        yield self.recorded
        times = 0
        while self.after_end == "repeat":
            times += 1
            yield self._again(times)

    def _again(self, times: int) -> tuple[Failure, ...]:
        """Return the failures that happen when the trace has been repeated `times` times."""
        return tuple(
            failure._replace(time_s=failure.time_s + times * self.span_s)
            for failure in self.recorded
        )
