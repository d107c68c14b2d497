"""``faultline compare``: paired differences between the schemes of a sweep."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultline.experiments.config.errors import UserError
from rich.console import Console

if TYPE_CHECKING:
    from faultline.experiments.analysis.comparison_report import Report


def add_parser(commands: Any) -> None:
    """Declare the command and its arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "compare",
        help="compare the schemes of a sweep, seed by seed",
        description="Compare the values of one axis of a sweep with a baseline: differences "
        "between runs of the same seed and the same setting, with 95 %% intervals by paired t.",
        epilog="example: faultline compare results/mtbf --metric availability "
        "--baseline replication",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="what faultline sweep wrote")
    parser.add_argument(
        "--metric",
        default="time_to_train_ratio",
        metavar="NAME",
        help="column of the sweep's table; default: time_to_train_ratio",
    )
    parser.add_argument(
        "--by",
        metavar="KEY",
        help="axis whose values are compared; default: strategy.name where it was varied, else the "
        "first axis",
    )
    parser.add_argument(
        "--baseline", metavar="VALUE", help="what to compare with; default: the axis's first value"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all rows to a CSV file")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    # Here and below: no other command need wait for pandas and matplotlib.
    from faultline.experiments.analysis.comparison_report import make_report
    from faultline.experiments.runs.table import read_sweep

    sweep = read_sweep(arguments.directory)
    report = make_report(sweep.frame, arguments.metric, arguments.by, arguments.baseline)
    if len(sweep.frame) < sweep.planned:
        report.notes.append(
            f"The sweep is not finished: {len(sweep.frame)} of {sweep.planned} runs are there."
        )
    report.notes.extend(sweep.problems)
    if arguments.csv is not None:
        _write_csv(report, arguments.csv)
    if arguments.json:
        print(json.dumps(_as_json(report), allow_nan=False))
    else:
        _print(report)
    return 0


def _write_csv(report: Report, path: Path) -> None:
    import pandas as pd

    sections = [table.assign(section=name) for name, table in report.sections.items()]
    everything = pd.concat(sections, ignore_index=True)
    everything.insert(0, "section", everything.pop("section"))
    try:
        everything.to_csv(path, index=False)
    except OSError as error:
        raise UserError(
            f"--csv {path}: {error.strerror or error}; name a file that can be written"
        ) from error


def _as_json(report: Report) -> dict[str, Any]:
    """Return the report for JSON, which knows neither NaN nor infinity: both are null."""
    sections = {
        name: [
            {key: _plain(value) for key, value in row.items()}
            for row in table.to_dict(orient="records")
        ]
        for name, table in report.sections.items()
    }
    return {
        "metric": report.metric,
        "by": report.by,
        "baseline": _plain(report.baseline),
        "notes": report.notes,
        **sections,
    }


def _plain(value: Any) -> Any:
    # A number out of a table may be numpy's, which JSON does not know.
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print(report: Report) -> None:
    from faultline.experiments.analysis.comparison_report import rich_table

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
