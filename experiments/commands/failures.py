"""``faultline failures``: draw failures of a model, import logs, fit models to logs."""

from __future__ import annotations

import argparse
import json
import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from faultline.experiments.analysis.failure_draw import CauseSummary, Drawing, draw
from faultline.experiments.analysis.printing import text_table
from faultline.experiments.analysis.quantities import counted, duration_text
from faultline.experiments.commands.declarations.shared import DRAWN_GPUS, DRAWN_GPUS_PER_GROUP
from faultline.experiments.commands.output import explained, is_figure, print_json, waiting
from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.logs.failure_log import (
    FailureLog,
    JobFailures,
    JobSelection,
    LogFile,
)
from faultline.experiments.config.logs.reading import read_log
from faultline.experiments.config.mix_file import PER_1000_NODE_DAYS, plugged_mixes, shipped_mixes
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import command_scenario, shipped_scenarios
from faultline.experiments.config.toml_text import LARGEST_BYTES, parse_toml
from faultline.experiments.config.trace_file import write_trace
from faultline.experiments.screen import Screen
from faultline.platforms.files import read_text, write_file
from rich.table import Table

_DAY_S = 86_400.0
_RATE = "per 1,000\nnode-days"
_MOST_JOBS = 8
"""Names of jobs in the table of rates by job; the others share a row."""


def execute_draw(arguments: argparse.Namespace) -> None:
    """Run ``failures draw``."""
    scenario = _scenario(arguments)
    with waiting("drawing failures"):
        drawing = draw(scenario, arguments.days * _DAY_S, arguments.seed)
    for path in arguments.output:
        if is_figure(path):
            _draw_figure(drawing, scenario, arguments, path)
        else:
            with explained(f"-o {path}"):
                write_trace(drawing.failures, path)
    if arguments.json:
        print_json(_as_json(drawing, arguments.seed))
    else:
        _print(drawing, scenario, arguments)


def _scenario(arguments: argparse.Namespace) -> Scenario:
    """Return the named scenario; for a failure model by itself, a job of round numbers."""
    what, model = arguments.what, _model(arguments.what)
    if model is None:
        if what not in shipped_scenarios() and not Path(what).exists():
            known = [*shipped_mixes(), *plugged_mixes(), *shipped_scenarios()]
            raise UserError(f"{what}: no such mix, trace or scenario; {did_you_mean(what, known)}")
        size = [] if arguments.gpus is None else [f"job.gpus={arguments.gpus}"]
        return command_scenario(what, [*size, *arguments.settings])
    gpus = arguments.gpus or DRAWN_GPUS
    # Close to that many GPUs per group, with none left over.
    most = max(1, min(gpus // DRAWN_GPUS_PER_GROUP, 100_000))
    groups = next(groups for groups in range(most, 0, -1) if gpus % groups == 0)
    own = [
        f"name={json.dumps(Path(what).stem)}",
        f"failures.model={model}",
        f"failures.{model}={json.dumps(what)}",
        f"job.gpus={gpus}",
        f"job.groups={groups}",
    ]
    return command_scenario("spare-sound", [*own, *arguments.settings])


def _model(what: str) -> str | None:
    """Return "mix" or "trace" if the word names one; None for a scenario."""
    if what in (*shipped_mixes(), *plugged_mixes()):
        return "mix"
    if what.lower().endswith(".csv"):
        return "trace"
    if what in shipped_scenarios() or not Path(what).is_file():
        return None
    tables, _ = parse_toml(read_text(what, LARGEST_BYTES))
    return "mix" if "cause" in tables or "observed" in tables else None


def _draw_figure(
    drawing: Drawing, scenario: Scenario, arguments: argparse.Namespace, path: Path
) -> None:
    # Matplotlib takes longer to import than all else here.
    from faultline.experiments.figures.failures import draw_figure

    if not drawing.failures:
        raise UserError(
            f"-o {path}: no failure in {arguments.days:g} days, a mean of "
            f"{duration_text(drawing.mtbf_s)} apart; draw more days"
        )
    with explained(f"-o {path}"):
        draw_figure(drawing, _title(drawing, scenario, arguments), path)


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
        "expected_failures": drawing.expected,
        "share_on_many_groups": drawing.share_on_many,
        "causes": [
            {
                "name": cause.name,
                "level": cause.level,
                "kind": cause.kind,
                "failures": cause.drawn,
                "expected_failures": cause.expected,
                "failures_on_many_groups": cause.drawn_on_many,
            }
            for cause in drawing.causes
        ],
    }


def _print(drawing: Drawing, scenario: Scenario, arguments: argparse.Namespace) -> None:
    console = Screen()
    console.print(_title(drawing, scenario, arguments), style="bold")
    console.print(_table(drawing, arguments.days))
    drawn = f"{duration_text(drawing.drawn_mtbf_s)} apart" if drawing.failures else "none"
    expected = drawing.expected
    beside = "" if expected is None else f" (expected: {_few_digits(expected)})"
    console.print(
        f"{counted(len(drawing.failures), 'failure')}{beside}, a mean of {drawn} (the model: "
        f"{duration_text(drawing.mtbf_s)}); {drawing.share_on_many:.1%} shared by more than one "
        "group"
    )
    _print_written(console, arguments.output)


def _table(drawing: Drawing, days: float) -> Table:
    numbers = ["per day", "drawn"]
    if drawing.expected is not None:
        numbers.append("expected")
    if drawing.share_on_many:
        numbers.append("shared")
    rows = []
    for cause in drawing.causes:
        cells = _cells(cause, days)
        named = (cause.name, f"{cause.level or 'several'}, {cause.kind or 'several'}")
        rows.append([*named, *(cells[number] for number in numbers)])
    return _causes_table(rows, "level, kind", numbers)


def _causes_table(rows: Iterable[Sequence[str]], what: str, numbers: Sequence[str]) -> Table:
    """Return a table of causes with what they are, and numbers of them."""
    columns: list[dict[str, Any]] = [{"header": "cause", "style": "bold"}, {"header": what}]
    columns += [{"header": number, "justify": "right", "no_wrap": True} for number in numbers]
    return text_table(rows, columns, box=None, pad_edge=False, padding=(0, 1, 0, 0))


def _print_written(console: Screen, paths: Iterable[Path]) -> None:
    kinds = {".csv": "trace", ".toml": "mix"}
    for path in paths:
        console.print(f"{kinds.get(path.suffix.lower(), 'figure')}: {path}", soft_wrap=True)


def _few_digits(number: float, digits: int = 2) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.{digits}g}"


