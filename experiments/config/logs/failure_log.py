"""A log of failures in any format: which node failed when, and for how long nodes were watched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import quote as shell_quote
from typing import NamedTuple

import numpy as np
from faultline.experiments.config.errors import UserError, and_more
from faultline.experiments.config.trace_file import LARGEST_BYTES
from faultline.platforms.files import read_text
from faultline.simulator.failures.failure import Failure, Kind, Level

LARGEST_NUMBER_OF_NODES = 100_000

_SMALL = 0.1
"""Jobs are short or small with less than this share of the node-time of a run of the main job."""
_DRAWN_NODES = 0
"""Seed for the nodes of failures that do not name theirs, in a trace."""


class Logged(NamedTuple):
    """One failure of a log."""

    time_s: float  # Seconds since the log begins.
    level: Level  # Level of the failed component.
    # Number of the component; of a host, its place in `FailureLog.nodes`, or None if the log does
    # not name the host.
    number: int | None
    cause: str
    kind: Kind
    repair_s: float | None  # Seconds until it was up again; None if the log does not state it.


class JobFailures(NamedTuple):
    """The runs of the jobs of one name, and their failures."""

    name: str  # Of the jobs; of runs without a name, their number of nodes.
    runs: int
    nodes: int  # Nodes of the largest run.
    node_s: float  # Node-seconds of the runs.
    without_software_s: float  # As in `FailureLog`.
    hardware: int  # Failures of hardware.
    software: int

    @property
    def failures(self) -> int:
        """All failures."""
        return self.hardware + self.software


@dataclass(frozen=True, slots=True)
class JobSelection:
    """The jobs of a scheduler's log that count."""

    name: str | None = None  # A pattern with * and ?; None: all names.
    partition: str | None = None  # Likewise.
    min_nodes: int | None = None  # Least nodes of a run.
    min_duration_s: float | None = None  # Least time of all runs of a job together.

    @property
    def options(self) -> str:
        """The selection as options of a command; empty if all jobs count."""
        duration = None if self.min_duration_s is None else f"{self.min_duration_s:g}s"
        stated = {
            "--job": self.name,
            "--partition": self.partition,
            "--min-nodes": self.min_nodes,
            "--min-duration": duration,
        }
        return " ".join(
            f"{option} {shell_quote(str(value))}"
            for option, value in stated.items()
            if value is not None
        )

    def has(self, name: str, partition: str, nodes: int, duration_s: float) -> bool:
        """Return whether a run of a job counts."""
        return (
            (self.name is None or fnmatchcase(name, self.name))
            and (self.partition is None or fnmatchcase(partition, self.partition))
            and nodes >= (self.min_nodes or 0)
            and duration_s >= (self.min_duration_s or 0.0)
        )


