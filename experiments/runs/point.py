"""Tasks (points of a scenario and a seed, calls of a function) and their results."""

from __future__ import annotations

import hashlib
import os
import re
import traceback
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from faultline.experiments.config.errors import EXPLAINED
from faultline.experiments.config.grid import EngineName
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.platform_files import check_platform
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.single_run import run, stated_hash
from faultline.platforms.errors import one_line
from faultline.simulator.job.durations import Durations
from faultline.strategies.interface.errors import text_of

Labels = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a single run; None is no limit."""

    time_s: float | None = None  # Seconds of real time.
    # Resident memory of its process and the children of that process, in bytes.
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The value or error of a run."""

    value: Any  # The record, or the value that the called function returned.
    error: str | None = None  # One line if the run failed.
    trace: str | None = None  # Traceback of an unexpected error.
    # Durations that the run looked up, and their scenario.
    learned: tuple[Scenario, Durations] | None = None
    run_id: str = ""  # Name of the request; empty until it is known.
    wall_s: float = 0.0  # Real time of the run, in seconds.


class KnownDurations:
    """Durations of the last `size` scenarios: a look-up may take longer than a run."""

    # Tables and keys of a scenario that do not affect its durations.
    WITHOUT = frozenset({"name", "description", "strategy", "failures", "uncertain"})

    def __init__(self, size: int = 64) -> None:
        self._size = size
        self._known: OrderedDict[Hashable, Durations] = OrderedDict()

    def of(self, scenario: Scenario) -> Durations | None:
        """Return the durations of a scenario, or None if they are unknown."""
        return self._known.get(_durations_key(scenario))

    def learn(self, scenario: Scenario, durations: Durations) -> None:
        """Store durations, and read the platform, so that forked processes have both."""
        check_platform(scenario)
        self._known[_durations_key(scenario)] = durations
        while len(self._known) > self._size:
            self._known.popitem(last=False)


def _durations_key(scenario: Scenario) -> Hashable:
    """Return all that durations depend on; an edited platform file has another key."""
    tables = scenario.model_dump_json(exclude=set(KnownDurations.WITHOUT))
    try:
        path = Path(scenario.platform.file).resolve()
        status = path.stat()
    except OSError:
        return tables
    return tables, path, status.st_mtime_ns, status.st_size


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

    def read_ahead(self) -> None:
        """Read the files that all runs on this platform need, so that forked processes have them.

        Nothing happens if the scenario is not resolved yet, as that may take simulations. The run
        reports errors.
        """
        if self.resolved is not None:
            with suppress(*EXPLAINED):
                self.resolved.job(self.seed)
                self.resolved.read_ahead()

    def simulate(self, known: KnownDurations) -> RunOutcome:
        """Execute the run in this process."""
        if self.resolved is not None:
            return RunOutcome(run(self.resolved, self.seed, self.engine))
        durations = known.of(self.scenario)
        resolved = resolve(self.scenario, durations)
        record = run(resolved, self.seed, self.engine)
        learned = (self.scenario, resolved.durations) if durations is None else None
        return RunOutcome(record, learned=learned)


@dataclass(frozen=True, slots=True)
class RunCall:
    """The call of a function of one argument, for tasks that are no run of a scenario."""

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

    def simulate(self, known: KnownDurations) -> RunOutcome:
        """Call the function in this process."""
        return RunOutcome(self.function(self.argument))


Task = Point | RunCall


@dataclass(frozen=True, slots=True)
class Request:
    """A task, and the name that its result has."""

    run_id: str
    task: Task


Results = Generator[RunOutcome, None, None]


class Executor(Protocol):
    """Executes runs: on this machine, or on a Dask cluster."""

    def simulate(self, requests: Iterable[Request], limits: Limits) -> Results:
        """Execute the requests, and yield each result as it arrives, in any order.

        Requests are consumed lazily, so there may be any number of them. A run that crashes or
        exceeds its limits has a result with an error; the others continue. Closing the iterator
        stops the runs in flight and leaves no process behind.
        """
        ...


def name_run(named_scenario: str, seed: int, engine: EngineName) -> str:
    """Return the name of a run: a digest of its scenario's hash, its seed and its engine."""
    return hashlib.sha256(f"{named_scenario} {seed} {engine}".encode()).hexdigest()[:16]


def cores() -> int:
    """Return the number of processors this process may use."""
    return len(os.sched_getaffinity(0))


def attempt(task: Task, known: KnownDurations) -> RunOutcome:
    """Execute a task in this process; an exception becomes its error."""
    try:
        return task.simulate(known)
    except BaseException as error:  # SystemExit too: each failed run needs a reason.
        trace = None if isinstance(error, EXPLAINED) else traceback.format_exc()
        return RunOutcome(None, explain(error), trace)


def explain(error: BaseException) -> str:
    """Return an error as one line that is the same in each run."""
    text = str(error) if isinstance(error, EXPLAINED) else text_of(error)
    # Addresses in memory differ from run to run.
    return one_line(re.sub(r" at 0x[0-9a-fA-F]+", "", text))


def _digest(*parts: object) -> str:
    content = repr(parts)
    if " at 0x" in content:
        raise TypeError(f"cannot be named, so a store cannot keep it: {content}")
    return hashlib.sha256(content.encode()).hexdigest()[:16]
