"""What a log of failures says, whatever its format: who failed when, of whom, in how much time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from faultline.experiments.config.errors import UserError
from faultline.simulator.failures.failure import Failure, Kind, Level

LARGEST_NUMBER_OF_NODES = 100_000


class Logged(NamedTuple):
    """One failure of a log."""

    time_s: float  # Seconds since the log begins.
    level: Level  # What kind of component failed.
    number: int  # Which one; a host's is its place in `FailureLog.nodes`.
    cause: str  # Its cause.
    kind: Kind  # What kind of repair it calls for.
    repair_s: float | None  # Seconds until it was up again; None where the log does not say.


@dataclass(frozen=True, slots=True)
class FailureLog:
    """A log of failures."""

    name: str  # The file.
    form: str  # Its format, as people say it.
    failures: tuple[Logged, ...]  # In the order of time.
    # Names of the nodes that the log knows, in their order; of a trace of Faultline, which names
    # none, ``host-0`` and so on.
    nodes: tuple[str, ...]
    gpus_per_node: int  # GPUs of a node.
    span_s: float  # How long was watched, in seconds.
    # Node-seconds in which a failure would have been seen: those of all nodes all the time, or of
    # those that were up, or had a job.
    node_s: float
    notes: tuple[str, ...] = ()  # What a reader has to know of it.
    # Node-seconds of these in which a failure of software would not have counted.
    without_software_s: float = 0.0

    @property
    def gpu_s(self) -> float:
        """GPU-seconds in which a failure would have been seen."""
        return self.node_s * self.gpus_per_node

    def gpu_s_of(self, kind: Kind) -> float:
        """Return the GPU-seconds in which a failure of a kind would have counted."""
        left_out_s = self.without_software_s if kind == "software" else 0.0
        return (self.node_s - left_out_s) * self.gpus_per_node

    def as_failures(self) -> list[Failure]:
        """Return the failures as a trace has them; which groups they hit is for a job to say."""
        return [Failure(*one, range(0)) for one in self.failures]


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file with a log, and what is known of its cluster besides."""

    path: Path
    text: str
    nodes: int | None  # Nodes of the cluster; None: those that the log names.
    gpus_per_node: int
    span_s: float | None  # For how long it was watched, if longer than the log shows.
    # Nodes of the smallest job whose failures of software count; None: 2, or 1 if no job has more.
    # What a CSV file calls its columns, by the names that they have here; empty: the same.
    columns: Mapping[str, str] = field(default_factory=dict)

    def all_nodes(self, named: Iterable[str]) -> dict[str, int]:
        """Return the places of all nodes: those that a log names, and unnamed ones beside them.

        Raises UserError: the log names more nodes than there are.
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
        """Return what it says."""
        name, gpus = str(self.path), self.gpus_per_node
        return FailureLog(
            name, form, tuple(failures), tuple(nodes), gpus, span_s, node_s, tuple(notes)
        )


def left_out(counts: Mapping[str, int]) -> list[str]:
    """Return a note of how much of what was left out of a log; none where nothing was."""
    said = [f"{count:,} {what}" for what, count in counts.items() if count]
    return [f"left out: {', '.join(said)}"] if said else []


def natural_order(names: Iterable[str]) -> list[str]:
    """Return names so that ``node9`` comes before ``node10``."""

    def key(name: str) -> list[tuple[int, str]]:
        # Every other part is a number: of as many digits as it has behind its zeros.
        parts = re.split(r"([0-9]+)", name)
        parts[1::2] = [part.lstrip("0") for part in parts[1::2]]
        return [(len(part) if place % 2 else -1, part) for place, part in enumerate(parts)]

    # Names that differ in zeros only keep their order, too.
    return sorted(sorted(set(names)), key=key)


def first_mistake(mistakes: Sequence[str]) -> None:
    """Tell the first of a file's mistakes, and how many more there are.

    Raises UserError if there is one.
    """
    if mistakes:
        more = len(mistakes) - 1
        raise UserError(mistakes[0] + (f" (and {more} more)" if more else ""))
