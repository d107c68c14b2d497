"""A plan for people: a line a choice, and one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from experiments.planner.advice import Advice, scheme_name
from experiments.planner.answer import days, gpu_hours
from experiments.planner.optimised import Optimised
from experiments.planner.pairs import Interval, interval_of
from experiments.planner.plan import Line, Plan


def print_plan(
    console: Console, plan: Plan, advice: Advice | None, optimised: Sequence[Optimised]
) -> None:
    """Print what was planned."""
    _print_job(console, plan)
    if plan.lines:
        console.print(_choices(plan))
        _print_notes(console, plan)
    for scheme in plan.untrained:
        _say(console, f"{scheme_name(scheme.scheme)}: {scheme.reason}.")
    for each in optimised:
        _say(console, optimised_text(each))
    if advice is None:
        _say(console, "No scheme would finish this job.", "bold")
    else:
        _say(console, advice.sentence, "bold")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _print_job(console: Console, plan: Plan) -> None:
    situation = plan.situation
    job, durations = situation.scenario.job, situation.durations
    restart_s = durations.restart_s + durations.load_s
    _say(
        console,
        f"{situation.scenario.name}: {situation.gpus:,} GPUs in {job.groups:,} groups of "
        f"{job.gpus_of_group:,}, {job.steps:,} steps",
        "bold",
    )
    _say(
        console,
        f"a failure every {situation.mtbf_s:,.4g} s, restart {restart_s:,.4g} s, checkpoint "
        f"{durations.save_s:,.4g} s, step {situation.ideal_step_s:,.4g} s without failures and "
        "redundancy",
    )
    for assumption in situation.assumptions:
        _say(console, f"- {assumption}")


def _choices(plan: Plan) -> Table:
    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column("scheme")
    for name in ("r", "every", "days", "availability", "M GPU-h", "ratio", "simulated", "error"):
        table.add_column(name, justify="right")
    for line in plan.lines:
        table.add_row(*_cells(plan, line))
    return table


def _cells(plan: Plan, line: Line) -> list[str]:
    choice, situation = line.choice, plan.situation
    cells = [
        scheme_name(choice.scheme) + ("*" if choice.rough else ""),
        str(choice.redundancy),
        f"{choice.interval_steps:,}",
        f"{days(situation, choice.ratio):,.1f}",
        f"{choice.availability:.1%}",
        f"{gpu_hours(situation, choice.ratio) / 1e6:,.2f}",
        f"{choice.ratio:.3f}",
    ]
    if line.simulated is None:
        return [*cells, "-", "-"]
    error = line.error()
    ratio = interval_of(line.simulated.ratios)
    return [
        *cells,
        f"{ratio.mean:.3f}" + _half(ratio, ".3f"),
        "-" if error is None else f"{error.mean:+.1%}" + _half(error, ".1%"),
    ]


def _half(interval: Interval, form: str) -> str:
    if not interval.low <= interval.high:
        return ""
    return f" ± {format((interval.high - interval.low) / 2, form)}"


def _print_notes(console: Console, plan: Plan) -> None:
    _say(console, "every: steps between checkpoints; days to ratio: predicted by closed forms")
    if any(line.choice.rough for line in plan.lines):
        _say(console, "* rougher: closed forms that do not know all of this scheme or scenario")
    verified = [line for line in plan.lines if line.simulated is not None]
    whole = plan.situation.scenario.job.steps
    for line in verified[:1]:
        assert line.simulated is not None
        steps = line.simulated.steps
        length = "the whole job" if steps == whole else f"{steps:,} of {whole:,} steps"
        seeds = "1 seed" if len(plan.seeds) == 1 else f"{len(plan.seeds)} seeds"
        _say(console, f"simulated: {length}, {seeds}, mean ± half the 95 % interval")
    gave_up = [line for line in verified if line.simulated is not None and line.simulated.gave_up]
    for line in gave_up:
        assert line.simulated is not None
        _say(
            console,
            f"{scheme_name(line.choice.scheme)}, r = {line.choice.redundancy}: "
            f"{line.simulated.gave_up} of {len(plan.seeds)} simulated jobs gave up "
            "(job.give_up_after_restarts)",
        )
    off = plan.largest_error()
    if off is not None:
        _say(
            console,
            f"predictions may be off by {off:.1%}: the largest error that the seeds leave possible",
        )


def optimised_text(each: Optimised) -> str:
    """Return in one line how far the closed forms' choice is from the best found."""
    optimum = each.optimum
    start, best = optimum.start, optimum.best
    head = (
        f"{scheme_name(each.scheme)}: closed forms say r = {start.redundancy}, every "
        f"{start.interval_steps:,} steps; "
    )
    tail = f"{optimum.runs} runs of {each.steps:,} steps"
    if best == start:
        return (
            f"{head}simulation finds nothing clearly better, and leaves at most "
            f"{optimum.could_gain:.1%} to gain among the neighbours ({tail})"
        )
    change = optimum.change
    return (
        f"{head}simulation finds r = {best.redundancy}, every {best.interval_steps:,} steps; the "
        f"closed forms' choice takes {change.mean:+.1%} in comparison (95 % interval "
        f"{change.low:+.1%} to {change.high:+.1%} on fresh seeds; {tail})"
    )
