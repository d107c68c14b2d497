"""``faultline learn``: a scenario from a job's log; ``backtest``: the log predicts itself."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from faultline.experiments.analysis.down_nodes import MEASURES as DOWN_MEASURES
from faultline.experiments.analysis.down_nodes import backtest_down, down_share
from faultline.experiments.analysis.failure_fit import Fit, mix_text
from faultline.experiments.analysis.failure_fit import fit as fit_failures
from faultline.experiments.analysis.intervals import Interval
from faultline.experiments.analysis.job_backtest import (
    BAND,
    MEASURES,
    Backtest,
    BacktestPrediction,
    Floats,
    backtest,
    band_of,
    predict,
)
from faultline.experiments.analysis.job_fit import JobFit, fit_job
from faultline.experiments.analysis.learned_job import scenario_text, stops_of
from faultline.experiments.analysis.printing import text_table
from faultline.experiments.commands.failures import fit_as_json, node_log, print_fit
from faultline.experiments.commands.output import (
    check_output,
    explained,
    print_json,
    progress_of,
    refuse_idle,
)
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs.failure_log import LogFile
from faultline.experiments.config.logs.fault_records import is_fault_records, outages_of
from faultline.experiments.config.logs.goodput_log import read_goodput_log
from faultline.experiments.config.trace_file import write_trace
from faultline.experiments.screen import Screen, text_column
from faultline.experiments.streams import print_text
from faultline.platforms.files import lines_of, write_file
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
from rich.table import Table

_BYTES_OF_A_START = 100
_ROUNDING = 1e-9  # Shares that differ by less are equal.


def execute(arguments: argparse.Namespace) -> None:
    """Run ``learn``."""
    path = arguments.output
    check_output("-o", path)
    times, failures = _learned(arguments)
    mix = f"{path.stem}-causes.toml"
    text = scenario_text(arguments.gpus_per_node, times, failures, mix)
    with explained(f"-o {path}"):
        if failures is not None:
            write_file(path.with_name(mix), mix_text(failures))
        write_file(path, text)
        replay = None if times is None else _write_replay(path, arguments.gpus_per_node, times)
    if arguments.json:
        data: dict[str, Any] = {"scenario": str(path)}
        if replay is not None:
            data["replay"] = str(replay)
        if times is not None:
            data |= {"log": times.log.name, "read": times.log.note, **_fit_data(times)}
        if failures is not None:
            data["failures"] = fit_as_json(failures)
        print_json(data)
        return
    console = Screen()
    missing = ["job.groups", "job.steps"]
    knows_size = (times and times.log.nodes) or (failures and failures.log.job_nodes)
    if not knows_size:
        missing.insert(0, "job.gpus")
    if times is not None:
        console.print(times.log.note, soft_wrap=True)
        console.print(_fit_table(times))
        missing.append("for how long a checkpoint stops the job (times.checkpoint_write_s)")
    else:
        missing.append("the times of steps, checkpoints and restarts")
    if failures is not None:
        print_fit(failures)
    console.print(
        f"not in the log: {', '.join(missing[:-1])} and {missing[-1]}; state them in the scenario "
        "before you compare schemes or intervals",
        soft_wrap=True,
    )
    console.print(f"scenario: {path}; next: faultline plan {path}", soft_wrap=True)
    if replay is not None:
        console.print(
            f"the log again, with the stops that happened: faultline plan {replay} --at-values",
            soft_wrap=True,
        )


def _write_replay(path: Path, gpus_per_node: int, times: JobFit) -> Path:
    """Write a scenario that replays a log, and the trace of its stops, next to the learned one."""
    replay, trace = (
        path.with_name(f"{path.stem}-{ending}") for ending in ("replay.toml", "stops.csv")
    )
    write_trace(stops_of(times.log), trace)
    write_file(replay, scenario_text(gpus_per_node, times, stops=trace.name))
    return replay


def _learned(arguments: argparse.Namespace) -> tuple[JobFit | None, Fit | None]:
    """Read and fit the logs.

    Raises UserError if two logs are of one kind, an option has no effect, or a log is wrong.
    """
    times: JobFit | None = None
    failures: Fit | None = None
    for path in arguments.logs:
        if _is_goodput_log(path):
            if times is not None:
                raise UserError(f"{path}: give one goodput event log; {times.log.name} is another")
            times = fit_job(read_goodput_log(path))
        else:
            if failures is not None:
                raise UserError(f"{path}: give one log of failures; {failures.log.name} is another")
            failures = fit_failures(node_log(arguments, path))
    if failures is None:
        options = ["nodes", "days", "columns", "job", "partition", "min_nodes", "min_duration"]
        refuse_idle(arguments, options, "without a log of failures by node")
    return times, failures


def _is_goodput_log(path: Path) -> bool:
    """Return whether the first line is a JSON object, or there is no line or no file."""
    return (_first_line(path) or "{").lstrip().startswith("{")


def _first_line(path: Path) -> str:
    """Return the start of the first line; empty if there is none, or no file, as readers report."""
    try:
        lines = lines_of(path, _BYTES_OF_A_START)
        return next((line for line in lines if line.strip()), b"").decode("utf-8", "replace")
    except OSError:
        return ""


def execute_backtest(arguments: argparse.Namespace) -> None:
    """Run ``backtest``."""
    if arguments.output is not None:
        check_output("-o", arguments.output)
    if is_fault_records(_first_line(arguments.log)):
        _backtest_down(arguments)
        return
    refuse_idle(arguments, ["nodes"], "with a goodput event log, which names its nodes")
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
        ahead = predict(fit_job(log), log.span_s, arguments.seeds, arguments.seed, on_done)
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
        print_text(f"figure: {arguments.output}")


def _backtest_down(arguments: argparse.Namespace) -> None:
    """Predict the share of nodes down in the second half of fault records."""
    refuse_idle(arguments, ["output"], "with fault records")
    file = LogFile(arguments.log, arguments.nodes, arguments.gpus_per_node)
    outages, note, span_s = outages_of(file)
    share = down_share(outages, span_s, len(file.all_nodes(one.node for one in outages)))
    tested = backtest_down(share, arguments.seeds, arguments.seed, str(arguments.log))
    measured, predicted, ahead = (
        dict(zip(DOWN_MEASURES, values, strict=True))
        for values in (tested.measured.tolist(), tested.predicted.T, tested.ahead.T)
    )
    if arguments.json:
        bands = {"predicted": _bands(predicted), "ahead": _bands(ahead)}
        print_json({"read": note, "measured": measured, **bands})
        return
    console = Screen()
    console.print(note, soft_wrap=True)
    console.print(
        f"share of nodes down: fitted on the first {tested.first_days:.0f} days, predicted the "
        f"next {tested.second_days:.0f}; the last column is a time as long as the log, after it:",
        soft_wrap=True,
    )
    rows = []
    for name, share in measured.items():
        (low, middle, high), (after_low, _, after_high) = map(
            band_of, (predicted[name], ahead[name])
        )
        verdict = "inside" if low - _ROUNDING <= share <= high + _ROUNDING else "outside"
        texts = (f"{middle:.1%}", f"{low:.1%} to {high:.1%}", f"{share:.1%}", verdict)
        rows.append((name, *texts, f"{after_low:.1%} to {after_high:.1%}"))
    console.print(_backtest_table(rows, f"after: {BAND:.0%} band"))


def _bands(runs: Mapping[str, Floats]) -> dict[str, dict[str, float]]:
    """Return the band of each measure by the names of its bounds; `runs` has values of runs."""
    names = ("low", "median", "high")
    return {
        measure: dict(zip(names, band_of(values).tolist(), strict=True))
        for measure, values in runs.items()
    }


def _backtest_table(rows: Sequence[Sequence[str]], *more: str) -> Table:
    """Return a table of measures, predicted and measured; `more` are headings of more columns."""
    names = ("predicted", f"{BAND:.0%} band", "measured", "", *more)
    columns = [{"header": ""}, *({"header": name, "justify": "right"} for name in names)]
    return text_table(rows, columns, box=None, pad_edge=False)


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


def _fit_table(fit: JobFit) -> Table:
    rows = [
        (
            name,
            f"{fitted.mean:.4g} {unit}".strip(),
            f"{fitted.low:.4g} to {fitted.high:.4g}",
            method,
        )
        for name, fitted, unit, method in _rows(fit)
    ]
    every = f"most frequent of {fit.counts['step']}"
    rows.insert(1, ("checkpoint every", f"{fit.interval_steps} steps", "", every))
    headers = [{"header": name} for name in ("quantity", "value", "95 %", "how")]
    return text_table(rows, headers, box=None, pad_edge=False)


def _fit_data(fit: JobFit) -> dict[str, Any]:
    return {
        "interval_steps": fit.interval_steps,
        **{name.replace(" ", "_"): asdict(fitted) for name, fitted, _, _ in _rows(fit)},
    }


def _print_backtest(tested: Backtest, ahead: BacktestPrediction) -> None:
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
    console.print(_backtest_table(rows))
    console.print(_verdict(tested), style="bold", soft_wrap=True)
    low, middle, high = (_shown("goodput", value) for value in ahead.band("goodput"))
    console.print(
        f"predicted for the {ahead.span_s / 3600.0:.3g} hours after the log, from the whole log: "
        f"goodput {middle} ({BAND:.0%} band: {low} to {high})",
        soft_wrap=True,
    )


def _verdict(tested: Backtest) -> str:
    changes = "; ".join(tested.changes)
    if tested.is_inside("goodput"):
        text = f"goodput is inside the {BAND:.0%} band"
        return f"{text}, although {changes}" if changes else text
    why = changes or "no fitted time changed beyond chance: chance, or an effect not modelled"
    return f"goodput is outside the {BAND:.0%} band: {why}"


def _shown(measure: str, value: float) -> str:
    if measure in ("goodput", "lives_without_save"):
        return f"{value:.1%}"
    return f"{value:,.0f}"


def _backtest_data(tested: Backtest, ahead: BacktestPrediction) -> dict[str, Any]:
    return {
        "read": tested.first.note,
        "first_s": tested.first.span_s,
        "second_s": tested.second.span_s,
        "fit": _fit_data(tested.fit),
        "predicted": _bands(tested.predicted.measures),
        "measured": tested.measured._asdict(),
        "inside": {name: tested.is_inside(name) for name in MEASURES},
        "changes": list(tested.changes),
        "ahead": _bands(ahead.measures),
    }
