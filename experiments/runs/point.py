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
from faultline.experiments.job.resolved_job import ResolvedJob, resolve
from faultline.experiments.runs.single_run import asked_hash, run
from faultline.platforms.errors import one_line
from faultline.simulator.job import Durations
from faultline.strategies.guarding import told

Labels = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a single run; None is no limit."""

    time_s: float | None = None  # Seconds of real time.
    # Resident memory of its process and that process's children, in bytes.
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a run."""

    value: Any  # Its record, or what the called function returned.
    error: str | None = None  # One line: why there is none; None if all is well.
    trace: str | None = None  # The traceback of an error that does not explain itself.
    # Durations that were looked up on the way, and the scenario that they are of.
    learned: tuple[Scenario, Durations] | None = None


class KnownDurations:
    """Durations of as many earlier runs: to look them up may take longer than a run does."""

    # What in a scenario its durations do not depend on.
    WITHOUT = frozenset({"name", "description", "strategy", "failures"})

    def __init__(self, size: int = 64) -> None:
        self._size = size
        self._known: OrderedDict[Hashable, Durations] = OrderedDict()

    def of(self, scenario: Scenario) -> Durations | None:
        """Return the durations of a scenario, or None if they are not known."""
        return self._known.get(_durations_key(scenario))

    def learn(self, scenario: Scenario, durations: Durations) -> None:
        """Remember durations; the platform is read too, so that forked processes have it."""
        check_platform(scenario)
        self._known[_durations_key(scenario)] = durations
        while len(self._known) > self._size:
            self._known.popitem(last=False)


def _durations_key(scenario: Scenario) -> Hashable:
    """Everything that durations depend on; an edited platform file is another platform."""
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
    # Seed of the run; points of one seed live through the same failures, whatever the scheme.
    seed: int = 0
    engine: EngineName = "replay"  # The engine that plays it (one of "replay", "simgrid").
    # Columns that go before those of the record, such as the place in a study's grid.
    labels: Labels = ()
    # The scenario as resolved, where the caller has that; otherwise it is where it is played.
    question: ResolvedJob | None = None

    @classmethod
    def of(cls, question: ResolvedJob, seed: int, labels: Labels = ()) -> Point:
        """Return the point of a scenario that is resolved already."""
        return cls(question.scenario, seed, labels=labels, question=question)

    @property
    def source(self) -> str:
        """The module whose imports decide what comes of it."""
        return "faultline.experiments.runs.single_run"

    def key(self) -> str:
        """Return the name of this run: a digest of all that its record depends on but the code."""
        name = name_run(asked_hash(self.scenario), self.seed, self.engine)
        resolved = self.question
        if resolved is None:
            return name
        # The protection itself is one of the scenario.
        kept = (resolved.protected.times, resolved.protected.snapshot_interval_steps)
        return _digest(
            name, resolved.redundancy, resolved.interval_steps, resolved.durations, *kept
        )

    def read_ahead(self) -> None:
        """Read what all runs on this platform need, so that forked processes have it.

        Only where the scenario is resolved already: then this simulates nothing. The run itself
        reports what is wrong.
        """
        if self.question is not None:
            with suppress(*EXPLAINED):
                self.question.job(self.seed)
                self.question.read_ahead()

    def play(self, known: KnownDurations) -> Played:
        """Play it in this process."""
        if self.question is not None:
            return Played(run(self.question, self.seed, self.engine))
        durations = known.of(self.scenario)
        question = resolve(self.scenario, durations)
        record = run(question, self.seed, self.engine)
        learned = (self.scenario, question.durations) if durations is None else None
        return Played(record, learned=learned)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of one argument, for what is computed in other ways than by playing a scenario."""

    function: Callable[[Any], Any]  # A function of a module, so that other processes find it.
    # What it is called with. To be kept in a store, its `repr` must say all of it, and the function
    # return what JSON knows.
    argument: Any
    labels: Labels = ()

    @classmethod
    def each(cls, function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Call]:
        """Return a call for each argument."""
        return [cls(function, argument) for argument in arguments]

    @property
    def source(self) -> str:
        """The module whose imports decide what comes of it."""
        return self.function.__module__

    def key(self) -> str:
        """Return the name of this call: a digest of function and argument."""
        return _digest(self.source, self.function.__qualname__, self.argument)

    def play(self, known: KnownDurations) -> Played:
        """Call the function in this process."""
        return Played(self.function(self.argument))


Task = Point | Call


@dataclass(frozen=True, slots=True)
class Request:
    """A task under the name by which its result is known again."""

    run_id: str
    task: Task


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a request."""

    run_id: str  # The request's.
    played: Played  # A record, or the reason why there is none.
    wall_s: float = 0.0  # Seconds of real time it took.


Results = Generator[Result, None, None]


class Executor(Protocol):
    """Executes runs: on this machine, or on a Dask cluster."""

    def play(self, requests: Iterable[Request], limits: Limits) -> Results:
        """Play the requests, and yield each result as it comes, in any order.

        Requests are taken only as results are taken, so that there may be any number of them. A
        run that crashes, or exceeds its limits, gives a result with an error; the others go on.
        Closing the iterator stops what is under way and leaves no process behind.
        """
        ...


def name_run(named_scenario: str, seed: int, engine: EngineName) -> str:
    """Return the name of a run: a digest of its scenario's hash, its seed and its engine."""
    return hashlib.sha256(f"{named_scenario} {seed} {engine}".encode()).hexdigest()[:16]


def cores() -> int:
    """Return the number of processors this process may use."""
    return len(os.sched_getaffinity(0))


def attempt(task: Task, known: KnownDurations) -> Played:
    """Play a task in this process; whatever it raises becomes the line of its error."""
    try:
        return task.play(known)
    except BaseException as error:  # SystemExit too: nothing may end a run without a reason.
        trace = None if isinstance(error, EXPLAINED) else traceback.format_exc()
        return Played(None, explain(error), trace)


def explain(error: BaseException) -> str:
    """Return an error as one line that is the same whenever it happens."""
    text = str(error) if isinstance(error, EXPLAINED) else told(error)
    # Where in memory an object was is of no use to anybody, and another place every time.
    return one_line(re.sub(r" at 0x[0-9a-fA-F]+", "", text))


def _digest(*parts: object) -> str:
    content = repr(parts)
    if " at 0x" in content:
        raise TypeError(f"cannot be named, and so not be kept: {content}")
    return hashlib.sha256(content.encode()).hexdigest()[:16]