@dataclass(frozen=True, slots=True)
class FailureLog:
    """A log of failures."""

    name: str  # The file.
    form: str  # Name of its format.
    failures: tuple[Logged, ...]  # In the order of time.
    # Names of all nodes, in natural order; ``host-0`` and so on for a trace of Faultline.
    nodes: tuple[str, ...]
    gpus_per_node: int
    span_s: float  # Time for which the cluster was watched, in seconds.
    # Node-seconds in which the log would show a failure: of all nodes, of the nodes that were up,
    # or of the nodes that had a job.
    node_s: float
    notes: tuple[str, ...] = ()  # Sentences about what was read and left out.
    # Node-seconds among `node_s` in which failures of software do not count.
    without_software_s: float = 0.0
    # The failures by job, most node-seconds first; empty if the log knows no jobs.
    jobs: tuple[JobFailures, ...] = ()
    idle_nodes: int = 0  # Nodes at the end of `nodes` that the log did not watch.

    @property
    def job_nodes(self) -> int:
        """Nodes of the largest run of a job; 0 if the log knows no jobs."""
        return max((job.nodes for job in self.jobs), default=0)

    @property
    def warning(self) -> str | None:
        """A sentence if most failures are of jobs much shorter or smaller than the main one."""
        if not self.jobs:
            return None
        main = self.jobs[0]  # Most node-seconds.
        most_s = _SMALL * main.node_s / main.runs
        small = [job for job in self.jobs if job.node_s / job.runs < most_s]
        count, total = sum(job.failures for job in small), len(self.failures)
        if 2 * count <= total:
            return None
        share = sum(job.node_s for job in small) / self.node_s
        return (
            f"{count} of {total} failures are of short or small jobs ({share:.0%} of the node-days)"
            f" and say little about {main.name}: select jobs by --job, --min-nodes"
        )

    @property
    def gpu_s(self) -> float:
        """GPU-seconds in which the log would show a failure."""
        return self.node_s * self.gpus_per_node

    def gpu_s_of(self, kind: Kind) -> float:
        """Return the GPU-seconds in which a failure of a kind counts."""
        without_s = self.without_software_s if kind == "software" else 0.0
        return (self.node_s - without_s) * self.gpus_per_node

    def as_failures(self) -> list[Failure]:
        """Return the failures for a trace; they hit no groups yet.

        A failure of a host that the log does not name is on a randomly drawn one.
        """
        drawn = np.random.default_rng(_DRAWN_NODES).integers(
            max(1, len(self.nodes) - self.idle_nodes), size=len(self.failures)
        )
        return [
            Failure(
                one.time_s,
                one.level,
                int(node) if one.number is None else one.number,
                one.cause,
                one.kind,
                one.repair_s,
                range(0),
            )
            for one, node in zip(self.failures, drawn, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file with a log, and facts about its cluster that the file does not state."""

    path: Path
    nodes: int | None = None  # Nodes of the cluster; None: the nodes that the log names.
    gpus_per_node: int = 8
    span_s: float | None = None  # Seconds for which it was watched, if longer than the log.
    # Names of the columns in a CSV file by Faultline's names; other columns are left out. Empty if
    # they are the same.
    columns: Mapping[str, str] = field(default_factory=dict)
    selection: JobSelection = JobSelection()  # Jobs that count, in a scheduler's log.
    merge_within_s: float = 60.0  # Failures of a node that follow within this time are one.
    text: str = field(init=False)

    def __post_init__(self) -> None:
        """Read the text.

        Raises UserError if there is no such file.
        """
        try:
            object.__setattr__(self, "text", read_text(self.path, LARGEST_BYTES))
        except OSError as error:
            raise UserError(f"{self.path}: {error.strerror}; name a log of failures") from error

    def all_nodes(self, named: Iterable[str]) -> dict[str, int]:
        """Return the places of all nodes: named ones, then unnamed ones up to the stated number.

        Raises UserError if the log names more nodes than are stated.
        """
        names = natural_order(named)
        if self.nodes is not None and self.nodes < len(names):
            raise UserError(
                f"--nodes {self.nodes}: {self.path} names {len(names)} nodes, such as {names[-1]}; "
                f"give at least {len(names)}, or leave it out"
            )
        names += [f"(node {number})" for number in range(len(names) + 1, (self.nodes or 0) + 1)]
        return {name: place for place, name in enumerate(names)}

    def log(
        self,
        form: str,
        failures: Iterable[Logged],
        nodes: Iterable[str],
        span_s: float = 0.0,
        node_s: float = 0.0,
        notes: Iterable[str] = (),
    ) -> FailureLog:
        """Return the log of the file."""
        return FailureLog(
            str(self.path),
            form,
            tuple(failures),
            tuple(nodes),
            self.gpus_per_node,
            span_s,
            node_s,
            tuple(notes),
        )


@dataclass(slots=True)
class Tally:
    """The rows of a log: how many count, and why others do not, each with its first line."""

    path: Path
    read: int = 0
    first_error: str = ""  # Of a row that cannot be read, with its place.
    unreadable: int = 0
    _reasons: dict[str, tuple[int, int]] = field(default_factory=dict)

    def leave_out(self, what: str, line: int) -> None:
        """Count a row that does not count; `what` names such rows in the plural."""
        count, first = self._reasons.get(what, (0, line))
        self._reasons[what] = count + 1, first

    def cannot_read(self, line: int, error: ValueError) -> None:
        """Count a row that cannot be read."""
        self.unreadable += 1
        self.first_error = self.first_error or f"{self.path}:{line}: {error}"

    def check(self) -> None:
        """Raise a UserError with the first error if as many rows as not cannot be read."""
        if 2 * self.unreadable >= max(1, self.read):
            others = and_more(self.unreadable - 1)
            raise UserError(self.first_error + others)

    def notes(self, kept: str) -> list[str]:
        """Return what was read, kept and left out; `kept` names the rows that count."""
        left = sum(count for count, _ in self._reasons.values()) + self.unreadable
        lines = [f"{self.read:,} rows: {self.read - left:,} {kept}, {left:,} left out"]
        lines += [
            f"left out: {count:,} {what} (line {first}{' is the first' * (count > 1)})"
            for what, (count, first) in self._reasons.items()
        ]
        if self.unreadable:
            lines.append(
                f"left out: {self.unreadable:,} that cannot be read; the first: {self.first_error}"
            )
        return lines


def natural_order(names: Iterable[str]) -> list[str]:
    """Return names so that ``node9`` comes before ``node10``."""

    def key(name: str) -> list[tuple[int, str]]:
        # Every other part is a number. Without leading zeros, more digits make a larger number.
        parts = re.split(r"([0-9]+)", name)
        parts[1::2] = [part.lstrip("0") for part in parts[1::2]]
        return [(len(part) if place % 2 else -1, part) for place, part in enumerate(parts)]

    # Names that differ only in zeros need an order, too.
    return sorted(sorted(set(names)), key=key)
