"""``faultline run``: one scenario, one seed."""

from __future__ import annotations

import argparse
import csv
from io import StringIO
from pathlib import Path

from faultline.experiments.analysis.quantities import steps_text, time_text
from faultline.experiments.commands.output import (
    explained,
    pairs_table,
    print_json,
    progress_of,
)
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run
from faultline.experiments.screen import Screen, text_column
from faultline.platforms.files import check_writable, write_file
from faultline.simulator.badput import MEANINGS
from faultline.simulator.timeline import Event
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    scenario = load_scenario(arguments.scenario, arguments.settings)
    events: list[Event] | None = None if arguments.timeline is None else []
    if arguments.timeline is not None:
        with explained(f"--timeline {arguments.timeline}", "name a file that can be written"):
            check_writable(arguments.timeline)
    record = _run_with_progress(scenario, arguments, events)
    if events is not None:
        with explained(f"--timeline {arguments.timeline}"):
            write_timeline(events, arguments.timeline)
    if arguments.json:
        print_json(record)
    else:
        _print_record(record)
    return 0


def _run_with_progress(
    scenario: Scenario, arguments: argparse.Namespace, events: list[Event] | None
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
        )


def write_timeline(events: list[Event], path: Path) -> None:
    """Write a run's events as CSV, a row an event; groups are separated by blanks."""
    text = StringIO(newline="")
    rows = csv.writer(text)
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
    write_file(path, text.getvalue())


def _print_record(record: Record) -> None:
    console = Screen()
    job = f"{record['strategy']}, r = {record['redundancy']}, {record['groups']} groups"
    console.print(f"{record['scenario']}: {job}", style="bold")
    console.print(pairs_table(_readable(record)))
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
