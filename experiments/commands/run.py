"""``faultline run``: one scenario, one seed."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path

from faultline.experiments.analysis.course import LINKS, check_suffix, write_timeline
from faultline.experiments.analysis.printing import summary_rows, summary_title
from faultline.experiments.commands.output import (
    explained,
    pairs_table,
    print_json,
    progress_of,
)
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run
from faultline.experiments.screen import Screen, text_column
from faultline.platforms.files import check_writable
from faultline.simulator.timeline import Event
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    scenario = load_scenario(arguments.scenario, arguments.settings)
    file = arguments.timeline
    links = file if file is not None and file.suffix.lower() == LINKS else None
    events: list[Event] | None = None if file is None or links else []
    if links and arguments.engine != "simgrid":
        raise UserError(f"--timeline {file}: only SimGrid has links; add --engine simgrid")
    if file is not None:
        if not links:
            check_suffix(file)
        with explained(f"--timeline {file}", "name a file that can be written"):
            check_writable(file)
    with explained(f"--timeline {file}") if links else nullcontext():
        record = _run_with_progress(scenario, arguments, events, links)
    if events is not None:
        with explained(f"--timeline {file}"):
            write_timeline(events, file, record)
    if arguments.json:
        print_json(record)
    else:
        _print_record(record, arguments.price)
    return 0


def _run_with_progress(
    scenario: Scenario,
    arguments: argparse.Namespace,
    events: list[Event] | None,
    links: Path | None,
) -> Record:
    append = None if events is None else events.append
    columns = (
        text_column("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        text_column("steps, {task.fields[days]:.0f} simulated days"),
        TimeRemainingColumn(),
    )
    with progress_of(*columns) as progress:
        total = scenario.job.steps if arguments.engine == "replay" else None
        task = progress.add_task(scenario.strategy.name, total=total, days=0.0)
        return run(
            scenario,
            arguments.seed,
            arguments.engine,
            append,
            lambda steps, now_s: progress.update(task, completed=steps, days=now_s / 86400),
            links,
        )


def _print_record(record: Record, price: float | None) -> None:
    console = Screen()
    console.print(summary_title(record), style="bold")
    console.print(pairs_table(summary_rows(record, price)))
    if record["completed_steps"] < record["steps"]:
        console.print(
            "The job gave up: see job.time_limit_s and job.give_up_after_restarts.", style="yellow"
        )
