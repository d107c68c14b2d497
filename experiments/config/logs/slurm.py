"""Jobs in Slurm's accounting: ``sacct --parsable2`` with State, Start, End and NodeList.

A job that ended in a state of `FAILED` is a failure at its end. It is a failure of one node if the
log names that node (FailedNode, or a job on one node). Otherwise a failure of hardware is one of
an unknown node, and a failure of software is one of the whole job. A failure of software on a
small job, such as a burn-in of one node, does not count, since it is no evidence about large jobs.
A preemption is no failure. The log shows failures only where jobs run, so the node-seconds are
those of jobs. A failed node is up again at the latest when the next job starts on it.
"""

from __future__ import annotations

import csv
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from io import StringIO
from itertools import product
from math import prod
from typing import NamedTuple

from faultline.experiments.config.errors import UserError, quote
from faultline.experiments.config.logs.failure_log import (
    LARGEST_NUMBER_OF_NODES,
    FailureLog,
    JobFailures,
    LogFile,
    Logged,
    left_out,
)
from faultline.experiments.config.trace_file import parse_timestamp, rows_of
from faultline.simulator.failures.failure import Kind

_SMALLEST_JOB = 2
"""Nodes of the smallest job whose failures of software count; 1 if no job has more."""
NEEDED = ("State", "Start", "End", "NodeList")
_CALL = (
    "call sacct --duplicates --parsable2 "
    f"--format=JobID,JobName,Partition,{','.join(NEEDED)},FailedNode"
)
FAILED: dict[str, tuple[str, Kind]] = {
    "NODE_FAIL": ("node-fail", "hardware"),
    "BOOT_FAIL": ("boot-fail", "hardware"),
    "LAUNCH_FAILED": ("launch-failed", "software"),
    "FAILED": ("failed", "software"),
    "OUT_OF_MEMORY": ("out-of-memory", "software"),
}
"""Cause and kind by the state that a job ended in."""
_PREEMPTED = "PREEMPTED"
SOUND = (
    "CANCELLED", "COMPLETED", "COMPLETING", "CONFIGURING", "DEADLINE", "PENDING", "REQUEUED",
    "RESIZING", "REVOKED", "RUNNING", "STOPPED", "SUSPENDED", "TIMEOUT", _PREEMPTED,
)  # fmt: skip
"""States that are no failure of the machine or the program."""

