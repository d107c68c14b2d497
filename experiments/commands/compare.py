"""``faultline compare``: paired differences between the schemes of a sweep."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from faultline.experiments.analysis.comparison_report import Report, make_report, rich_table
from faultline.experiments.commands.output import explained, print_json
from faultline.experiments.runs.table import read_sweep
from rich.console import Console


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    sweep = read_sweep(arguments.dir)
    report = make_report(sweep.frame, arguments.metric, arguments.by, arguments.baseline)
    if len(sweep.frame) < sweep.planned:
        report.notes.append(
            f"The sweep is not finished: {len(sweep.frame)} of {sweep.planned} runs are there."
        )
    report.notes.extend(sweep.problems)
    if arguments.csv is not None:
        _write_csv(report, arguments.csv)
    if arguments.json:
        tables = {name: table.to_dict(orient="records") for name, table in report.sections.items()}
        chosen = {"metric": report.metric, "by": report.by, "baseline": report.baseline}
        print_json({**chosen, "notes": report.notes, **tables})
    else:
        _print(report)
    return 0


def _write_csv(report: Report, path: Path) -> None:
    sections = [table.assign(section=name) for name, table in report.sections.items()]
    everything = pd.concat(sections, ignore_index=True)
    everything.insert(0, "section", everything.pop("section"))
    with explained(f"--csv {path}", "name a file that can be written"):
        everything.to_csv(path, index=False)


def _print(report: Report) -> None:
    # Wider than most terminals, which break a line that is too long: numbers are never cut.
    console = Console(width=200, highlight=False)
    console.print(report.headline, style="bold")
    for name in report.sections:
        console.print()
        console.print(rich_table(report, name))
    if report.notes:
        console.print()
    for note in report.notes:
        console.print(note, style="yellow")
