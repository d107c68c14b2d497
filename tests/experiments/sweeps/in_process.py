"""Sweeps without processes: what becomes of results, apart from where they come from."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.scenario import Scenario
from experiments.single_run import run
from experiments.sweeps.grid_file import read_grid
from experiments.sweeps.plan import Plan, make_plan
from experiments.sweeps.runs import Executor, Limits, RunRequest, RunResult
from experiments.sweeps.sweep import Choices, Outcome, play_sweep

Invention = Callable[[RunRequest], dict[str, Any] | str]


class InProcess:
    """Plays runs one after the other in this process."""

    def play(self, requests: Iterable[RunRequest], limits: Limits) -> Iterator[RunResult]:
        for request in requests:
            scenario = Scenario.model_validate(request.scenario)
            record = run(scenario, request.seed, request.engine)
            yield RunResult(request.run_id, record, None, 0.0)


class Invented:
    """Gives results that nobody simulated.

    Parameters
    ----------
    invent : callable
        Gets a request; returns its record, or its error as a text.

    Attributes
    ----------
    played : list of RunRequest
        What was asked of it so far.
    """

    def __init__(self, invent: Invention) -> None:
        self.invent = invent
        self.played: list[RunRequest] = []

    def play(self, requests: Iterable[RunRequest], limits: Limits) -> Iterator[RunResult]:
        for request in requests:
            self.played.append(request)
            outcome = self.invent(request)
            record, error = (None, outcome) if isinstance(outcome, str) else (outcome, None)
            yield RunResult(request.run_id, record, error, wall_s=0.5)


def some_record(request: RunRequest) -> dict[str, Any]:
    """Return a record that tells what was asked, with numbers that need all their digits."""
    redundancy = request.scenario["strategy"]["redundancy"] or 1
    return {
        "strategy": request.scenario["strategy"]["name"],
        "seed": request.seed,
        "restarts": redundancy,
        "time_s": 1e6 / (redundancy + request.seed / 3),
        "time_to_train_ratio": float("inf") if redundancy == 1 else 3.0,
    }


def plan_of(folder: Path, text: str) -> Plan:
    """Return the plan of a grid given as TOML."""
    path = folder / "grid.toml"
    path.write_text(text, encoding="utf-8")
    return make_plan(read_grid(str(path)))


def sweep(
    plan: Plan,
    directory: Path,
    executor: Executor,
    *,
    retry_failed: bool = False,
    accept_other_code: bool = False,
) -> tuple[Outcome, str]:
    """Play a plan into a directory; returns what came of it, and what a user would have read."""
    said = io.StringIO()
    choices = Choices(Limits(), retry_failed, accept_other_code)
    outcome = play_sweep(plan, directory, lambda: executor, choices, Console(file=said, width=1000))
    return outcome, said.getvalue()


def tables_in(directory: Path) -> tuple[bytes, bytes]:
    """Return the bytes of both tables."""
    return (directory / "table.csv").read_bytes(), (directory / "table.parquet").read_bytes()
