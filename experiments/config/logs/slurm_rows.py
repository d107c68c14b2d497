"""Rows of Slurm's accounting: the runs of jobs, by ``sacct`` with State, Start, End, NodeList."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from io import StringIO
from typing import NamedTuple

from faultline.experiments.config.errors import UserError, quote
from faultline.experiments.config.logs.failure_log import LARGEST_NUMBER_OF_NODES, LogFile, Tally
from faultline.experiments.config.logs.node_lists import (
    MOST_EXPANDED,
    TooManyNodesError,
    expand_nodes,
)
from faultline.experiments.config.trace_file import check_width, numbered_rows, parse_timestamp
from faultline.simulator.failures.failure import Kind

NEEDED = ("State", "Start", "End", "NodeList")
_COLUMNS = (*NEEDED, "JobID", "JobName", "Partition", "FailedNode")
CALL = (
    "call sacct --allusers --duplicates --parsable2 "
    f"--format=JobID,JobName,Partition,{','.join(NEEDED)},FailedNode"
)
HIDDEN = "without --duplicates, sacct hides the failed runs of jobs that were requeued"
_DELIMITERS = "|", ",", ";", "\t"
_ALIASES = {
    "jobidraw": "JobID",
    "name": "JobName",
    "nodelist(reason)": "NodeList",
    "failednodes": "FailedNode",
}
"""Other names of columns, in small letters, by which a column is read if its own is missing."""
_CLOCKS_GO_BACK = timedelta(hours=1)
_EPOCH = re.compile(r"\d{9,11}", re.ASCII)
"""Times of ``SLURM_TIME_FORMAT=%s``."""
FAILED: dict[str, tuple[str, Kind]] = {
    "NODE_FAIL": ("node-fail", "hardware"),
    "BOOT_FAIL": ("boot-fail", "hardware"),
    "LAUNCH_FAILED": ("launch-failed", "software"),
    "FAILED": ("failed", "software"),
    "OUT_OF_MEMORY": ("out-of-memory", "software"),
}
"""Cause and kind by the state that a job ended in."""
PREEMPTED = "PREEMPTED"
SOUND = frozenset(
    (
        "CANCELLED", "COMPLETED", "COMPLETING", "CONFIGURING", "DEADLINE", "EXPEDITING", "LAUNCH",
        "PENDING", "POWER_UP_NODE", "RECONFIG_FAIL", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD",
        "RESIZING", "RESV_DEL_HOLD", "REVOKED", "RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT",
        "STOPPED", "SUSPENDED", "TIMEOUT", "UPDATE_DB", PREEMPTED,
    )
)  # fmt: skip
"""States and flags of Slurm's manual that are no failure of the machine or the program."""

_NEVER = frozenset(("", "Unknown", "None", "N/A", "None assigned", "(null)"))


def is_sacct(first_line: str) -> bool:
    """Return whether a file with this first line has the columns of ``sacct``."""
    return delimiter_of(first_line) is not None


def delimiter_of(first_line: str) -> str | None:
    """Return what separates the columns of ``sacct``; None if it has others.

    Such a table has the columns State and NodeList. If ``|`` separates the columns, State is
    enough: a missing NodeList is then reported.
    """
    for delimiter in _DELIMITERS:
        names = {name.strip().lower() for name in first_line.split(delimiter)}
        if "state" in names and ("nodelist" in names or delimiter == "|"):
            return delimiter
    return None


