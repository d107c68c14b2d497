"""A plan as a table with one sentence of advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from faultline.experiments.analysis.intervals import Interval, interval_of
from faultline.experiments.analysis.printing import text_table
from faultline.experiments.analysis.quantities import steps_text, time_text, with_unit
from faultline.experiments.figures.palette import look_of
from faultline.experiments.planner.advice import Advice, pair_name, return_text
from faultline.experiments.planner.plan import Line, RankedPlan
from faultline.experiments.planner.search import Optimised
from faultline.experiments.planner.situation import DAY_S
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

_MANY_GPU_HOURS = 1e5
_WIDER_THAN_ANY = 10_000
_LEAST_WIDTHS = {"scheme": 11, "state kept by": 8}
_OF_WIDE_TABLES = ("ratio", "predicted", "error")
_OF_CLOSED_FORMS = ("scheme", "state kept by", "r", "every", "predicted")
_TIED = "≈"
"""Marks the rows of choices that the seeds do not separate."""


def print_plan(
    console: Console,
    plan: RankedPlan,
    advice: Advice,
    optimised: Sequence[Optimised],
    price_per_gpu_hour: float | None = None,
    *,
    all_lines: bool = False,
) -> None:
    """Print a plan; with a price, in any currency, the cost of each choice.

    The table has each scheme's soonest choice, or all lines. Choices that tie are marked.
    """
    title, *job = job_texts(plan)
    _print_line(console, title, "bold")
    for text in job:
        _print_line(console, text)
    if plan.lines:
        lines = plan.lines if all_lines else plan.first_of_schemes()
        table = choices_table(plan, price_per_gpu_hour, lines, advice.undecided)
        unbounded = console.options.update(max_width=_WIDER_THAN_ANY)
        brief = console.measure(table, options=unbounded).maximum > console.width
        if brief:
            table = choices_table(plan, price_per_gpu_hour, lines, advice.undecided, brief=True)
        console.print(table)
        if more := len(plan.lines) - len(lines):
            choices = "choice" if more == 1 else "choices"
            _print_line(console, f"--all prints {more:,} more {choices} of the same schemes")
        if any(_is_among(line, advice.undecided) for line in lines):
            _print_line(console, f"{_TIED} tied: choices of the advice that seeds do not separate")
        for text in _notes(plan, brief=brief):
            _print_line(console, text)
    for text in (*left_out_texts(plan), *map(optimised_text, optimised)):
        _print_line(console, text)
    _print_line(console, advice.sentence, "bold")


def _print_line(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, soft_wrap=True)


def left_out_texts(plan: RankedPlan) -> list[str]:
    """Return a line for each reason to leave choices out, with their names."""
    by_reason: dict[str, list[str]] = {}
    for each in plan.left_out:
        by_reason.setdefault(each.reason, []).append(pair_name(each.scheme, each.protection))
    texts = [
        f"left out: {', '.join(dict.fromkeys(names))}: {reason}"
        for reason, names in by_reason.items()
    ]
    if plan.unverified:
        texts.append(
            f"left out: {plan.unverified:,} other redundancies, which closed forms rank behind "
            "those above (--verify N simulates more)"
        )
    return texts


def job_texts(plan: RankedPlan) -> list[str]:
    """Return the lines above the table: the job, its failures and times, the assumptions."""
    situation = plan.situation
    job, durations = situation.scenario.job, situation.durations
    mtbf_s = situation.mtbf_s
    mtbf = time_text(mtbf_s) if mtbf_s >= DAY_S else _seconds_text(mtbf_s)
    paid = f"; {situation.gpus:,} GPUs are paid for" if situation.gpus > job.all_gpus else ""
    return [
        f"{situation.scenario.name}: {job.all_gpus:,} GPUs in {job.groups:,} groups of "
        f"{job.gpus_of_group:,}, {job.steps:,} steps{paid}",
        f"a failure every {mtbf}, restart {_seconds_text(situation.restart_s)}, checkpoint "
        f"{_seconds_text(durations.save_s)}, step {_seconds_text(situation.ideal_step_s)} without "
        "failures and redundancy",
        f"machines: {situation.machines}",
        *(f"- {assumption}" for assumption in situation.assumptions),
    ]


def _seconds_text(span_s: float) -> str:
    return with_unit(float(f"{span_s:.4g}"), "s")


def choices_table(
    plan: RankedPlan,
    price_per_gpu_hour: float | None = None,
    shown: Sequence[Line] | None = None,
    tied: Sequence[Line] = (),
    *,
    brief: bool = False,
) -> Table:
    """Return a row for each choice of a plan, or for those shown; with a price, with its cost.

    Rows of tied lines are marked. A brief table fits into 80 columns: it has neither the ratio nor
    the prediction, or only the prediction if nothing was simulated.
    """
    lines = plan.lines if shown is None else shown
    rows = [_cells(plan, line, price_per_gpu_hour, _is_among(line, tied)) for line in lines]
    names = list(rows[0]) if rows else []
    if brief and any(line.simulated is not None for line in plan.lines):
        names = [name for name in names if name not in _OF_WIDE_TABLES]
    elif brief:
        names = [name for name in names if name in _OF_CLOSED_FORMS]
    columns = [
        {"header": name, "min_width": _LEAST_WIDTHS[name]}
        if name in _LEAST_WIDTHS
        else {"header": name, "justify": "right", "no_wrap": True}
        for name in names
    ]
    texts = ([row[name] for name in names] for row in rows)
    return text_table(texts, columns, box=SIMPLE, pad_edge=False)


def _is_among(line: Line, lines: Sequence[Line]) -> bool:
    return any(line is each for each in lines)


def _cells(
    plan: RankedPlan, line: Line, price_per_gpu_hour: float | None, is_tied: bool
) -> dict[str, str]:
    """Return the cells of a choice by their headers; without simulation most are empty."""
    choice, situation, simulated = line.choice, plan.situation, line.simulated
    in_millions = situation.gpu_hours(1.0) >= _MANY_GPU_HOURS
    unit = "M " if in_millions else ""
    error, predicted = line.error(), choice.predicted_ratio
    took = goodput = gpu_hours = cost = ratio = "-"
    if simulated is not None and not simulated.finished:
        took = "stopped" if simulated.stopped_at else "gave up"
    elif simulated is not None:
        mean = interval_of(line.ratios)
        span = Interval(*map(situation.span, (mean.mean, mean.low, mean.high)))
        hours = situation.gpu_hours(mean.mean)
        took, goodput = f"{span.mean:,.1f}" + _half(span, ".1f"), f"{line.goodput:.1%}"
        gpu_hours, ratio = _counted(hours, in_millions), f"{mean.mean:.3f}"
        cost = _counted(hours * (price_per_gpu_hour or 0.0), in_millions)
    return {
        "scheme": f"{_TIED} " * is_tied + look_of(choice.scheme).label,
        "state kept by": choice.protection,
        "r": str(choice.redundancy),
        situation.unit: took,
        "goodput": goodput,
        "every": _every(line),
        f"{unit}GPU-h": gpu_hours,
        **({} if price_per_gpu_hour is None else {f"{unit}cost": cost}),
        "ratio": ratio,
        "predicted": "-"
        if predicted is None
        else f"{situation.span(predicted):,.1f}{'*' * choice.rough}",
        "error": "-" if error is None else f"{error.mean:+.1%}" + _half(error, ".1%"),
    }


def _counted(number: float, in_millions: bool) -> str:
    return f"{number / 1e6:,.2f}" if in_millions else f"{number:,.0f}"


def _every(line: Line) -> str:
    resolved = line.choice.resolved
    if resolved.protected.protection.peers and not resolved.snapshot_interval_steps:
        return "after a failure"
    steps = line.choice.interval_steps
    return steps_text(steps, steps * line.step_s)


def _half(interval: Interval, form: str) -> str:
    if not interval.low <= interval.high:
        return ""
    return f" ± {format((interval.high - interval.low) / 2, form)}"


def _notes(plan: RankedPlan, *, brief: bool) -> Iterator[str]:
    """Yield the meaning of the columns, a sentence each; of those of a brief table, if it is."""
    verified = [line.simulated for line in plan.lines if line.simulated is not None]
    goodput = "; goodput: share of the time in useful training" if verified or not brief else ""
    ratio = "" if brief else "; ratio: time over that without failures and redundancy"
    yield f"every: time from one checkpoint, or snapshot in memory, to the next{goodput}{ratio}"
    if verified:
        whole, steps = plan.situation.scenario.job.steps, verified[0].steps
        length = "the whole job" if steps == whole else f"{steps:,} of {whole:,} steps"
        most, least = max(len(each.ratios) for each in verified), len(plan.seeds)
        seeds = f"{least} to {most} seeds" if most > least else f"{most} seeds"
        seeds = "1 seed" if most == 1 else seeds
        first = plan.situation.unit if brief else f"{plan.situation.unit} to ratio"
        yield f"{first}: simulated over {length}, {seeds}, mean ± half the 95 % interval"
        if any(line.finished and line.factor != 1.0 for line in plan.lines):
            yield (
                f"choices that were decided early have fewer than {most} seeds; their times are "
                f"scaled by the soonest choice's time with all {most}, over that with the fewer, "
                "as far as they vary as much"
            )
    stopped_at = next((each.stopped_at for each in verified if each.stopped_at), None)
    if stopped_at:
        yield (
            f"stopped: the first seed took more than {stopped_at:g} times as long as the soonest "
            "choice"
        )
    if any(not each.finished and not each.stopped_at for each in verified):
        yield "gave up: at least one simulated job did (job.give_up_after_restarts)"
    by_return: dict[str, list[str]] = {}
    for line in plan.first_of_schemes():
        if when := return_text(line.choice):
            by_return.setdefault(when, []).append(look_of(line.choice.scheme).label)
    for when, schemes in by_return.items():
        yield f"dropped {when}: {', '.join(schemes)}"
    recoveries = {
        look_of(line.choice.scheme).label: _seconds_text(recovery_s)
        for line in plan.first_of_schemes()
        if line.finished
        and line.simulated is not None
        and (recovery_s := line.simulated.recovery_s) is not None
    }
    if recoveries:
        means = ", ".join(f"{name} {text}" for name, text in recoveries.items())
        yield (
            f"mean recovery, from a failure to the next step: {means} (faultline explain-recovery "
            "prints its phases and their sources)"
        )
    refused = {
        look_of(line.choice.scheme).label: fmean(line.simulated.states_refused)
        for line in reversed(plan.lines)
        if line.simulated is not None and any(line.simulated.states_refused)
    }
    if refused:
        times = ", ".join(f"{name} {mean:,.3g}" for name, mean in refused.items())
        yield (
            "memory: recoveries per simulated job that did not fit into GPU memory, so that the "
            f"scheme recovered otherwise or restarted: {times}"
        )
    if brief and verified:
        return
    yield (
        f"predicted: {plan.situation.unit} by closed forms; - if they do not hold: schemes that "
        "continue with broken groups or readmit them before a restart, jobs that have few restarts "
        "or hardly reach a checkpoint"
    )
    if any(line.choice.rough and line.choice.is_prediction for line in plan.lines):
        yield "* approximate: closed forms that do not cover all of this scheme or scenario"
    off = plan.largest_error()
    if off is not None:
        yield f"predictions may be off by {off:.1%}: the largest error within the 95 % intervals"


def optimised_text(each: Optimised) -> str:
    """Return one line that compares the closed forms' choice with the best found."""
    optimum = each.optimum
    start, best = optimum.start, optimum.best
    head = (
        f"{pair_name(each.scheme, each.protection)}: closed forms give r = {start.redundancy}, "
        f"every {start.interval_steps:,} steps; "
    )
    tail = f"{optimum.runs} runs of {each.steps:,} steps"
    if best == start:
        return (
            f"{head}simulation finds nothing better; the neighbours could gain at most "
            f"{optimum.could_gain:.1%} ({tail})"
        )
    change = optimum.change
    return (
        f"{head}simulation finds r = {best.redundancy}, every {best.interval_steps:,} steps; the "
        f"closed forms' choice takes {change.mean:+.1%} in comparison (95 % interval "
        f"{change.low:+.1%} to {change.high:+.1%} on fresh seeds; {tail})"
    )
