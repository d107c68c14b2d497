"""``faultline sweep``: a whole grid of runs, which survives being killed."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from faultline.experiments.config.grid import read_grid
from faultline.experiments.runs.local import LocalExecutor
from faultline.experiments.runs.point import Executor, Limits
from faultline.experiments.runs.sweep_plan import Outcome, make_plan, play_plan
from faultline.experiments.runs.table import CSV, PARQUET
from rich.console import Console


def execute(arguments: argparse.Namespace) -> int:
    """Run the command; the status is 1 if some runs failed."""
    plan = make_plan(read_grid(arguments.grid))
    memory = arguments.memory_limit
    limits = Limits(arguments.time_limit, None if memory is None else max(1, round(memory)))
    directory: Path = arguments.output
    try:
        outcome = play_plan(
            plan,
            directory,
            lambda: _executor(arguments),
            Console(stderr=True),
            limits,
            retry_failed=arguments.retry_failed,
            accept_other_code=arguments.accept_other_code,
        )
    except KeyboardInterrupt:
        print(
            f"{directory}: finished runs are kept; the same command goes on from there",
            file=sys.stderr,
        )
        raise
    _print_outcome(plan.manifest.grid["name"], directory, outcome)
    return 1 if outcome.failed else 0


def _executor(arguments: argparse.Namespace) -> Executor:
    if arguments.scheduler is not None:
        from faultline.experiments.runs.dask_cluster import DaskExecutor

        return DaskExecutor(arguments.scheduler)
    return LocalExecutor(arguments.workers)


def _print_outcome(name: str, directory: Path, outcome: Outcome) -> None:
    if outcome.failed:
        runs = "1 run" if outcome.failed == 1 else f"{outcome.failed} runs"
        print(f"faultline: {runs} failed; the first: {outcome.first_error}", file=sys.stderr)
    print(
        f"{name}: {outcome.played} runs played, {outcome.already_there} already there, "
        f"{outcome.failed} failed"
    )
    print(f"tables: {directory / PARQUET}, {directory / CSV}")
    quoted = shlex.quote(str(directory))
    print(f"next:   faultline compare {quoted}")
    print(f"        faultline report {quoted} -o report.html")