_PART = re.compile(r",|([^\[\],\s]+)|\[([^\[\]]+)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_MOST_EXPANDED = 5_000_000
"""Names in all lists of a log."""
_NEVER = frozenset(("", "Unknown", "None", "N/A", "None assigned", "(null)"))


_Pieces = Sequence[str | tuple[int, int, int]]
"""Alternatives for a part of a name: a text, or the first and last number and their digits."""


def is_sacct(first_line: str) -> bool:
    """Return whether a file with this first line comes from ``sacct --parsable2``."""
    return "|" in first_line and "State" in first_line.split("|")


def expand_nodes(text: str, most: int = LARGEST_NUMBER_OF_NODES) -> list[str]:
    """Return the nodes of a list with Slurm's ranges, each once: ``gpu[001-003,7],login1``.

    Raises ValueError if it is no such list, or names more than `most` nodes. Nodes are counted
    before any name is built.
    """
    names: list[list[_Pieces]] = [[]]
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise ValueError(f"cannot be read from {quote(text[at : at + 100])} on")
        if match[0] == ",":
            names.append([])
        else:
            names[-1].append(_pieces(match[2]) if match[2] else [match[0]])
        at = match.end()
    if not all(names):
        raise ValueError("has an empty name")
    if sum(prod(map(_count, parts)) for parts in names) > most:
        raise ValueError(
            f"has more than {most:,} nodes: keep fewer days, a list may have "
            f"{LARGEST_NUMBER_OF_NODES:,} and all of a log {_MOST_EXPANDED:,}"
        )
    expanded = ("".join(name) for parts in names for name in product(*map(_texts, parts)))
    return list(dict.fromkeys(expanded))


def _pieces(ranges: str) -> _Pieces:
    pieces = []
    for piece in ranges.split(","):
        match = _RANGE.fullmatch(piece.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first:
            raise ValueError(f"{quote(piece)} is no range")
        pieces.append((first, last, len(match[1])))
    return pieces


def _count(pieces: _Pieces) -> int:
    return sum(1 if isinstance(piece, str) else piece[1] - piece[0] + 1 for piece in pieces)


def _texts(pieces: _Pieces) -> Iterator[str]:
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        else:
            first, last, digits = piece
            yield from (f"{number:0{digits}d}" for number in range(first, last + 1))


class _Job(NamedTuple):
    """A run of a job."""

    identity: str  # Empty if the log has none; runs of a job that was requeued share it.
    name: str
    partition: str
    start: datetime
    end: datetime | None  # None if it still runs.
    state: str
    nodes: list[str]
    failed_node: str  # Empty if the log does not name it.

    def culprit(self, known: Collection[str]) -> str | None:
        """Return the known node whose failure ended the job; None if the log does not name it."""
        if self.failed_node in known:
            return self.failed_node
        return self.nodes[0] if len(self.nodes) == 1 else None

    @property
    def group(self) -> str:
        """The job's name, or the size of a job without a name."""
        return self.name or f"{len(self.nodes)}-node jobs"


@dataclass(slots=True)
class _Jobs:
    """The jobs of a file."""

    ran: list[_Job] = field(default_factory=list)
    columns: Collection[str] = ()
    lists: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    expanded: int = 0
    seen: set[tuple[str, ...]] = field(default_factory=set)
    duplicates: int = 0
    steps: int = 0
    never_ran: int = 0

    def of_rows(self, header: list[str], place: str) -> Callable[[list[str]], None]:
        """Return the reader of rows below a header."""
        for name in NEEDED:
            if name not in header:
                raise UserError(f"{place}: column {name} is missing; {_CALL}")
        self.columns = header
        return lambda row: self._read(dict(zip(header, row, strict=True)))

    def _read(self, cells: dict[str, str]) -> None:
        """Read a row, or count why it is left out; a ValueError reports a mistake."""
        job, state = cells.get("JobID", ""), cells["State"].split(" ")[0].rstrip("+")
        if "." in job:
            self.steps += 1
            return
        row = tuple(cells.values())
        if row in self.seen:
            self.duplicates += 1
            return
        self.seen.add(row)
        if cells["Start"] in _NEVER or cells["NodeList"] in _NEVER:
            self.never_ran += 1
            return
        if state not in FAILED and state not in SOUND:
            raise ValueError(
                f"State {quote(state)} is none of Slurm's: {', '.join(sorted(FAILED))} are failures"
            )
        start = parse_timestamp(cells["Start"])
        end = None if cells["End"] in _NEVER else parse_timestamp(cells["End"])
        if end is not None and end < start:
            raise ValueError(f"ends at {cells['End']}, before it starts")
        nodes = self._nodes(cells["NodeList"])
        known = (job, cells.get("JobName", ""), cells.get("Partition", ""))
        self.ran.append(_Job(*known, start, end, state, nodes, cells.get("FailedNode", "")))

    def _nodes(self, text: str) -> list[str]:
        if text not in self.lists:
            try:
                most = min(_MOST_EXPANDED - self.expanded, LARGEST_NUMBER_OF_NODES)
                nodes = expand_nodes(text, most)
            except ValueError as error:
                raise ValueError(
                    f"NodeList {quote(text)} {error}; write it as Slurm does: gpu[001-003,007]"
                ) from None
            self.expanded += len(nodes)
            # Each name is kept once, however many lists it is in.
            self.lists[text] = [self.names.setdefault(name, name) for name in nodes]
        return self.lists[text]


def read_sacct(file: LogFile) -> FailureLog:
    """Read jobs of ``sacct --parsable2``.

    Steps of jobs, jobs that never ran, jobs that are not selected, duplicate rows, preemptions and
    failures of software on small jobs are left out and counted.

    Raises UserError, which names the first wrong line, or if no job is selected.
    """
    jobs = _Jobs()
    lines = StringIO(file.text)
    for _ in rows_of(file.path, lines, jobs.of_rows, delimiter="|", quoting=csv.QUOTE_NONE):
        pass  # The jobs keep what is read.
    if not jobs.ran:
        raise UserError(
            f"{file.path}: no job in it ever ran; choose other days with sacct -S and -E"
        )
    return _as_log(jobs, file)


def _as_log(jobs: _Jobs, file: LogFile) -> FailureLog:
    begin = min(job.start for job in jobs.ran)
    last = max(job.end or job.start for job in jobs.ran)
    span_s = max((last - begin).total_seconds(), file.span_s or 0.0)

    def end_s(job: _Job) -> float:
        return span_s if job.end is None else (job.end - begin).total_seconds()

    def run_s(job: _Job) -> float:
        return end_s(job) - (job.start - begin).total_seconds()

    ran, others = _selected(jobs, file, run_s)
    # Jobs with the same node list share it.
    lists = {id(job.nodes): job.nodes for job in ran}
    named = {name for names in lists.values() for name in names}
    nodes = file.all_nodes(named)
    smallest_job = min(_SMALLEST_JOB, max(len(job.nodes) for job in ran))
    starts = _starts_on_failed_nodes(jobs, nodes, begin)
    failures, counted = [], Counter[tuple[str, Kind]]()
    unknown = small = 0
    for job in ran:
        if job.state not in FAILED or job.end is None:
            continue
        cause, kind = FAILED[job.state]
        if kind == "software" and len(job.nodes) < smallest_job:
            small += 1
            continue
        counted[job.group, kind] += 1
        time_s, culprit = end_s(job), job.culprit(nodes)
        if culprit is not None:
            after = starts[culprit]
            place = bisect_left(after, time_s)
            repair_s = after[place] - time_s if kind == "hardware" and place < len(after) else None
            failures.append(Logged(time_s, "host", nodes[culprit], cause, kind, repair_s))
        elif kind == "software":
            failures.append(Logged(time_s, "job", 0, cause, kind, None))
        else:
            unknown += 1
            failures.append(Logged(time_s, "host", None, cause, kind, None))
    notes = []
    if any(failure.repair_s is not None for failure in failures):
        notes.append("repair: until the next job starts on the node, which is an upper bound")
    if unknown:
        notes.append(
            f"{unknown} failures of hardware are each of one unknown node of a job, with an "
            "unknown repair; ask sacct for FailedNode"
        )
    others_failed = sum(job.state in FAILED for job in others)
    notes += left_out(
        {
            f"runs of other jobs ({others_failed:,} failed)": len(others),
            "exact duplicates": jobs.duplicates,
            "steps of jobs": jobs.steps,
            "jobs that never ran": jobs.never_ran,
            "preemptions": sum(job.state == _PREEMPTED for job in ran),
            f"failures of software on jobs of fewer than {smallest_job} nodes": small,
        }
    )
    failures.sort(key=lambda failure: failure.time_s)
    form = " ".join(["Slurm's sacct", file.selection.options]).strip()
    by_job = _by_job(ran, run_s, smallest_job, counted)
    node_s = sum(job.node_s for job in by_job)
    log = file.log(form, failures, nodes, span_s, node_s, notes)
    return replace(
        log,
        without_software_s=sum(job.without_software_s for job in by_job),
        jobs=by_job,
        idle_nodes=len(nodes) - len(named),
    )


def _by_job(
    ran: Collection[_Job],
    run_s: Callable[[_Job], float],
    smallest_job: int,
    counted: Mapping[tuple[str, Kind], int],
) -> tuple[JobFailures, ...]:
    """Return the runs and the failures by job, most node-seconds first."""
    groups: dict[str, list[_Job]] = defaultdict(list)
    for job in ran:
        groups[job.group].append(job)
    by_job = [
        JobFailures(
            name,
            len(mine),
            max(len(job.nodes) for job in mine),
            sum(len(job.nodes) * run_s(job) for job in mine),
            sum(len(job.nodes) * run_s(job) for job in mine if len(job.nodes) < smallest_job),
            counted.get((name, "hardware"), 0),
            counted.get((name, "software"), 0),
        )
        for name, mine in groups.items()
    ]
    return tuple(sorted(by_job, key=lambda job: -job.node_s))


def _selected(
    jobs: _Jobs, file: LogFile, run_s: Callable[[_Job], float]
) -> tuple[list[_Job], list[_Job]]:
    """Return the runs of the selected jobs, and those of other jobs.

    Raises UserError if there are none, or if the log lacks a column for the selection.
    """
    selection = file.selection
    for option, column, stated in (
        ("--job", "JobName", selection.name),
        ("--partition", "Partition", selection.partition),
    ):
        if stated is not None and column not in jobs.columns:
            raise UserError(f"{option} {stated}: {file.path} has no column {column}; {_CALL}")
    # Runs without an identity are jobs of their own.
    keys = [job.identity or number for number, job in enumerate(jobs.ran)]
    duration_s: dict[str | int, float] = defaultdict(float)
    for key, job in zip(keys, jobs.ran, strict=True):
        duration_s[key] += run_s(job)
    ran, others = list[_Job](), list[_Job]()
    for key, job in zip(keys, jobs.ran, strict=True):
        counts = selection.has(job.name, job.partition, len(job.nodes), duration_s[key])
        (ran if counts else others).append(job)
    if not ran:
        node_s = Counter[str]()
        for job in jobs.ran:
            node_s[job.group] += round(len(job.nodes) * run_s(job))
        most = ", ".join(name for name, _ in node_s.most_common(3))
        raise UserError(
            f"{selection.options}: selects no job of {file.path}; the jobs with the most node-days "
            f"are {most}"
        )
    return ran, others


def _starts_on_failed_nodes(
    jobs: _Jobs, nodes: Collection[str], begin: datetime
) -> dict[str, list[float]]:
    """Return when jobs started on each node that failed, in seconds after `begin`, ascending."""
    starts: dict[str, list[float]] = {
        culprit: []
        for job in jobs.ran
        if job.state in FAILED and (culprit := job.culprit(nodes)) is not None
    }
    # Each shared list is filtered once.
    failing: dict[int, list[str]] = {}
    for job in jobs.ran:
        if id(job.nodes) not in failing:
            failing[id(job.nodes)] = [name for name in job.nodes if name in starts]
        for name in failing[id(job.nodes)]:
            starts[name].append((job.start - begin).total_seconds())
    for times in starts.values():
        times.sort()
    return starts
