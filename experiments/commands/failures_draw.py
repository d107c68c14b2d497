"""``faultline failures draw``: what a failure model or a scenario produces."""

from __future__ import annotations

import argparse
import json
from math import isfinite
from pathlib import Path
from typing import Any

from faultline.experiments.analysis.failure_draw import CauseSummary, Drawing, draw
from faultline.experiments.commands.failures_output import duration, gpu_count, output
from faultline.experiments.commands.run import seed
from faultline.experiments.commands.scenario_arguments import add_settings
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.mix_file import shipped_mixes
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario, shipped_scenarios
from faultline.experiments.config.text_file import read_text_file
from faultline.experiments.config.toml_text import parse_toml
from faultline.experiments.config.trace_file import write_trace
from rich.table import Table

GPUS = 16_384
"""GPUs of the job, where a model is drawn by itself: those of Llama 3's pretraining."""

GPUS_PER_GROUP = 128
"""About as many make a group then: tensor parallelism 8 times pipeline parallelism 16."""

_DAY_S = 86_400.0


def add_parser(subcommands: Any) -> None:
    """Declare the command and its arguments."""
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "draw",
        help="draw the failures of a model or a scenario",
        description="Draw failures and say by cause how many came and how many were expected. "
        f"A model by itself strikes {GPUS:,} GPUs in groups of {GPUS_PER_GROUP}; a scenario has a "
        "job of its own.",
        epilog="example: faultline failures draw llama3 --days 54 -o llama3.png --csv llama3.csv",
    )
    parser.add_argument(
        "what",
        metavar="WHAT",
        help=f"a mix ({', '.join(shipped_mixes())}, or a TOML file with causes), a trace (a CSV "
        f"file), or a scenario ({', '.join(shipped_scenarios())}, or a TOML file)",
    )
    parser.add_argument("--gpus", type=gpu_count, metavar="N", help="GPUs of the job")
    parser.add_argument(
        "--days", type=_days, default=54.0, metavar="D", help="how long to draw (default: 54)"
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="default: 0")
    add_settings(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="draw a figure (PNG)")
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="write the failures as a trace to run again"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object; times in seconds"
    )
    parser.set_defaults(execute=execute)


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not (isfinite(days) and 0 < days <= 1e6):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: use days, such as 54 or 0.5")
    return days


def execute(arguments: argparse.Namespace) -> int:
    """Run ``failures draw``."""
    scenario = _scenario(arguments)
    drawing = draw(scenario, arguments.days * _DAY_S, arguments.seed)
    if arguments.csv is not None:
        try:
            write_trace(drawing.failures, arguments.csv)
        except OSError as error:
            raise UserError(f"--csv {arguments.csv}: {error.strerror}") from error
    if arguments.output is not None:
        _draw_figure(drawing, scenario, arguments)
    if arguments.json:
        print(json.dumps(_as_json(drawing, arguments.seed), allow_nan=False))
    else:
        _print(drawing, scenario, arguments)
    return 0


def _scenario(arguments: argparse.Namespace) -> Scenario:
    """Return the scenario that is meant; a model by itself gets a job of round numbers."""
    what, settings = arguments.what, list(arguments.settings)
    model = _model(what)
    if model is None:
        if arguments.gpus is not None:
            settings.insert(0, f"job.gpus={arguments.gpus}")
        return load_scenario(what, settings)
    gpus = arguments.gpus or GPUS
    return load_scenario(
        "spare-sound",
        [
            f"name={json.dumps(Path(what).stem)}",
            f"failures.model={model}",
            f"failures.{model}={json.dumps(what)}",
            f"job.gpus={gpus}",
            f"job.groups={_groups(gpus)}",
            *settings,
        ],
    )


def _model(what: str) -> str | None:
    """Return whether a mix or a trace is meant; None for a scenario."""
    if what in shipped_mixes():
        return "mix"
    if what.lower().endswith(".csv"):
        return "trace"
    if what in shipped_scenarios() or not Path(what).is_file():
        return None
    tables, _ = parse_toml(read_text_file(Path(what)))
    return "mix" if "cause" in tables or "observed" in tables else None


