"""Entries of Google's ml-goodput-measurement: the starts of a job and of each of its steps.

An entry is a JSON object such as ``{"job_name": "train", "step_count": 17, "step_start_time":
1743574104.3}`` (times in seconds since 1970). Cloud Logging exports it within ``jsonPayload``.
Entries name no checkpoint. Checkpoints follow from the steps at which a job starts again.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd
from sys import float_info, maxsize
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

JOB_START, STEP, STEP_START = "job_start_time", "step_count", "step_start_time"
_PHASES = ("tpu_init", "training_prep", "data_loading", "custom_badput_event")
OTHERS = ("job_end_time", *(f"{phase}_{end}_time" for phase in _PHASES for end in ("start", "end")))
"""Other times at which the job still existed."""


class StepEvents(NamedTuple):
    """The events of a job, derived from its entries."""

    loads: set[tuple[float, int]]  # Time and number of the first step of each life.
    saves: set[tuple[float, int]]  # Time and number of the steps that follow a checkpoint.
    interval_steps: int  # Steps between checkpoints; 0 if the job never starts again.
    steps: int  # Steps that began; a repeated step counts in each life.


@dataclass
class StepEntries:
    """The entries read so far, in any order; a step takes 16 bytes."""

    # Times at which the job started, in seconds.
    starts: array[float] = field(default_factory=lambda: array("d"))
    _steps: array[int] = field(default_factory=lambda: array("q"))
    _times_s: array[float] = field(default_factory=lambda: array("d"))

    @property
    def count(self) -> int:
        """Entries of starts and steps, including duplicates."""
        return len(self.starts) + len(self._steps)

    def take(self, entry: Mapping[str, Any]) -> float | None:
        """Add an entry; return its time in seconds, or None if it is of no known kind.

        Raises KeyError or ValueError if a time or a step is missing or is no number.
        """
        if STEP in entry or STEP_START in entry:
            step, time_s = step_of(entry[STEP]), seconds_of(entry[STEP_START])
            self._steps.append(step)
            self._times_s.append(time_s)
            return time_s
        if JOB_START in entry:
            time_s = seconds_of(entry[JOB_START])
            self.starts.append(time_s)
            return time_s
        return max((seconds_of(entry[name]) for name in OTHERS if name in entry), default=None)

    def events(self) -> StepEvents:
        """Return the loads and saves of the job.

        A job starts again at its last checkpoint. The interval is therefore the greatest
        common divisor of the differences between the steps at which it starts. A checkpoint counts
        if the next life starts there or later.
        """
        starts_s = np.unique(np.frombuffer(self.starts))
        times_s, steps = self._in_order()
        bounds = np.searchsorted(times_s, starts_s)
        lives = [
            (times_s[begin:end], steps[begin:end])
            for begin, end in zip(bounds, [*bounds[1:], len(steps)], strict=True)
            if begin < end
        ]
        loads = {(float(began_s[0]), int(done[0])) for began_s, done in lives}
        first, *others = sorted({step for _, step in loads}) or [0]
        interval = gcd(*(step - first for step in others))
        saves: set[tuple[float, int]] = set()
        for number, (began_s, done) in enumerate(lives if interval else ()):
            last = lives[number + 1][1][0] if number + 1 < len(lives) else done.max()
            # Index of the first occurrence of each step, by step.
            kept = np.unique(done, return_index=True)[1]
            kept = kept[(done[kept] > done[0]) & (done[kept] <= last)]
            kept = kept[(done[kept] - first) % interval == 0]
            saves.update(zip(began_s[kept].tolist(), done[kept].tolist(), strict=True))
        return StepEvents(loads, saves, interval, len(steps))

    def _in_order(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the distinct times and steps, in the order of time."""
        times_s, steps = np.frombuffer(self._times_s), np.frombuffer(self._steps, dtype=np.int64)
        order = np.lexsort((steps, times_s))
        times_s, steps = times_s[order], steps[order]
        is_new = (np.diff(times_s, prepend=np.nan) != 0.0) | (np.diff(steps, prepend=-1) != 0)
        return times_s[is_new], steps[is_new]


def seconds_of(value: Any) -> float:
    """Return a number of seconds; a ValueError refuses other values."""
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= float_info.max
    ):
        return float(value)
    raise ValueError("no time in seconds")


def step_of(value: Any) -> int:
    """Return the number of a step; a ValueError refuses other values."""
    if isinstance(value, (int, float)) and 0 <= value <= maxsize and value == int(value):
        return int(value)
    raise ValueError("no step")
