"""``faultline failures import`` and ``failures fit``: logs that people have."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from faultline.experiments.analysis.printing import text_table
from faultline.experiments.analysis.quantities import counted, duration_text
from faultline.experiments.commands.output import explained, print_json
from faultline.experiments.config.logs.failure_log import FailureLog
from faultline.experiments.config.logs.reading import read_log
from faultline.experiments.config.trace_file import write_trace
from faultline.experiments.screen import screen_as_wide_as
from faultline.platforms.files import write_file


def execute_import(arguments: argparse.Namespace) -> int:
    """Run ``failures import``."""
    log = _log(arguments)
    path: Path = arguments.output
    with explained(f"-o {path}"):
        write_trace(log.as_failures(), path)
    if arguments.json:
        print_json({**_about(log), "trace": str(path), "nodes_in_order": list(log.nodes)})
        return 0
    console = screen_as_wide_as(120)
    console.print(_sentence(log))
    for note in log.notes:
        console.print(f"note: {note}")
    console.print(
        f"trace: {path}; play it with --set failures.model=trace --set failures.trace={path} --set "
        f"job.gpus={len(log.nodes) * log.gpus_per_node} --set "
        f"failures.gpus_per_host={log.gpus_per_node}",
        soft_wrap=True,
    )
    return 0


def execute_fit(arguments: argparse.Namespace) -> int:
    """Run ``failures fit``."""
    # Scipy's statistics take longer to import than all else here.
    from faultline.experiments.analysis.failure_fit import fit, mix_text

    log = _log(arguments)
    fitted = fit(log)
    if arguments.mix is not None:
        with explained(f"--mix {arguments.mix}"):
            write_file(arguments.mix, mix_text(fitted, log))
    if arguments.output is not None:
        from faultline.experiments.figures.failures import draw_fit

        with explained(f"-o {arguments.output}", "name a PNG file", ValueError):
            draw_fit(fitted, _sentence(log), arguments.output)
    if arguments.json:
        print_json(_as_json(fitted, log))
    else:
        _print(fitted, log, arguments)
    return 0


def _log(arguments: argparse.Namespace) -> FailureLog:
    return read_log(arguments.log, arguments.nodes, arguments.gpus_per_node, arguments.span)


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
    }


def _sentence(log: FailureLog) -> str:
    return (
        f"{log.name} ({log.form}): {counted(len(log.failures), 'failure')} of "
        f"{counted(len(log.nodes), 'node')} in "
        f"{duration_text(log.span_s)}, {log.node_s / 86_400:,.4g} node-days"
    )


def _as_json(fitted: Any, log: FailureLog) -> dict[str, Any]:
    lemons = fitted.lemons
    return {
        **_about(log),
        "whole": _cause_as_json(fitted.whole),
        "causes": [_cause_as_json(cause) for cause in fitted.causes],
        "lemons": None
        if lemons is None
        else {
            "shape": _estimate(lemons.shape),
            "p_alike": lemons.p_alike,
            "share_of_worst_5_percent": lemons.worst_share,
        },
    }


def _cause_as_json(cause: Any) -> dict[str, Any]:
    from faultline.experiments.analysis.failure_fit import per_1000_node_days

    gaps, repair = cause.gaps, cause.repair
    return {
        "name": cause.name,
        "level": cause.level,
        "kind": cause.kind,
        "failures": cause.count,
        "same_instant": gaps.same_instant,
        "per_1000_node_days": _estimate(per_1000_node_days(cause.rate_per_gpu_s)),
        "weibull_shape": None if gaps.shape is None else _estimate(gaps.shape),
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


def _estimate(estimate: Any) -> dict[str, float | None]:
    numbers = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: one if math.isfinite(one) else None for name, one in numbers.items()}


def _print(fitted: Any, log: FailureLog, arguments: argparse.Namespace) -> None:
    from faultline.experiments.analysis.failure_fit import per_1000_node_days

    console = screen_as_wide_as(120)
    console.print(_sentence(log), style="bold")
    for note in log.notes:
        console.print(f"note: {note}")
    rows = []
    for cause in (*fitted.causes, fitted.whole):
        rate, gaps, repair = per_1000_node_days(cause.rate_per_gpu_s), cause.gaps, cause.repair
        rows.append(
            [
                cause.name,
                cause.level,
                cause.kind,
                f"{cause.count:,}",
                f"{rate.value:.3g}",
                f"{rate.low:.3g}–{rate.high:.3g}",
                "" if gaps.shape is None else f"{gaps.shape.value:.2f}",
                "" if gaps.shape is None else f"{gaps.shape.low:.2f}–{gaps.shape.high:.2f}",
                "" if gaps.p_exponential is None else f"{gaps.p_exponential:.2f}",
                "" if gaps.p_weibull is None else f"{gaps.p_weibull:.2f}",
                "" if repair is None else duration_text(repair.median_s),
                "" if repair is None else f"{repair.sigma:.1f}",
            ]
        )
    numbers = ["failures", "/1,000 d", "95 %", "shape", "95 %", "p exp", "p Weib"]
    numbers += ["repair", "sigma"]
    columns: list[dict[str, Any]] = [{"header": "cause", "style": "bold"}]
    columns += [{"header": "level"}, {"header": "kind"}]
    columns += [{"header": number, "justify": "right"} for number in numbers]
    console.print(text_table(rows, columns, box=None, pad_edge=False, padding=(0, 1, 0, 0)))
    if same := fitted.whole.gaps.same_instant:
        console.print(
            f"{same:,} failures came at the same instant as the one before; gaps leave them out"
        )
    console.print(_about_lemons(fitted.lemons))
    for option, path in (("figure", arguments.output), ("mix", arguments.mix)):
        if path is not None:
            console.print(f"{option}: {path}")


def _about_lemons(lemons: Any) -> str:
    if lemons is None:
        return "too few failures of nodes to say whether some fail more than others"
    shape = lemons.shape
    if not math.isfinite(shape.value):
        return f"nodes fail alike (a gamma factor's shape is above {shape.low:.2g}, 95 %)"
    high = f"{shape.high:.2g}" if math.isfinite(shape.high) else "any"
    return (
        f"nodes differ by a gamma factor of shape {shape.value:.2g} ({shape.low:.2g} to {high}): "
        f"the worst 5 % have {lemons.worst_share:.0%} of the failures (if all were alike, so much "
        f"difference would have p = {lemons.p_alike:.2g})"
    )
