"""Sweeps without processes: what becomes of results, apart from where they come from."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from faultline.experiments.config.grid import read_grid
from faultline.experiments.runs.executor import RunExecutor
from faultline.experiments.runs.point import Request, RunOutcome
from faultline.experiments.runs.record import COLUMNS
from faultline.experiments.runs.sweep_plan import PointOutcome, SweepPlan, make_plan, simulate_plan
from faultline.experiments.runs.table import EXPORTS, read_table
from faultline.experiments.screen import Screen

Invention = Callable[[Request], dict[str, Any] | str]


class Invented:
    """Gives results without a simulation: `invent` returns a record, or an error as a text."""

    in_flight = 1

    def __init__(self, invent: Invention) -> None:
        self.invent = invent
        self.simulated: list[Request] = []  # The requests it got so far.

    def submit(self, request: Request) -> Future[RunOutcome]:
        self.simulated.append(request)
        outcome = self.invent(request)
        future: Future[RunOutcome] = Future()
        failed = isinstance(outcome, str)
        value, error = (None, str(outcome)) if failed else (outcome, None)
        future.set_result(RunOutcome(value, error, wall_s=0.5))
        return future

    def outcome(self, future: Future[RunOutcome]) -> RunOutcome:
        return future.result()

    def shutdown(self) -> None:
        pass


WHOLE: dict[str, Any] = {
    name: {"text": "some", "count": 1, "number": 0.5}[column.kind]
    for name, column in COLUMNS.items()
}
"""A record with a value in every column."""


def some_record(request: Request) -> dict[str, Any]:
    """Return a record that identifies its request, with numbers that need all their digits."""
    redundancy = request.task.scenario.strategy.redundancy or 1
    return {
        **WHOLE,
        "scenario": request.task.scenario.name,
        "engine": request.task.engine,
        "strategy": request.task.scenario.strategy.name,
        "seed": request.task.seed,
        "restarts": redundancy,
        "time_s": 1e6 / (redundancy + request.task.seed / 3),
        "time_to_train_ratio": float("inf") if redundancy == 1 else 3.0,
    }


def plan_of(folder: Path, text: str) -> SweepPlan:
    """Return the plan of a grid given as TOML."""
    path = folder / "grid.toml"
    path.write_text(text, encoding="utf-8")
    return make_plan(read_grid(str(path)))


def run_ids(plan: SweepPlan) -> list[str]:
    """Return the names of the runs of a plan, in order."""
    return [name for name, _, _ in plan.stored.runs()]


def sweep(
    plan: SweepPlan, file: Path, executor: RunExecutor, *, retry_failed: bool = False
) -> tuple[PointOutcome, str]:
    """Run a plan into a file; returns what came of it, and what a user would have read."""
    shown = io.StringIO()
    outcome = simulate_plan(
        plan,
        file,
        lambda: nullcontext(executor),
        Screen(file=shown, width=1000),
        retry_failed=retry_failed,
    )
    return outcome, shown.getvalue()


def csv_of(file: Path) -> bytes:
    """Return the exported table of a sweep."""
    return EXPORTS[".csv"](read_table(file)[1])