def _cells(cause: CauseSummary, days: float) -> dict[str, str]:
    return {
        "per day": _few_digits(cause.drawn / days),
        "drawn": f"{cause.drawn:,}",
        "expected": "" if cause.expected is None else _few_digits(cause.expected),
        "shared": f"{cause.drawn_on_many:,}",
    }


def execute_import(arguments: argparse.Namespace) -> None:
    """Run ``failures import``."""
    log = node_log(arguments, arguments.log)
    path: Path = arguments.output
    with explained(f"-o {path}"):
        write_trace(log.as_failures(), path)
    if arguments.json:
        print_json({**_about(log), "trace": str(path), "nodes_in_order": list(log.nodes)})
        return
    console = _print_log(log)
    console.print(
        f"trace: {path}; run it with --set failures.model=trace --set "
        f"failures.trace={shlex.quote(str(path))} --set job.gpus="
        f"{len(log.nodes) * log.gpus_per_node} --set failures.gpus_per_host={log.gpus_per_node} "
        "--set ~failures.mix --set ~failures.mtbf_s",
        soft_wrap=True,
    )


def execute_fit(arguments: argparse.Namespace) -> None:
    """Run ``failures fit``."""
    # Scipy's statistics take longer to import than all else here.
    from faultline.experiments.analysis.failure_fit import fit, mix_text

    log = node_log(arguments, arguments.log)
    fitted = fit(log)
    for path in arguments.output:
        with explained(f"-o {path}"):
            if path.suffix.lower() == ".toml":
                write_file(path, mix_text(fitted))
            else:
                from faultline.experiments.figures.failures import draw_fit

                draw_fit(fitted, _sentence(log), path)
    if arguments.json:
        print_json(fit_as_json(fitted))
    else:
        _print_written(print_fit(fitted), arguments.output)


