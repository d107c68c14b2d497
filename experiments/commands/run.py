"""``faultline run``: one scenario, one seed."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from faultline.experiments.analysis.time_units import steps_text, time_text
from faultline.experiments.commands.scenario_arguments import add_scenario
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run
from faultline.simulator.badput import MEANINGS
from faultline.simulator.timeline import Event
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table


def add_parser(commands: Any) -> None:
    """Declare the command and its arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="play one scenario and print what came of it",
        description="Play one scenario with one seed and print its record.",
        epilog="example: faultline run spare-study --set job.groups=600 "
        "--set strategy.name=replication --set strategy.redundancy=3",
    )
    add_scenario(parser)
    parser.add_argument(
        "--engine",
        choices=("replay", "simgrid"),
        default="replay",
        help="replay jumps from event to event (default); simgrid plays every rank and message",
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="default: 0")
    parser.add_argument("--json", action="store_true", help="print the record as one JSON object")
    parser.add_argument(
        "--timeline", type=Path, metavar="FILE", help="write the events of the run to a CSV file"
    )
    parser.set_defaults(execute=execute)


def seed(text: str) -> int:
    """Read a seed: a whole number, not negative."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no seed: use a whole number from 0")
    return int(text)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    scenario = load_scenario(arguments.scenario, arguments.settings)
    events: list[Event] | None = None if arguments.timeline is None else []
    if arguments.timeline is not None:
        _check_writable(arguments.timeline)
    record = _run_with_progress(scenario, arguments, events)
    if events is not None:
        try:
            write_timeline(events, arguments.timeline)
        except OSError as error:
            raise UserError(f"--timeline {arguments.timeline}: {error.strerror}") from error
    if arguments.json:
        print(json.dumps(_finite(record), allow_nan=False))
    else:
        _print_record(record)
    return 0


def _run_with_progress(
    scenario: Scenario, arguments: argparse.Namespace, events: list[Event] | None
) -> Record:
    append = None if events is None else events.append
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps, {task.fields[days]:.0f} simulated days"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        total = scenario.job.steps if arguments.engine == "replay" else None
        task = progress.add_task(scenario.strategy.name, total=total, days=0.0)
        return run(
            scenario,
            arguments.seed,
            arguments.engine,
            append,
            lambda steps, now_s: progress.update(task, completed=steps, days=now_s / 86400),
        )


def _check_writable(path: Path) -> None:
    """Find out before a long run, and not after it, that its timeline has no place to go."""
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise UserError(
            f"--timeline {path}: {error.strerror}; name a file that can be written"
        ) from error


def write_timeline(events: list[Event], path: Path) -> None:
    """Write a run's events as CSV, a row an event; groups are separated by blanks."""
    import csv

    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(Event._fields)
        for event in events:
            rows.writerow(
                (
                    repr(event.time_s),
                    event.kind.value,
                    event.step,
                    " ".join(map(str, event.groups)),
                    event.stacks,
                    event.moved_types,
                )
            )


def _finite(record: Record) -> Record:
    """JSON knows no infinity: a ratio over no step at all is null."""
    return {
        key: None if isinstance(value, float) and value == float("inf") else value
        for key, value in record.items()
    }


def _print_record(record: Record) -> None:
    console = Console(file=sys.stdout)
    job = f"{record['strategy']}, r = {record['redundancy']}, {record['groups']} groups"
    console.print(f"{record['scenario']}: {job}", style="bold", markup=False)
    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, text in _readable(record):
        table.add_row(name, text)
    console.print(table)
    if record["completed_steps"] < record["steps"]:
        console.print(
            "The job gave up: see job.time_limit_s and job.give_up_after_restarts.", style="yellow"
        )


def _readable(record: Record) -> list[tuple[str, str]]:
    seconds = record["time_s"]
    spent = [
        (f"  {meaning}", f"{record[f'{cause}_s'] / seconds:.2%}")
        for cause, meaning in MEANINGS.items()
        if record[f"{cause}_s"]
    ]
    restarts, snapshots = f"{record['restarts']:,}", []
    if record["snapshots"]:
        every = record["snapshot_interval_steps"] or record["checkpoint_interval_steps"]
        step_s = record["checkpoint_interval_s"] / record["checkpoint_interval_steps"]
        every_text = f"{steps_text(every, every * step_s)} ({record['protection']})"
        snapshots.append(("snapshot every", every_text))
        own, peers = record["restarts_from_memory"], record["restarts_from_peers"]
        restarts += f": {own:,} from memory, {peers:,} with peers"
    return [
        ("engine, seed", f"{record['engine']}, {record['seed']}"),
        ("steps", f"{record['completed_steps']:,.10g} of {record['steps']:,}"),
        ("time", time_text(seconds)),
        ("goodput", f"{record['goodput']:.2%}"),
        (
            "checkpoint every",
            steps_text(record["checkpoint_interval_steps"], record["checkpoint_interval_s"]),
        ),
        *snapshots,
        ("time-to-train ratio", f"{record['time_to_train_ratio']:.3f}"),
        ("availability", f"{record['availability']:.2%}"),
        ("mean stacks", f"{record['mean_stacks']:.3f}"),
        ("failures", f"{record['failures']:,}"),
        ("restarts", restarts),
        ("where the time went", ""),
        *spent,
    ]
