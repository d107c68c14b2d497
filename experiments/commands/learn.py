"""``faultline learn``: a scenario from a job's log; ``backtest``: the log predicts itself."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from faultline.experiments.analysis.intervals import Interval
from faultline.experiments.analysis.job_backtest import (
    BAND,
    MEASURES,
    Backtest,
    Prediction,
    backtest,
    predict,
)
from faultline.experiments.analysis.job_fit import JobFit, fit_job
from faultline.experiments.analysis.learned_job import scenario_text
from faultline.experiments.analysis.printing import text_table
from faultline.experiments.commands.declarations.shared import PLOT_FORMATS
from faultline.experiments.commands.output import explained, print_json, progress_of
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs.goodput_log import read_goodput_log
from faultline.experiments.screen import Screen, text_column
from faultline.platforms.files import check_writable, write_file
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn


def execute(arguments: argparse.Namespace) -> None:
    """Run ``learn``."""
    path = arguments.output
    with explained(f"-o {path}", "name a file that can be written"):
        check_writable(path)
    log = read_goodput_log(arguments.log)
    fit = fit_job(log)
    with explained(f"-o {path}"):
        write_file(path, scenario_text(fit, log, arguments.gpus_per_node))
    if arguments.json:
        print_json({"log": log.name, "read": log.note, "scenario": str(path), **_fit_data(fit)})
        return
    console = Screen()
    console.print(log.note, soft_wrap=True)
    console.print(_fit_table(fit))
    console.print(
        "not in the log: job.groups, job.steps and for how long a checkpoint stops the job "
        "(times.checkpoint_write_s); state them in the scenario before you compare schemes or "
        "intervals",
        soft_wrap=True,
    )
    console.print(f"scenario: {path}; next: faultline plan {path}", soft_wrap=True)


def execute_backtest(arguments: argparse.Namespace) -> None:
    """Run ``backtest``."""
    if arguments.output is not None:
        if arguments.output.suffix.lower().removeprefix(".") not in PLOT_FORMATS:
            raise UserError(f"-o {arguments.output}: name a file that ends in .png, .svg or .pdf")
        with explained(f"-o {arguments.output}", "name a file that can be written"):
            check_writable(arguments.output)
    log = read_goodput_log(arguments.log)
    columns = (
        text_column("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )

    with progress_of(*columns) as progress:
        task = progress.add_task("simulating the second part", total=2 * arguments.seeds)

        def on_done() -> None:
            progress.advance(task)

        tested = backtest(log, runs=arguments.seeds, seed=arguments.seed, on_done=on_done)
        progress.update(task, description="simulating what comes next")
        ahead = predict(log, fit_job(log), log.span_s, arguments.seeds, arguments.seed, on_done)
    if arguments.output is not None:
        # Importing Matplotlib takes a second: only a command that draws imports it.
        from faultline.experiments.figures.backtest import draw_backtest

        with explained(f"-o {arguments.output}"):
            draw_backtest(tested, arguments.output)
    if arguments.json:
        print_json(_backtest_data(tested, ahead))
        return
    _print_backtest(tested, ahead)
    if arguments.output is not None:
        print(f"-o: {arguments.output}")


def _rows(fit: JobFit) -> list[tuple[str, Interval, str, str]]:
    """Return the fitted quantities: name, interval, unit and method."""
    starts, counts = fit.between_starts, fit.counts
    weibull = f"Weibull, maximum likelihood, {starts.starts} times and one under way"
    return [
        ("step", fit.step_s, "s", f"mean of {counts['step']}, with its share of a checkpoint"),
        ("start to load", fit.start_to_load_s, "s", f"mean of {counts['load']}"),
        ("warm-up", fit.warm_up_s, "s", f"mean of {counts['warm-up']}, to the first checkpoint"),
        ("between starts", starts.mean_s, "s", weibull),
        ("shape", starts.shape, "", weibull),
    ]


def _fit_table(fit: JobFit) -> Any:
    rows = [
        (name, f"{one.mean:.4g} {unit}".strip(), f"{one.low:.4g} to {one.high:.4g}", method)
        for name, one, unit, method in _rows(fit)
    ]
    every = f"most frequent of {fit.counts['step']}"
    rows.insert(1, ("checkpoint every", f"{fit.interval_steps} steps", "", every))
    headers = [{"header": name} for name in ("quantity", "value", "95 %", "how")]
    return text_table(rows, headers, box=None, pad_edge=False)


def _fit_data(fit: JobFit) -> dict[str, Any]:
    return {
        "interval_steps": fit.interval_steps,
        **{name.replace(" ", "_"): asdict(one) for name, one, _, _ in _rows(fit)},
    }


def _print_backtest(tested: Backtest, ahead: Prediction) -> None:
    console = Screen()
    console.print(tested.first.note, soft_wrap=True)
    hours = [part.span_s / 3600.0 for part in (tested.first, tested.second)]
    console.print(f"fitted on the first {hours[0]:.3g} hours, predicted the next {hours[1]:.3g}:")
    rows = []
    for name, label in MEASURES.items():
        low, middle, high = (_shown(name, value) for value in tested.predicted.band(name))
        measured = _shown(name, getattr(tested.measured, name))
        verdict = "inside" if tested.is_inside(name) else "outside"
        rows.append((label, middle, f"{low} to {high}", measured, verdict))
    names = ("", "predicted", f"{BAND:.0%} band", "measured", "")
    headers: list[dict[str, Any]] = [{"header": name, "justify": "right"} for name in names]
    headers[0]["justify"] = "left"
    console.print(text_table(rows, headers, box=None, pad_edge=False))
    console.print(_verdict(tested), style="bold", soft_wrap=True)
    low, middle, high = (_shown("goodput", value) for value in ahead.band("goodput"))
    console.print(
        f"prediction of the {ahead.span_s / 3600.0:.3g} hours after the log, from all of it: "
        f"goodput {middle} "
        f"({BAND:.0%} band: {low} to {high})",
        soft_wrap=True,
    )


def _verdict(tested: Backtest) -> str:
    changes = "; ".join(tested.changes)
    if tested.is_inside("goodput"):
        text = f"goodput is inside the {BAND:.0%} band"
        return f"{text}, although {changes}" if changes else text
    why = changes or "no fitted time changed beyond chance, so chance or what is not modelled"
    return f"goodput is outside the {BAND:.0%} band: {why}"


def _shown(measure: str, value: float) -> str:
    if measure in ("goodput", "lives_without_save"):
        return f"{value:.1%}"
    return f"{value:,.0f}"


def _backtest_data(tested: Backtest, ahead: Prediction) -> dict[str, Any]:
    def bands(predicted: Prediction) -> dict[str, dict[str, float]]:
        found = {}
        for name in MEASURES:
            low, middle, high = predicted.band(name)
            found[name] = {"low": low, "median": middle, "high": high}
        return found

    return {
        "read": tested.first.note,
        "first_s": tested.first.span_s,
        "second_s": tested.second.span_s,
        "fit": _fit_data(tested.fit),
        "predicted": bands(tested.predicted),
        "measured": tested.measured._asdict(),
        "inside": {name: tested.is_inside(name) for name in MEASURES},
        "changes": list(tested.changes),
        "ahead": bands(ahead),
    }