def _groups(gpus: int) -> int:
    """Return the number of groups of about 128 GPUs that leaves no GPU over."""
    most = max(1, min(gpus // GPUS_PER_GROUP, 100_000))
    return next(groups for groups in range(most, 0, -1) if gpus % groups == 0)


def _draw_figure(drawing: Drawing, scenario: Scenario, arguments: argparse.Namespace) -> None:
    # Matplotlib takes longer to import than all else here.
    from faultline.experiments.figures.failures import draw_figure

    if not drawing.failures:
        raise UserError(
            f"-o {arguments.output}: no failure in {arguments.days:g} days, a mean of "
            f"{duration(drawing.mtbf_s)} apart; draw more days"
        )
    try:
        draw_figure(drawing, _title(drawing, scenario, arguments), arguments.output)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"-o {arguments.output}: {reason}; name a PNG file") from error


def _title(drawing: Drawing, scenario: Scenario, arguments: argparse.Namespace) -> str:
    layout = drawing.layout
    return (
        f"{scenario.name} ({drawing.process}): failures of {layout.gpus:,} GPUs in "
        f"{layout.groups:,} groups, {arguments.days:g} days, seed {arguments.seed}"
    )


def _as_json(drawing: Drawing, drawn_with: int) -> dict[str, Any]:
    layout = drawing.layout
    return {
        "process": drawing.process,
        "gpus": layout.gpus,
        "groups": layout.groups,
        "gpus_per_host": layout.gpus_per_host,
        "gpus_per_domain": layout.gpus_per_domain,
        "gpus_per_switch": layout.gpus_per_switch,
        "seed": drawn_with,
        "span_s": drawing.span_s,
        "mtbf_s": drawing.mtbf_s,
        "drawn_mtbf_s": drawing.drawn_mtbf_s if drawing.failures else None,
        "failures": len(drawing.failures),
        "expected": drawing.expected.mean if drawing.expected else None,
        "share_on_many_groups": drawing.share_on_many,
        "causes": [
            {
                "name": cause.name,
                "level": cause.level,
                "kind": cause.kind,
                "failures": cause.drawn,
                "failures_on_many_groups": cause.drawn_on_many,
                "expected": cause.expected.mean if cause.expected else None,
                "interval": [cause.expected.least, cause.expected.most] if cause.expected else None,
            }
            for cause in drawing.causes
        ],
    }


def _print(drawing: Drawing, scenario: Scenario, arguments: argparse.Namespace) -> None:
    console = output()
    console.print(_title(drawing, scenario, arguments), style="bold", highlight=False)
    console.print(_table(drawing, arguments.days))
    drawn = f"{duration(drawing.drawn_mtbf_s)} apart" if drawing.failures else "none"
    console.print(
        f"{len(drawing.failures):,} failures, a mean of {drawn} (the model: "
        f"{duration(drawing.mtbf_s)}); {drawing.share_on_many:.1%} shared by more than one group",
        highlight=False,
    )
    for option, path in (("figure", arguments.output), ("trace", arguments.csv)):
        if path is not None:
            console.print(f"{option}: {path}", highlight=False)


def _table(drawing: Drawing, days: float) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("cause", style="bold", no_wrap=True)
    for column in ("level", "kind"):
        table.add_column(column, no_wrap=True)
    columns = ["a day", "share", "drawn"]
    if drawing.course:
        columns += ["expected", "95 %"]
    if drawing.share_on_many:
        columns.append("shared")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for cause in drawing.causes:
        cells = _cells(cause, drawing, days)
        table.add_row(
            cause.name, cause.level or "several", cause.kind or "several", *map(cells.get, columns)
        )
    return table


def _cells(cause: CauseSummary, drawing: Drawing, days: float) -> dict[str, str]:
    expected = cause.expected
    a_day = (expected.mean if expected else cause.drawn) / days
    cells = {
        "a day": f"{a_day:,.0f}" if a_day >= 100 else f"{a_day:.2g}",
        "share": f"{cause.drawn / max(1, len(drawing.failures)):.0%}",
        "drawn": f"{cause.drawn:,}",
        "shared": f"{cause.drawn_on_many:,}",
    }
    if expected is not None:
        cells["expected"] = f"{expected.mean:,.1f}"
        cells["95 %"] = f"{expected.least:,.0f}–{expected.most:,.0f}"
    return cells
