"""``faultline run``: one scenario, one seed; ``explain-recovery``: the phases after a failure."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultline.experiments.analysis.course import write_timeline
from faultline.experiments.analysis.printing import summary_rows, summary_title
from faultline.experiments.commands.output import (
    check_output,
    explained,
    is_figure,
    pairs_table,
    print_json,
    progress_of,
    size_of,
    waiting,
)
from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import command_scenario, read_source
from faultline.experiments.job.job_shape import check_layout
from faultline.experiments.job.workload import assumed_of_step
from faultline.experiments.planner.resizing import resize
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run
from faultline.experiments.screen import Screen, text_column
from faultline.strategies.plugins.registry import all_strategies
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from faultline.experiments.job.recoveries import ExplainedRecovery
    from faultline.simulator.accounting.timeline import Event
    from rich.table import Table as ScreenTable


def execute(arguments: argparse.Namespace) -> None:
    """Run the command."""
    source = read_source(arguments.scenario, arguments.settings)
    sentences = resize(source, size_of(arguments))
    scenario = source.used_scenario()
    check_layout(scenario)
    file: Path | None = arguments.output
    events: list[Event] | None = None if file is None else []
    if file is not None:
        check_output("-o", file)
    record = _run_with_progress(scenario, arguments, events)
    if events is not None and file is not None:
        with explained(f"-o {file}"):
            _write(events, file, record)
    if arguments.json:
        print_json(record)
        return
    console = Screen()
    console.print(summary_title(record), style="bold")
    console.print(pairs_table(summary_rows(record, arguments.price)))
    if scenario.model.name != "stated" and scenario.times.compute_s is None:
        from faultline.experiments.studies.step_time.accuracy import accuracy_text

        console.print(accuracy_text(), style="dim", soft_wrap=True)
    if assumed := assumed_of_step(scenario):
        values = " and ".join(f"{key} = {value}" for key, value in assumed.items())
        console.print(f"The step time assumes {values}; state your job's values.", style="dim")
    for sentence in sentences:
        console.print(sentence, style="dim", soft_wrap=True)
    if record["completed_steps"] < record["steps"]:
        console.print(
            "The job gave up: see job.time_limit_s and job.give_up_after_restarts.", style="yellow"
        )
    if file is not None:
        console.print(f"events: {file}", soft_wrap=True)


def _write(events: list[Event], file: Path, record: Record) -> None:
    if not is_figure(file):
        write_timeline(events, file, record)
        return
    # Importing Matplotlib takes a second: only a command that draws imports it.
    from faultline.experiments.figures.style import save_figure
    from faultline.experiments.figures.timeline import draw_timeline

    title = f"{summary_title(record)}, seed {record['seed']}"
    save_figure(draw_timeline(events, title), file)


def _run_with_progress(
    scenario: Scenario,
    arguments: argparse.Namespace,
    events: list[Event] | None,
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


def execute_explain_recovery(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from faultline.experiments.job.recoveries import (
        ExplainedRecovery,
        RefusedScheme,
        explained_recoveries,
    )

    open_keys = {"strategy.name": "--schemes"}
    scenario = command_scenario(arguments.scenario, arguments.settings, open_keys)
    with waiting("measuring the transfers of recoveries on the platform"):
        results = list(explained_recoveries(scenario, _schemes(arguments.schemes)))
    recoveries = [result for result in results if isinstance(result, ExplainedRecovery)]
    refused = [result for result in results if isinstance(result, RefusedScheme)]
    if not recoveries:
        raise UserError(str(refused[0]))
    if arguments.json:
        records = [
            {
                "scheme": recovery.scheme,
                "event": recovery.event,
                "recovery": recovery.recovery,
                "duration_s": recovery.duration_s,
                "phases": [phase._asdict() for phase in recovery.phases],
            }
            for recovery in recoveries
        ]
        print_json(
            {"scenario": scenario.name, "recoveries": records, "refused": [*map(str, refused)]}
        )
        return
    console = Screen()
    # Sources are sentences: each is printed once, below the table.
    phases = [phase for recovery in recoveries for phase in recovery.phases]
    sources = list(dict.fromkeys(phase.source for phase in phases if phase.source))
    console.print(_table(scenario.name, recoveries, sources))
    for number, source in enumerate(sources, 1):
        console.print(f"{number}: {source}", soft_wrap=True)
    left_out: dict[str, list[str]] = {}
    for each in refused:
        left_out.setdefault(each.reason, []).append(each.scheme)
    for reason, schemes in left_out.items():
        console.print(f"left out: {', '.join(schemes)}: {reason}", soft_wrap=True)


def _schemes(requested: Sequence[str] | None) -> Sequence[str]:
    known = list(all_strategies())
    for name in requested or ():
        if name not in known:
            raise UserError(f"--schemes {name}: no such scheme; {did_you_mean(name, known)}")
    return requested or known


def _table(
    name: str, recoveries: Sequence[ExplainedRecovery], sources: Sequence[str]
) -> ScreenTable:
    # Importing pandas is slow, and a run does not need it.
    from faultline.experiments.report.tables import number, on_screen, table_of, text

    rows: list[dict[str, Any]] = []
    for named, alike in _by_phases(recoveries):
        rows.append({"part": named, "seconds": alike.duration_s, "ranks": "", "GB": "", "see": ""})
        rows += [
            {
                "part": f"  {phase.name}",
                "seconds": phase.duration_s,
                "ranks": f"{phase.ranks:,}" if phase.ranks else "",
                "GB": f"{float(f'{phase.size_bytes / 1e9:.4g}'):,g}" if phase.size_bytes else "",
                "see": str(sources.index(phase.source) + 1) if phase.source else "",
            }
            for phase in alike.phases
        ]
    columns = [text("", "part", "prose"), number("seconds", "seconds", 2)]
    columns += [text(key, key, "prose") for key in ("ranks", "GB", "see")]
    title = f"{name}: recoveries after the failure of one GPU"
    return on_screen(table_of("recoveries", title, columns, rows), rows_shown=None)


def _by_phases(
    recoveries: Sequence[ExplainedRecovery],
) -> Iterator[tuple[str, ExplainedRecovery]]:
    """Yield each recovery once, with the names of all schemes that have it, by their event."""
    alike: dict[object, list[ExplainedRecovery]] = {}
    for recovery in recoveries:
        alike.setdefault((recovery.recovery, recovery.phases), []).append(recovery)
    for same in alike.values():
        schemes: dict[str, list[str]] = {}
        for one in same:
            schemes.setdefault(one.event, []).append(one.scheme)
        events = (f"{', '.join(names)} ({event})" for event, names in schemes.items())
        yield f"{same[0].recovery}: {'; '.join(events)}", same[0]