def node_log(arguments: argparse.Namespace, path: Path) -> FailureLog:
    """Read a log of failures by node with the options that describe it.

    Raises UserError if an option or the log is wrong.
    """
    columns: dict[str, str] = {}
    if arguments.columns is not None:
        pairs = [pair.partition("=") for pair in arguments.columns]
        columns = {name.lower(): column for name, _, column in pairs}
        if len(columns) < len(pairs) or not all(columns) or not all(columns.values()):
            raise UserError(
                f"--columns {','.join(arguments.columns)}: write NAME=COLUMN once for each column "
                "to read, for example time=timestamp,node=hostname"
            )
    span_s = None if arguments.days is None else arguments.days * _DAY_S
    selection = JobSelection(
        arguments.job, arguments.partition, arguments.min_nodes, arguments.min_duration
    )
    return read_log(
        LogFile(
            path,
            arguments.nodes,
            arguments.gpus_per_node,
            span_s,
            columns,
            selection,
            arguments.merge_within,
        )
    )


def _about(log: FailureLog) -> dict[str, Any]:
    return {
        "log": log.name,
        "format": log.form,
        "failures": len(log.failures),
        "nodes": len(log.nodes),
        "gpus_per_node": log.gpus_per_node,
        "span_s": log.span_s,
        "node_s": log.node_s,
        "notes": list(log.notes),
        "warning": log.warning,
    }


def _sentence(log: FailureLog) -> str:
    return (
        f"{log.name} ({log.form}): {counted(len(log.failures), 'failure')} of "
        f"{counted(len(log.nodes), 'node')} in "
        f"{duration_text(log.span_s)}, {_few_digits(log.node_s / _DAY_S, 3)} node-days"
    )


def _print_log(log: FailureLog, **look: Any) -> Screen:
    """Print a summary of a log, and return the console."""
    console = Screen()
    console.print(_sentence(log), **look)
    for note in log.notes:
        console.print(f"note: {note}")
    if log.warning:
        console.print(f"warning: {log.warning}", style="bold")
    return console


def fit_as_json(fitted: Any) -> dict[str, Any]:
    """Return a fit of a log of failures as ``--json`` prints it."""
    lemons = fitted.lemons
    return {
        **_about(fitted.log),
        "whole": _cause_as_json(fitted.whole),
        "causes": [_cause_as_json(cause) for cause in fitted.causes],
        "jobs": [
            {
                **job._asdict(),
                "per_1000_node_days": dict(zip(_SORTS, _rates(fitted.log, job), strict=True)),
            }
            for job in fitted.log.jobs
        ],
        "lemons": None
        if lemons is None
        else {
            "shape": _estimate_as_json(lemons.shape),
            "p_alike": lemons.p_alike,
            "share_of_worst_5_percent": lemons.worst_share,
        },
        "bursts": None if fitted.bursts is None else asdict(fitted.bursts),
    }


def _estimate_as_json(interval: Any) -> dict[str, float]:
    return {"value": interval.mean, "low": interval.low, "high": interval.high}


def _cause_as_json(cause: Any) -> dict[str, Any]:
    gaps, repair = cause.gaps, cause.repair
    return {
        "name": cause.name,
        "level": cause.level,
        "kind": cause.kind,
        "failures": cause.count,
        "same_instant": gaps.same_instant,
        "per_1000_node_days": _estimate_as_json(cause.per_1000_node_days),
        "weibull_shape": None if gaps.shape is None else _estimate_as_json(gaps.shape),
        "p_exponential": gaps.p_exponential,
        "p_weibull": gaps.p_weibull,
        "repair": None
        if repair is None
        else {
            "repairs": repair.count,
            "mean_s": repair.mean_s,
            "median_s": repair.median_s,
            "sigma": repair.sigma,
        },
    }


_SORTS = ("hardware", "software")


def _rates(log: FailureLog, job: JobFailures) -> tuple[float | None, float | None]:
    """Return a job's failures of hardware and of software per 1,000 days of eight GPUs.

    The second is None if none on its few nodes would count.
    """
    per_node_s = PER_1000_NODE_DAYS / log.gpus_per_node
    software_s = job.node_s - job.without_software_s
    return (
        per_node_s * job.hardware / job.node_s if job.node_s else None,
        per_node_s * job.software / software_s if software_s > 0.0 else None,
    )