class Job(NamedTuple):
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
class Jobs:
    """The jobs of a file."""

    tally: Tally
    ran: list[Job] = field(default_factory=list)
    columns: Collection[str] = ()
    lists: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    expanded: int = 0
    seen: dict[tuple[str, ...], int] = field(default_factory=dict)
    back_in_time: int = 0

    def read_header(self, header: list[str], place: str) -> None:
        """Read the names of the columns, in any spelling."""
        known = {name.lower(): name for name in _COLUMNS}
        columns = [known.get(name.lower(), name) for name in header]
        for at, name in enumerate(columns):
            alias = _ALIASES.get(name.lower())
            if alias is not None and alias not in columns:
                columns[at] = alias
        for name in NEEDED:
            if name not in columns:
                raise UserError(f"{place}: column {name} is missing; {CALL}")
        self.columns = columns

    def read_row(self, line: int, row: list[str]) -> None:
        """Read a row, or count why it is left out; a ValueError reports a mistake."""
        cells = dict(zip(self.columns, row, strict=True))
        job, states = cells.get("JobID", ""), cells["State"].upper().replace("+", " ").split()
        state = states[0] if states else ""
        if "." in job:
            self.tally.leave_out("steps of jobs", line)
            return
        if self.seen.setdefault(tuple(row), line) != line:
            self.tally.leave_out("exact duplicates", line)
            return
        if cells["Start"] in _NEVER or cells["NodeList"] in _NEVER:
            self.tally.leave_out("jobs that never ran", line)
            return
        if state not in FAILED and state not in SOUND:
            raise ValueError(
                f"State {quote(state)} is none of Slurm's: {', '.join(sorted(FAILED))} are failures"
            )
        start = _moment(cells["Start"])
        end = None if cells["End"] in _NEVER else _moment(cells["End"])
        if end is not None and end < start:
            # Local time repeats an hour when clocks go back.
            if end + _CLOCKS_GO_BACK < start:
                raise ValueError(f"ends at {cells['End']}, before it starts; call TZ=UTC sacct")
            end, self.back_in_time = end + _CLOCKS_GO_BACK, self.back_in_time + 1
        nodes = self._nodes(cells["NodeList"])
        known = (job, cells.get("JobName", ""), cells.get("Partition", ""))
        failed = cells.get("FailedNode", "")
        self.ran.append(Job(*known, start, end, state, nodes, _host(failed, nodes)))

    def _nodes(self, text: str) -> list[str]:
        if text not in self.lists:
            try:
                most = min(MOST_EXPANDED - self.expanded, LARGEST_NUMBER_OF_NODES)
                nodes = expand_nodes(text, most)
            except ValueError as error:
                raise type(error)(
                    f"NodeList {quote(text)} {error}; write it as Slurm does: gpu[001-003,007]"
                ) from None
            self.expanded += len(nodes)
            # Each name is kept once, however many lists it is in.
            self.lists[text] = [self.names.setdefault(name, name) for name in nodes]
        return self.lists[text]


def _moment(text: str) -> datetime:
    """Read a time of Slurm's: ISO 8601, or seconds since 1970."""
    if _EPOCH.fullmatch(text):
        return datetime.fromtimestamp(int(text), timezone.utc)
    return parse_timestamp(text)


def _host(failed: str, nodes: Sequence[str]) -> str:
    """Return the node of a job that FailedNode means, also by its name within a domain."""
    if failed in _NEVER or failed in nodes:
        return "" if failed in _NEVER else failed
    short = failed.partition(".")[0]
    return next((node for node in nodes if node.partition(".")[0] == short), failed)


def read_jobs(file: LogFile) -> Jobs:
    """Read the runs of jobs in a table of ``sacct``.

    Steps of jobs, jobs that never ran, duplicate rows and rows that cannot be read are counted.

    Raises UserError if no job ever ran, or if most rows cannot be read.
    """
    jobs = Jobs(Tally(file.path))
    mistakes: list[str] = []
    first = next((line for line in file.text.splitlines() if line.strip()), "")
    delimiter = delimiter_of(first) or "|"
    rows = numbered_rows(
        file.path,
        StringIO(file.text, newline=""),
        mistakes,
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if delimiter == "|" else csv.QUOTE_MINIMAL,
    )
    for line, cells in rows:
        if not jobs.columns:
            jobs.read_header(cells, f"{file.path}:{line}")
            continue
        jobs.tally.read += 1
        whole = _whole_lists(cells, delimiter)
        try:
            check_width(whole, list(jobs.columns))
            jobs.read_row(line, whole)
        except TooManyNodesError as error:
            raise UserError(f"{file.path}:{line}: {error}") from error
        except ValueError as error:
            jobs.tally.cannot_read(line, error)
    if mistakes:
        raise UserError(mistakes[0])
    jobs.tally.check()
    if not jobs.ran:
        raise UserError(
            f"{file.path}: no job in it ever ran; choose other days with sacct -S and -E"
        )
    return jobs


def _whole_lists(cells: Sequence[str], delimiter: str) -> list[str]:
    """Join the parts of lists of nodes that a comma between columns has cut: ``gpu[1`` ``3]``."""
    joined: list[str] = []
    for cell in cells:
        if joined and joined[-1].count("[") > joined[-1].count("]"):
            joined[-1] += delimiter + cell
        else:
            joined.append(cell)
    return joined
