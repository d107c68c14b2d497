"""One run of a sweep: what is asked, within which limits, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from experiments.single_run import EngineName, Record


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to be played.

    Attributes
    ----------
    run_id : str
        Digest of all below: one question, one name.
    scenario : dict
        The scenario, as `Scenario.model_dump(mode="json")` gives it.
    seed : int
        Seed of the run.
    engine : {"replay", "simgrid"}
        The engine that plays it.
    """

    run_id: str
    scenario: dict[str, Any]
    seed: int
    engine: EngineName


@dataclass(frozen=True, slots=True)
class Limits:
    """What a single run may use; None stands for no limit.

    Attributes
    ----------
    time_s : float or None
        Seconds of real time.
    memory_bytes : int or None
        Resident memory of its process and that process's children, in bytes.
    """

    time_s: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of a run: a record, or the reason why there is none.

    Attributes
    ----------
    run_id : str
        The request's.
    record : dict or None
        The flat record of the run.
    error : str or None
        One line: why it failed.
    wall_s : float
        Seconds of real time it took.
    """

    run_id: str
    record: Record | None
    error: str | None
    wall_s: float


class Executor(Protocol):
    """A place where runs are played: this machine, or a Dask cluster."""

    def play(self, requests: Iterable[RunRequest], limits: Limits) -> Iterator[RunResult]:
        """Play the requests, and yield each result as it comes, in any order.

        A run that crashes, or exceeds its limits, gives a result with an error; the others go on.
        Closing the iterator stops what is under way and leaves no process behind.
        """
        ...
