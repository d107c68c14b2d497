"""Tasks (points of a scenario and a seed, calls of a function) and their results."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faultline.experiments.config.grid import EngineName
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run, stated_hash
from faultline.simulator.job.durations import Durations

Labels = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a single run; None is no limit."""

    time_s: float | None = None  # Seconds of real time.
    memory_bytes: int | None = None  # Data of each of its processes, in bytes.


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The value or error of a run."""

    value: Any  # The record, or the value that the called function returned.
    error: str | None = None  # One line if the run failed.
    trace: str | None = None  # Traceback of an unexpected error.
    run_id: str = ""  # Name of the request.
    wall_s: float = 0.0  # Real time of the run, in seconds.


_MOST_KNOWN = 64
_known: dict[Hashable, Durations] = {}
"""Durations of the last scenarios in this process: a look-up may take longer than a run."""
_WITHOUT_EFFECT = {"name", "description", "strategy", "failures", "uncertain"}
"""Tables and keys of a scenario that do not affect its durations."""


def _resolved(scenario: Scenario) -> ResolvedJob:
    path = Path(scenario.platform.file)
    # An edited platform file has other durations; a shipped platform is no file.
    edited = path.stat().st_mtime_ns if path.is_file() else None
    key = scenario.model_dump_json(exclude=_WITHOUT_EFFECT), path.absolute(), edited
    resolved = resolve(scenario, _known.get(key))
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[key] = resolved.durations
    return resolved


@dataclass(frozen=True, slots=True)
class Point:
    """One run: a validated scenario and a seed."""

    scenario: Scenario
    # Seed of the run; points with one seed have the same failures under all schemes.
    seed: int = 0
    engine: EngineName = "replay"  # The engine (one of "replay", "simgrid").
    # Columns before those of the record, such as the place in a study's grid.
    labels: Labels = ()
    # The resolved scenario if the caller has it; otherwise the run resolves it.
    resolved: ResolvedJob | None = None

    @classmethod
    def of(cls, resolved: ResolvedJob, seed: int, labels: Labels = ()) -> Point:
        """Return the point of a resolved scenario."""
        return cls(resolved.scenario, seed, labels=labels, resolved=resolved)

    @property
    def source(self) -> str:
        """The module whose imports determine the record."""
        return "faultline.experiments.runs.single_run"

    def key(self) -> str:
        """Return the name of this run: a digest of all its inputs except the code."""
        name = name_run(stated_hash(self.scenario), self.seed, self.engine)
        resolved = self.resolved
        if resolved is None:
            return name
        # The scenario names the protection, so only its numbers are added.
        kept = (resolved.protected.times, resolved.snapshot_interval_steps, resolved.compute_s)
        return _digest(
            name, resolved.redundancy, resolved.interval_steps, resolved.durations, *kept
        )

    def simulate(self) -> Record:
        """Execute the run in this process."""
        return run(self.resolved or _resolved(self.scenario), self.seed, self.engine)


@dataclass(frozen=True, slots=True)
class RunCall:
    """The call of a function of one argument: a task other than the run of a scenario."""

    function: Callable[[Any], Any]  # A function of a module, so that other processes find it.
    # A store identifies the call by the `repr` of the argument, and keeps the result as JSON.
    argument: Any
    labels: Labels = ()

    @classmethod
    def each(cls, function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[RunCall]:
        """Return a call for each argument."""
        return [cls(function, argument) for argument in arguments]

    @property
    def source(self) -> str:
        """The module whose imports determine the result."""
        return self.function.__module__

    def key(self) -> str:
        """Return the name of this call: a digest of function and argument."""
        return _digest(self.source, self.function.__qualname__, self.argument)

    def simulate(self) -> Any:
        """Call the function in this process."""
        return self.function(self.argument)


Task = Point | RunCall


@dataclass(frozen=True, slots=True)
class Request:
    """A task as workers get it."""

    run_id: str  # Name of its result.
    task: Task
    limits: Limits = Limits()
    folder: str = field(default_factory=os.getcwd)  # Where its relative paths start.


def name_run(named_scenario: str, seed: int, engine: EngineName) -> str:
    """Return the name of a run: a digest of its scenario's hash, its seed and its engine."""
    return hashlib.sha256(f"{named_scenario} {seed} {engine}".encode()).hexdigest()[:16]


def cores() -> int:
    """Return the number of processors this process may use."""
    return len(os.sched_getaffinity(0))


def _digest(*parts: object) -> str:
    content = repr(parts)
    if " at 0x" in content:
        raise TypeError(f"cannot be named, so a store cannot keep it: {content}")
    return hashlib.sha256(content.encode()).hexdigest()[:16]
