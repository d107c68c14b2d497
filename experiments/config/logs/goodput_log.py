"""Goodput event logs: when a job started, loaded or saved a checkpoint, or began a step.

Each line is a JSON object with ``timestamp``, ``event_type`` and ``node_rank`` or ``step``, as in
AI-Hypercomputer/resiliency (tests/resiliency/goodput_measure), or an entry of Google's
ml-goodput-measurement (`step_entries`). Lines may have any order. The file is read line by line: a
start takes 8 bytes of memory, a step 16, a load or a save about 100.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from sys import maxsize

import numpy as np
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs.step_entries import (
    StepEntries,
    StepEvents,
    seconds_of,
    step_of,
)
from faultline.experiments.config.trace_file import parse_timestamp
from faultline.platforms.files import lines_of

STARTED, ENDED = "job_started", "job_terminated"
LOADED, SAVED = "checkpoint_loaded", "checkpoint_saved"
_EVENTS = (STARTED, ENDED, LOADED, SAVED)
_MOST_BYTES_PER_LINE = 2**20
_FORMAT = (
    'one JSON object a line, such as {"timestamp": "2025-04-02T06:08:24", "event_type": '
    '"job_started", "node_rank": 0, "job_name": "train"}; event_type is one of '
    f"{', '.join(_EVENTS)}, and the latter two have a step; or entries of ml-goodput-measurement, "
    'such as {"job_name": "train", "step_count": 17, "step_start_time": 1743574104.3}'
)


@dataclass(frozen=True, slots=True)
class LoggedLife:
    """The time from one start of a job to the next, in seconds after the log's first event."""

    start_s: float  # Start of its first node.
    end_s: float  # Start of the next life; the last event of the log for the last life.
    nodes: int  # Nodes that started.
    # Time at which the first checkpoint was loaded, and its step; None if none was.
    loaded: tuple[float, int] | None
    # Times at which checkpoints were saved, and their steps, ascending.
    saves: tuple[tuple[float, int], ...]

    @property
    def duration_s(self) -> float:
        """Time from start to end."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class GoodputLog:
    """The lives of a job, in order; the last one has not ended when the log ends."""

    name: str  # The file.
    lives: tuple[LoggedLife, ...]  # At least one.
    nodes: int  # Nodes that the log names; 0 if it names none.
    jobs: tuple[str, ...]  # Names of the job.
    note: str  # A line about what was read and left out.

    @property
    def start_s(self) -> float:
        """Start of the first life."""
        return self.lives[0].start_s

    @property
    def span_s(self) -> float:
        """Time from the first start to the last event, in seconds."""
        return self.lives[-1].end_s - self.start_s

    @property
    def first_step(self) -> int:
        """Step of the first checkpoint that was loaded; 0 if a checkpoint was saved before."""
        for life in self.lives:
            if life.loaded or life.saves:
                return life.loaded[1] if life.loaded else 0
        return 0

    @property
    def steps_kept(self) -> int:
        """Steps from the first to the last checkpoint that was saved."""
        saves = [step for life in self.lives for _, step in life.saves]
        return max(saves) - self.first_step if saves else 0

    def within(self, span_s: float) -> GoodputLog:
        """Return the log up to a time after its first start, in seconds."""
        end_s = self.start_s + span_s
        lives = [
            replace(
                life,
                end_s=min(life.end_s, end_s),
                loaded=life.loaded if life.loaded and life.loaded[0] <= end_s else None,
                saves=tuple(save for save in life.saves if save[0] <= end_s),
            )
            for life in self.lives
            if life.start_s <= end_s
        ]
        return replace(self, lives=tuple(lives))

    def split(self, share: float) -> tuple[GoodputLog, GoodputLog]:
        """Return the log before and after the start of a life nearest to a share of its time.

        Raises UserError if one of the two is empty.
        """
        starts = [life.start_s for life in self.lives]
        wanted = self.start_s + share * self.span_s
        at = int(np.argmin([abs(start - wanted) for start in starts]))
        if not 0 < at < len(starts):
            raise UserError(
                f"{self.name}: {len(starts)} starts are too few to fit on one part and to predict "
                "the other; take a longer log"
            )
        return replace(self, lives=self.lives[:at]), replace(self, lives=self.lives[at:])


def read_goodput_log(path: Path) -> GoodputLog:
    """Read a goodput event log.

    Raises UserError if there is no such file, or no life of a job in it.
    """
    try:
        collected = _Collected()
        for number, line in enumerate(lines_of(path, _MOST_BYTES_PER_LINE), 1):
            if line.strip():
                collected.read(number, line)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a goodput event log") from error
    events = None
    if collected.entries.starts and not collected.starts:
        events = collected.entries.events()
        collected.starts = {"": collected.entries.starts}
        collected.loads, collected.saves = events.loads, events.saves
    if not collected.starts:
        first = f"line {collected.first_unreadable}: " if collected.first_unreadable else ""
        raise UserError(f"{path}: {first}no {STARTED} event; write {_FORMAT}")
    return _log(str(path), collected, events)


@dataclass
class _Collected:
    """The events of the lines read so far."""

    lines: int = 0
    unreadable: int = 0
    first_unreadable: int = 0
    others: Counter[str] = field(default_factory=Counter)
    starts: dict[str, array[float]] = field(default_factory=dict)  # Times by node.
    ends: int = 0
    # Times of the first report of a step; several nodes may report it.
    loads: set[tuple[float, int]] = field(default_factory=set)
    saves: set[tuple[float, int]] = field(default_factory=set)
    repeated: int = 0
    last_s: float = float("-inf")
    jobs: dict[str, None] = field(default_factory=dict)
    entries: StepEntries = field(default_factory=StepEntries)

    def read(self, number: int, line: bytes) -> None:
        """Read a line; unreadable ones are counted."""
        self.lines += 1
        try:
            entry = json.loads(line)
            entry = entry.get("jsonPayload", entry)
            kind = entry.get("event_type")
            time_s = self.entries.take(entry) if kind is None else _seconds(entry["timestamp"])
            if time_s is None:
                raise KeyError("event_type")
            if kind in (LOADED, SAVED):
                events = self.loads if kind == LOADED else self.saves
                event = time_s, step_of(entry["step"])
                self.repeated += event in events
                events.add(event)
            elif kind == STARTED:
                self.starts.setdefault(str(entry["node_rank"]), array("d")).append(time_s)
            elif kind == ENDED:
                self.ends += 1
            elif kind is not None:
                self.others[str(kind)] += 1
                return
        except (ValueError, KeyError, TypeError, AttributeError):
            self.unreadable += 1
            self.first_unreadable = self.first_unreadable or number
            return
        self.last_s = max(self.last_s, time_s)
        self.jobs.setdefault(str(entry.get("job_name", "")))

    def note(self, lives: int, repeated: int, events: StepEvents | None) -> str:
        """Return a line about what was read; a job that logs its steps has `events`."""
        if events is None:
            text = f"{self.lines:,} lines: {len(self.starts):,} nodes, {lives:,} starts, "
            text += f"{len(self.loads):,} loads, {len(self.saves):,} saves"
            if self.ends:
                text += f", {self.ends:,} ends of nodes"
        else:
            text = f"{self.lines:,} lines: {lives:,} starts, {events.steps:,} steps"
            if events.interval_steps:
                text += f", a checkpoint every {events.interval_steps:,} steps (the job starts "
                text += "again at multiples)"
        if repeated:
            text += f"; {repeated:,} lines twice"
        if self.others:
            kinds = ", ".join(sorted(self.others))
            text += f"; {self.others.total():,} lines of other events left out ({kinds})"
        if self.unreadable:
            text += f"; {self.unreadable:,} lines unreadable, first at line "
            text += f"{self.first_unreadable:,}"
        return text


def _seconds(value: object) -> float:
    """Return a timestamp in seconds; it may be in ISO 8601."""
    return parse_timestamp(value).timestamp() if isinstance(value, str) else seconds_of(value)


def _log(name: str, collected: _Collected, events: StepEvents | None) -> GoodputLog:
    """Return the log of a job; a log of steps has `events`, and names no nodes."""
    times, nodes, repeated = _sorted_starts(collected.starts)
    lives = list(_lives(times, nodes))
    if events is None:
        repeated += collected.repeated
    else:
        repeated = collected.entries.count - len(lives) - events.steps
    origin_s, ends_s = lives[0][0], [start for start, _ in lives[1:]]
    ends_s.append(max(collected.last_s, lives[-1][0]))
    loads, saves = sorted(collected.loads), sorted(collected.saves)
    return GoodputLog(
        name,
        tuple(
            LoggedLife(
                start_s - origin_s,
                end_s - origin_s,
                count,
                next(iter(_within(loads, start_s, end_s, origin_s)), None),
                _first_reports(_within(saves, start_s, end_s, origin_s)),
            )
            for (start_s, count), end_s in zip(lives, ends_s, strict=True)
        ),
        len(collected.starts) if events is None else 0,
        tuple(job for job in collected.jobs if job),
        collected.note(len(lives), repeated, events),
    )


def _sorted_starts(
    starts: Mapping[str, array[float]],
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the times and node numbers of all starts, in order, and the number of duplicates."""
    own = [np.unique(np.frombuffer(times)) for times in starts.values()]
    times = np.concatenate(own)
    nodes = np.repeat(np.arange(len(own)), [len(node_times) for node_times in own])
    order = np.argsort(times, kind="stable")
    return times[order], nodes[order], sum(map(len, starts.values())) - len(times)


def _lives(times: np.ndarray, nodes: np.ndarray) -> Iterator[tuple[float, int]]:
    """Yield the start and the nodes of each life; a life begins when a node starts again."""
    seen: set[int] = set()
    start_s = float(times[0])
    for time_s, node in zip(times.tolist(), nodes.tolist(), strict=True):
        if node in seen:
            yield start_s, len(seen)
            seen, start_s = set(), time_s
        seen.add(node)
    yield start_s, len(seen)


def _within(
    events: list[tuple[float, int]], start_s: float, end_s: float, origin_s: float
) -> list[tuple[float, int]]:
    """Return the events from the start to the end of a life."""
    first, last = bisect_left(events, (start_s, -1)), bisect_right(events, (end_s, maxsize))
    return [(time_s - origin_s, step) for time_s, step in events[first:last]]


def _first_reports(events: Iterable[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    """Return the first report of each step."""
    first: dict[int, float] = {}
    for time_s, step in events:
        first.setdefault(step, time_s)
    return tuple((time_s, step) for step, time_s in sorted(first.items()))