def _jobs_table(log: FailureLog) -> Table:
    """Return the table of rates by job."""
    shown, others = list(log.jobs[:_MOST_JOBS]), log.jobs[_MOST_JOBS:]
    if others:
        sums = map(sum, zip(*(job[3:] for job in others), strict=True))
        largest = max(job.nodes for job in others)
        runs = sum(job.runs for job in others)
        shown.append(JobFailures(f"{len(others):,} other names", runs, largest, *sums))
    rows = []
    for job in shown:
        rates = ["" if rate is None else _few_digits(rate, 3) for rate in _rates(log, job)]
        counts = f"{job.hardware:,}", rates[0], f"{job.software:,}", rates[1]
        rows.append([job.name, f"{job.nodes:,}", *counts])
    numbers = ("nodes", "hardware", _RATE, "software", _RATE)
    return _numbers_table("job", rows, numbers)


def _numbers_table(name: str, rows: Iterable[Sequence[str]], numbers: Sequence[str]) -> Table:
    """Return a table of names and numbers of them."""
    columns: list[dict[str, Any]] = [{"header": name, "style": "bold", "overflow": "fold"}]
    columns += [{"header": number, "justify": "right", "no_wrap": True} for number in numbers]
    return text_table(rows, columns, box=None, pad_edge=False, padding=(0, 1, 0, 0))


def print_fit(fitted: Any) -> Screen:
    """Print a fit of a log of failures, and return the console."""
    console = _print_log(fitted.log, style="bold")
    if fitted.log.jobs:
        console.print(_jobs_table(fitted.log))
        console.print()
    console.print(_rates_table(fitted))
    if any(cause.gaps.shape is not None for cause in (fitted.whole, *fitted.causes)):
        console.print()
        console.print(_gaps_table(fitted))
    if same := fitted.whole.gaps.same_instant:
        console.print(f"{same:,} failures have the same time as the one before; gaps exclude them")
    console.print(_about_lemons(fitted.lemons))
    console.print(_about_bursts(fitted.bursts))
    return console


def _rates_table(fitted: Any) -> Table:
    """Return the table of rates and repairs by cause."""
    rows = []
    for cause in (*fitted.causes, fitted.whole):
        rate, repair = cause.per_1000_node_days, cause.repair
        what = f"{cause.level}, {cause.kind}" if cause is not fitted.whole else ""
        numbers = [f"{cause.count:,}", _few_digits(rate.mean, 3)]
        numbers.append(f"{_few_digits(rate.low, 3)}–{_few_digits(rate.high, 3)}")
        numbers.append("" if repair is None else duration_text(repair.median_s))
        rows.append([cause.name, what, *numbers])
    return _causes_table(rows, "level, kind", ["failures", _RATE, "95 %", "repair"])


def _gaps_table(fitted: Any) -> Table:
    """Return the table of shapes of the times between failures, of causes that have one."""
    rows = []
    for cause in (*fitted.causes, fitted.whole):
        gaps = cause.gaps
        if gaps.shape is not None:
            shape = f"{gaps.shape.mean:.2f}", f"{gaps.shape.low:.2f}–{gaps.shape.high:.2f}"
            rows.append([cause.name, *shape, f"{gaps.p_exponential:.2f}", f"{gaps.p_weibull:.2f}"])
    numbers = ("shape", "95 %", "p exponential", "p Weibull")
    return _numbers_table("times between failures", rows, numbers)


def _about_lemons(lemons: Any) -> str:
    if lemons is None:
        return "too few failures name their node to determine whether some fail more often"
    shape = lemons.shape
    if not math.isfinite(shape.mean):
        return f"all nodes fail at one rate (a gamma factor's shape is above {shape.low:.2g}, 95 %)"
    high = f"{shape.high:.2g}" if math.isfinite(shape.high) else "any"
    return (
        f"nodes differ by a gamma factor of shape {shape.mean:.2g} ({shape.low:.2g} to {high}): "
        f"the worst 5 % have {lemons.worst_share:.0%} of the failures (if all were alike, this "
        f"difference would have p = {lemons.p_alike:.2g})"
    )


def _about_bursts(bursts: Any) -> str:
    if bursts is None:
        return "too few failures to determine whether they come in bursts"
    excess, within_s = bursts.excess, bursts.within_s
    if not bursts.found:
        return (
            f"failures do not differ from independent ones (p = {bursts.p_independent:.2g}); a "
            f"burst has at most {excess.high:.2g} (95 %)"
        )
    return (
        f"bursts of {excess.mean:.2g} failures ({excess.low:.2g} to {excess.high:.2g}), each a "
        f"mean of {duration_text(within_s.mean)} after the first ({duration_text(within_s.low)} to "
        f"{duration_text(within_s.high)}); independent ones would have p = "
        f"{bursts.p_independent:.2g}"
    )
