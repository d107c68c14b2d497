"""Sweeps without processes: what becomes of results, apart from where they come from."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from faultline.experiments.config.grid import read_grid
from faultline.experiments.runs.point import Executor, Limits, Request, Results, RunOutcome
from faultline.experiments.runs.record import COLUMNS
from faultline.experiments.runs.sweep_plan import PointOutcome, SweepPlan, make_plan, simulate_plan
from faultline.experiments.screen import Screen

Invention = Callable[[Request], dict[str, Any] | str]


class Invented:
    """Gives results without a simulation: `invent` returns a record, or an error as a text."""

    def __init__(self, invent: Invention) -> None:
        self.invent = invent
        self.simulated: list[Request] = []  # The requests it got so far.

    def simulate(self, requests: Iterable[Request], limits: Limits) -> Results:
        for request in requests:
            self.simulated.append(request)
            outcome = self.invent(request)
            failed = isinstance(outcome, str)
            value, error = (None, str(outcome)) if failed else (outcome, None)
            yield RunOutcome(value, error, run_id=request.run_id, wall_s=0.5)


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


def sweep(
    plan: SweepPlan, directory: Path, executor: Executor, *, retry_failed: bool = False
) -> tuple[PointOutcome, str]:
    """Run a plan into a directory; returns what came of it, and what a user would have read."""
    shown = io.StringIO()
    outcome = simulate_plan(
        plan, directory, lambda: executor, Screen(file=shown, width=1000), retry_failed=retry_failed
    )
    return outcome, shown.getvalue()


def tables_in(directory: Path) -> tuple[bytes, bytes]:
    """Return the bytes of both tables."""
    return (directory / "table.csv").read_bytes(), (directory / "table.parquet").read_bytes()
