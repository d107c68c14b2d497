"""``faultline sweep``: a whole grid of runs, which survives being killed."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultline.experiments.config.grid import read_grid, shipped_grids
from faultline.experiments.runs.point import Executor, Limits
from faultline.experiments.runs.sweep_plan import make_plan
from faultline.platforms.errors import PlatformError
from faultline.platforms.units import SIZE, TIME, Kind, parse_quantity
from rich.console import Console

if TYPE_CHECKING:
    from faultline.experiments.runs.planned import Outcome


def add_parser(commands: Any) -> None:
    """Declare the command and its arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "sweep",
        help="play a grid of scenarios and seeds; goes on where it was interrupted",
        description="Play every point of a grid with every seed. Results land in DIR as they come; "
        "the same command again plays only what is missing. Tables with a row a run stand in DIR "
        "at the end.",
        epilog="example: faultline sweep first-look -o results/first-look",
    )
    parser.add_argument(
        "grid", metavar="GRID", help=f"a TOML file, or one of: {', '.join(shipped_grids())}"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="where results are kept"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--workers", type=_positive, metavar="N", help="runs at a time; default: one a core"
    )
    where.add_argument(
        "--scheduler", metavar="tcp://HOST:PORT", help="play on the workers of a Dask scheduler"
    )
    parser.add_argument(
        "--time-limit",
        type=lambda text: _limit(text, TIME),
        metavar="TIME",
        help="real time a run may take, for example 10min; a run that takes longer has failed",
    )
    parser.add_argument(
        "--memory-limit",
        type=lambda text: _limit(text, SIZE),
        metavar="SIZE",
        help="memory a run may take, for example 4GB; a run that takes more has failed",
    )
    parser.add_argument(
        "--retry-failed", action="store_true", help="play runs that failed before once more"
    )
    parser.add_argument(
        "--accept-other-code",
        action="store_true",
        help="keep results that were made before the simulation's source changed",
    )
    parser.set_defaults(execute=execute)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: use a whole number from 1")
    return int(text)


def _limit(text: str, kind: Kind) -> float:
    try:
        value = parse_quantity(text, kind)
    except PlatformError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: nothing runs within nothing; use more")
    return value


def execute(arguments: argparse.Namespace) -> int:
    """Run the command; the status is 1 if some runs failed."""
    # Here and below: no other command need wait for pandas.
    from faultline.experiments.runs.planned import play_plan

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
    from faultline.experiments.runs.local import LocalExecutor

    return LocalExecutor(arguments.workers)


def _print_outcome(name: str, directory: Path, outcome: Outcome) -> None:
    from faultline.experiments.runs.table import CSV, PARQUET

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
