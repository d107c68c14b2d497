"""``faultline failures``: which failure models there are, and what they produce."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from faultline.experiments.analysis.failure_draw import CauseSummary, Drawing, draw
from faultline.experiments.analysis.printing import text_table
from faultline.experiments.analysis.quantities import counted, duration_text
from faultline.experiments.commands.output import explained, print_json, waiting
from faultline.experiments.commands.parsers import DRAWN_GPUS, DRAWN_GPUS_PER_GROUP
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.mix_file import (
    MixFile,
    broken_mixes,
    load_mix,
    plugged_mixes,
    shipped_mixes,
    sound_mixes,
)
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario, shipped_scenarios
from faultline.experiments.config.text_file import LARGEST_BYTES
from faultline.experiments.config.toml_text import parse_toml
from faultline.experiments.config.trace_file import write_trace
from faultline.experiments.screen import screen_as_wide_as
from faultline.platforms.files import read_text
from faultline.simulator.failures.failure import STOPPING
from rich.table import Table

_DAY_S = 86_400.0


def execute_list(arguments: argparse.Namespace) -> int:
    """Run ``failures list``."""
    for line in broken_mixes():
        print(f"faultline: {line}", file=sys.stderr)
    mixes = [load_mix(name) for name in (*shipped_mixes(), *sound_mixes())]
    rows = [_row(mix, arguments.gpus) for mix in mixes]
    if arguments.json:
        print_json(rows)
        return 0
    columns = (
        {"header": "mix", "style": "bold"},
        {"header": "causes", "justify": "right"},
        {"header": f"a failure on {arguments.gpus:,} GPUs", "justify": "right"},
        {"header": "hardware", "justify": "right"},
        {"header": "what it is"},
    )
    cells = (
        (
            row["name"],
            str(len(row["causes"])),
            f"every {duration_text(row['mtbf_s'])}" if row["mtbf_s"] else "none",
            f"{row['hardware_share']:.0%}" if row["mtbf_s"] else "",
            row["description"],
        )
        for row in rows
    )
    screen_as_wide_as(120).print(text_table(cells, columns, box=None, pad_edge=False))
    return 0


def _row(mix: MixFile, gpus: int) -> dict[str, Any]:
    causes = mix.causes()
    stopping = [cause for cause in causes if cause.kind in STOPPING]
    rate_per_gpu_s = sum(cause.rate_per_gpu_s for cause in stopping)
    hardware = sum(cause.rate_per_gpu_s for cause in stopping if cause.kind == "hardware")
    return {
        "name": mix.name,
        "gpus": gpus,
        "mtbf_s": 1.0 / (rate_per_gpu_s * gpus) if stopping else None,
        "hardware_share": hardware / rate_per_gpu_s if stopping else None,
        "causes": [cause.name for cause in causes],
        "description": mix.description,
        "source": mix.source,
    }


def execute_draw(arguments: argparse.Namespace) -> int:
    """Run ``failures draw``."""
    scenario = _scenario(arguments)
    with waiting("drawing failures"):
        drawing = draw(scenario, arguments.days * _DAY_S, arguments.seed)
    if arguments.csv is not None:
        with explained(f"--csv {arguments.csv}"):
            write_trace(drawing.failures, arguments.csv)
    if arguments.output is not None:
        _draw_figure(drawing, scenario, arguments)
    if arguments.json:
        print_json(_as_json(drawing, arguments.seed))
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
    gpus = arguments.gpus or DRAWN_GPUS
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
    if what in (*shipped_mixes(), *plugged_mixes()):
        return "mix"
    if what.lower().endswith(".csv"):
        return "trace"
    if what in shipped_scenarios() or not Path(what).is_file():
        return None
    tables, _ = parse_toml(read_text(what, LARGEST_BYTES))
    return "mix" if "cause" in tables or "observed" in tables else None


def _groups(gpus: int) -> int:
    """Return the number of groups of about 128 GPUs that leaves no GPU over."""
    most = max(1, min(gpus // DRAWN_GPUS_PER_GROUP, 100_000))
    return next(groups for groups in range(most, 0, -1) if gpus % groups == 0)


def _draw_figure(drawing: Drawing, scenario: Scenario, arguments: argparse.Namespace) -> None:
    # Matplotlib takes longer to import than all else here.
    from faultline.experiments.figures.failures import draw_figure

    if not drawing.failures:
        raise UserError(
            f"-o {arguments.output}: no failure in {arguments.days:g} days, a mean of "
            f"{duration_text(drawing.mtbf_s)} apart; draw more days"
        )
    with explained(f"-o {arguments.output}", "name a PNG file", ValueError):
        draw_figure(drawing, _title(drawing, scenario, arguments), arguments.output)


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
    console = screen_as_wide_as(120)
    console.print(_title(drawing, scenario, arguments), style="bold", highlight=False)
    console.print(_table(drawing, arguments.days))
    drawn = f"{duration_text(drawing.drawn_mtbf_s)} apart" if drawing.failures else "none"
    console.print(
        f"{counted(len(drawing.failures), 'failure')}, a mean of {drawn} (the model: "
        f"{duration_text(drawing.mtbf_s)}); {drawing.share_on_many:.1%} shared by more than one "
        "group",
        highlight=False,
    )
    for option, path in (("figure", arguments.output), ("trace", arguments.csv)):
        if path is not None:
            console.print(f"{option}: {path}", highlight=False)


def _table(drawing: Drawing, days: float) -> Table:
    numbers = ["a day", "share", "drawn"]
    if drawing.course:
        numbers += ["expected", "95 %"]
    if drawing.share_on_many:
        numbers.append("shared")
    columns: list[dict[str, Any]] = [{"header": "cause", "style": "bold"}]
    columns += [{"header": "level"}, {"header": "kind"}]
    columns += [{"header": number, "justify": "right"} for number in numbers]
    rows = []
    for cause in drawing.causes:
        cells = _cells(cause, drawing, days)
        named = (cause.name, cause.level or "several", cause.kind or "several")
        rows.append([*named, *(cells[number] for number in numbers)])
    look = {"box": None, "pad_edge": False, "padding": (0, 1, 0, 0)}
    return text_table(rows, [{**column, "no_wrap": True} for column in columns], **look)


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
