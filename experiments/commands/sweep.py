"""``faultline sweep``: a grid of runs, resumable; ``export`` and ``compare``: its results."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pandas as pd
from faultline.experiments.analysis.comparison import ComparisonReport, make_report
from faultline.experiments.analysis.selection import successful
from faultline.experiments.commands.output import (
    check_output,
    explained,
    print_files,
    print_json,
    size_of,
    write_output,
)
from faultline.experiments.config.errors import QUIET
from faultline.experiments.config.grid import read_grid
from faultline.experiments.planner.resizing import resized_grid
from faultline.experiments.report.paired_tables import headline_of, section_table
from faultline.experiments.report.result_tables import comparison_table
from faultline.experiments.report.standings import METRIC, standings
from faultline.experiments.report.tables import Table, latex_of, on_screen
from faultline.experiments.runs.execution import open_executor
from faultline.experiments.runs.point import Limits
from faultline.experiments.runs.sweep_plan import PointOutcome, make_plan, simulate_plan
from faultline.experiments.runs.table import EXPORTS, read_sweep, read_table
from faultline.experiments.screen import Screen, message_console
from faultline.experiments.streams import print_note, print_text
from faultline.platforms.errors import one_line
from faultline.platforms.files import write_file


def execute(arguments: argparse.Namespace) -> int:
    """Run the command; the status is 1 if some runs failed."""
    grid, sentences = resized_grid(read_grid(arguments.grid), size_of(arguments))
    plan = make_plan(grid)
    memory = arguments.memory_limit
    limits = Limits(arguments.time_limit, None if memory is None else max(1, round(memory)))
    name = str(plan.stored.grid["name"])
    file: Path = arguments.output or Path("results", f"{name}.sqlite")
    try:
        outcome = simulate_plan(
            plan,
            file,
            partial(open_executor, arguments.workers, arguments.scheduler),
            message_console(),
            limits,
            retry_failed=arguments.retry_failed,
        )
    except KeyboardInterrupt:
        print_text(
            f"{file}: finished runs are kept; the same command resumes the sweep", as_message=True
        )
        raise
    if arguments.json:
        print_json({"name": name, **asdict(outcome), "file": str(file)})
    else:
        _print_outcome(name, file, outcome, sentences)
    return 1 if outcome.failed else 0


def _print_outcome(name: str, file: Path, outcome: PointOutcome, sentences: Sequence[str]) -> None:
    if outcome.failed:
        runs = "1 run" if outcome.failed == 1 else f"{outcome.failed} runs"
        print_note(one_line(f"{runs} failed; the first: {outcome.first_error}"))
    print_text(
        f"{name}: {outcome.simulated} runs simulated, {outcome.already_there} already there, "
        f"{outcome.failed} failed"
    )
    console = Screen()
    for sentence in sentences:
        console.print(sentence, style="dim", soft_wrap=True)
    console.print(f"results: {file}", soft_wrap=True)
    if QUIET in os.environ:
        return
    quoted = shlex.quote(str(file))
    print_text(f"next:    faultline compare {quoted}")
    print_text(f"         faultline report {quoted} -o report.html")
    print_text(f"         faultline export {quoted} -o table.csv")


def execute_export(arguments: argparse.Namespace) -> None:
    """Run the command."""
    output: Path = arguments.output
    check_output("-o", output)
    plan, table = read_table(arguments.file)
    with explained(f"-o {output}"):
        write_file(output, EXPORTS[output.suffix.lower()](table))
    if (planned := plan.count) > table.num_rows:
        print_note(f"The sweep is not finished: it has {table.num_rows} of {planned} runs.")
    print_files(arguments, {output: f"{output}: {table.num_rows} runs"})


def execute_compare(arguments: argparse.Namespace) -> None:
    """Run the command."""
    sweep = read_sweep(arguments.file)
    metric = arguments.metric or METRIC
    report = make_report(sweep.frame, metric, arguments.by, arguments.baseline)
    # A stated metric replaces the standings by time to train.
    order = standings(successful(sweep.frame)) if arguments.metric is None else None
    if len(sweep.frame) < sweep.planned:
        report.notes.append(
            f"The sweep is not finished: it has {len(sweep.frame)} of {sweep.planned} runs."
        )
    sections = {} if order is None else {"best": order.best()}
    sections |= report.sections
    best = None if order is None else comparison_table(order, arguments.price, brief=True)
    for path in arguments.output:
        text = _csv(sections) if path.suffix.lower() == ".csv" else _latex(best, report)
        write_output("-o", path, text)
    if arguments.json:
        records = {name: table.to_dict(orient="records") for name, table in sections.items()}
        chosen = {"metric": report.metric, "by": report.by, "baseline": report.baseline}
        print_json({**chosen, "notes": report.notes, **records})
    else:
        console = Screen()
        if best is not None:
            console.print(on_screen(best, heading_width=12))
            console.print()
        _print(console, report, written=bool(arguments.output))


def _csv(sections: Mapping[str, pd.DataFrame]) -> str:
    """Return all sections as one table, in which all name the scheme by its key."""
    named = [table.assign(section=name) for name, table in sections.items()]
    named = [table.rename(columns={"strategy": "strategy.name"}) for table in named]
    everything = pd.concat(named, ignore_index=True)
    everything.insert(0, "section", everything.pop("section"))
    text: str = everything.to_csv(index=False)
    return text


def _latex(best: Table | None, report: ComparisonReport) -> str:
    tables = ["% Needs \\usepackage{booktabs} before \\begin{document}."]
    tables += [] if best is None else [latex_of(best)]
    for name in report.sections:
        table = section_table(report, name)
        # A table in a paper stands alone: its caption names the metric and the baseline.
        tables.append(latex_of(table, f"{headline_of(report)}; {table.caption}"))
    return "\n".join(tables)


def _print(console: Screen, report: ComparisonReport, *, written: bool) -> None:
    console.print(headline_of(report), style="bold")
    for name in report.sections:
        if name == "settings" and "at_best" in report.sections:
            continue  # One by one they are for files, beside the best ones.
        console.print()
        console.print(on_screen(section_table(report, name, brief=True)))
    console.print()
    if not written:
        console.print("-o FILE.csv writes all settings and columns.", style="dim")
    for note in report.notes:
        console.print(note, style="yellow")
