"""The planner's advice, as a sentence and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from faultline.experiments.analysis.intervals import Interval, interval_of, paired_change
from faultline.experiments.figures.palette import look_of
from faultline.experiments.job.choices import Choice
from faultline.experiments.planner.plan import Line, RankedPlan
from faultline.experiments.planner.search import Optimised
from faultline.experiments.planner.situation import Situation
from faultline.experiments.planner.verification import INDIFFERENCE

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Lead:
    """The advised choice compared with the soonest of the others."""

    rival: Line
    # Fraction by which the advised choice takes longer, below zero if it finishes sooner; None if
    # the rival did not finish.
    change: Interval | None


@dataclass(frozen=True, slots=True)
class Advice:
    """Which choice to take, if simulation separates it from the others."""

    # A verified choice that surely finishes sooner than every other scheme and protection, or later
    # by less than `INDIFFERENCE`, and ties with none. None if there is no such choice.
    taken: Line | None
    lead: Lead | None  # Over the next best; None without advice, or without any other choice.
    # Without advice, the choices that tie, the soonest first.
    undecided: tuple[Line, ...]
    sentence: str  # The advice in words.


def advise(plan: RankedPlan) -> Advice:
    """Return which choice to take.

    Only choices that finished in simulation are candidates. Each scheme over each protection is
    represented by one redundancy: the one that closed forms rank first, unless another is
    significantly sooner.
    """
    if impossible := _impossible(plan):
        return Advice(None, None, (), impossible)
    finished = _candidates(plan)
    if not finished:
        return Advice(None, None, (), _no_result_sentence(plan))
    soonest, *others = finished
    undecided = [line for line in others if not _is_worth_taking(soonest, line)]
    if undecided:
        later = [line for line in others if line not in undecided]
        sentence = _undecided_sentence(plan, soonest, undecided, later)
        return Advice(None, None, (soonest, *undecided), sentence)
    lead = _lead(plan, soonest, others)
    return Advice(soonest, lead, (), _sentence(plan, soonest, lead))


def _impossible(plan: RankedPlan) -> str | None:
    """Return a sentence about a simulated choice with an impossible goodput; None without one.

    Jitter changes the goodput of a run with few failures by less than `INDIFFERENCE`.
    """
    for line in plan.lines:
        goodput = max(line.simulated.goodputs, default=0.0) if line.simulated else 0.0
        if goodput > 1.0 + INDIFFERENCE:
            return (
                f"No advice: {_choice_text(line)} has a simulated goodput of {goodput:.1%}. "
                "More than 100 % is impossible; check the scheme's plans."
            )
    return None


def _candidates(plan: RankedPlan) -> list[Line]:
    """Return one finished choice for each scheme and protection, the soonest first."""
    standing: dict[tuple[str, str], Line] = {}
    finished = [line for line in plan.lines if line.finished]
    for line in sorted(finished, key=lambda line: not line.is_best):
        key = line.choice.scheme, line.choice.protection
        if key not in standing or _change(line, standing[key]).is_below_zero:
            standing[key] = line
    return sorted(standing.values(), key=lambda line: line.ratio)


def _change(one: Line, other: Line) -> Interval:
    """Return by which fraction a simulated choice takes longer than another."""
    assert one.simulated is not None
    assert other.simulated is not None
    return paired_change(one.simulated.ratios, other.simulated.ratios)


def _is_worth_taking(one: Line, other: Line) -> bool:
    """Whether one is surely sooner, or later by too little to matter, and not just alike."""
    change = _change(other, one)
    return change.low > -INDIFFERENCE and change.high > INDIFFERENCE


def _lead(plan: RankedPlan, taken: Line, others: list[Line]) -> Lead | None:
    if others:
        return Lead(others[0], _change(taken, others[0]))
    stopped = [line for line in plan.lines if line.simulated is not None and line.is_best]
    return next((Lead(line, None) for line in stopped if not line.finished), None)


def _no_result_sentence(plan: RankedPlan) -> str:
    if not plan.lines:
        return "No advice: each scheme is left out, for the reason above."
    if any(line.simulated is not None for line in plan.lines):
        return "No advice: no simulated job finished."
    predicted = [line for line in plan.lines if line.choice.is_prediction]
    first = f"; closed forms alone rank {_choice_text(predicted[0])} first" if predicted else ""
    return f"No advice: nothing was verified by simulation{first}."


def _sentence(plan: RankedPlan, taken: Line, lead: Lead | None) -> str:
    assert taken.simulated is not None
    start = f"Take {_choice_text(taken)}: {_span_text(plan, taken)}"
    if lead is None:
        return f"{start}. No other choice was requested or would finish."
    rival = pair_name(lead.rival.choice.scheme, lead.rival.choice.protection)
    if lead.change is None:
        assert lead.rival.simulated is not None
        within = (
            f" within {stopped:g} times that"
            if (stopped := lead.rival.simulated.stopped_at)
            else ""
        )
        return f"{start}. No other choice finished in simulation{within}."
    return (
        f"{start}, {-lead.change.mean:.1%} less than the next best, {rival} (95 % interval "
        f"{-lead.change.high:.1%} to {-lead.change.low:.1%}, "
        f"{_seeds_text(taken, [lead.rival])} paired seeds)."
    )


def _span_text(plan: RankedPlan, line: Line) -> str:
    return f"{plan.situation.span(line.ratio):,.1f} {plan.situation.unit}"


def _undecided_sentence(
    plan: RankedPlan, soonest: Line, undecided: list[Line], later: list[Line]
) -> str:
    assert soonest.simulated is not None
    seeds, names = _seeds_text(soonest, undecided), _names([soonest, *undecided])
    if seeds == "1":
        return f"No advice: one seed cannot separate {names}; use more --seeds."
    changes = [_change(line, soonest) for line in undecided]
    if all(max(-change.low, change.high) <= INDIFFERENCE for change in changes):
        need = f"{_span_text(plan, soonest)}, within {INDIFFERENCE:.1%}"
        return f"Take any of these: {names}. All need {need}{_next_best(soonest, later)}."
    return (
        f"No advice: {seeds} paired seeds cannot separate {names} (their order in the table is "
        "chance). All other simulated choices take longer. More --seeds may separate them."
    )


def _seeds_text(one: Line, others: Sequence[Line]) -> str:
    """Return how many seeds one choice shares with others, as a number or a range."""
    counts = [
        min(len(one.simulated.ratios), len(other.simulated.ratios))
        for other in others
        if one.simulated is not None and other.simulated is not None
    ]
    least, most = min(counts), max(counts)
    return str(most) if least == most else f"{least} to {most}"


def _names(lines: Sequence[Line]) -> str:
    """Return the names of the first choices: each scheme once, with its protections."""
    by_scheme: dict[str, list[str]] = {}
    for line in lines[:_MOST_NAMED]:
        by_scheme.setdefault(line.choice.scheme, []).append(line.choice.protection)
    named = [
        pair_name(scheme, " or ".join(", ".join(protections).rsplit(", ", 1)))
        for scheme, protections in by_scheme.items()
    ]
    more = len(lines) - _MOST_NAMED
    return "; ".join(named) + (f"; and {more} more" if more > 0 else "")


def _next_best(soonest: Line, later: Sequence[Line]) -> str:
    if not later:
        return ""
    choice, longer = later[0].choice, _change(later[0], soonest)
    name = f"{look_of(choice.scheme).label} over {choice.protection}"
    return f"; the next best, {name}, needs {longer.low:.1%} to {longer.high:.1%} more"


def _choice_text(line: Line) -> str:
    choice = line.choice
    name = pair_name(choice.scheme, choice.protection)
    return f"{name} with r = {choice.redundancy} and {interval_text(choice)}"


def interval_text(choice: Choice) -> str:
    """Return how often a choice saves the state."""
    if choice.resolved.scenario.checkpoint.policy == "dynamic":
        return "checkpoints by the dynamic policy"
    every = choice.resolved.kept_every_steps
    steps = "step" if every == 1 else f"{every:,} steps"
    if choice.resolved.snapshot_interval_steps:
        return f"a snapshot every {steps}"
    if choice.resolved.protected.protection.peers is not None:
        return "a checkpoint after a failure"
    return f"a checkpoint every {steps}"


def return_text(choice: Choice) -> str:
    """Return when dropped groups return; empty for a scheme that drops none."""
    scheme = choice.resolved.strategy()
    if scheme.tracks_components or scheme.masked_failures() <= 1.0:
        return ""
    return f"groups return {choice.rejoin_when.replace('-', ' a ')}"


def pair_name(scheme: str, protection: str | None) -> str:
    """Return the name of a scheme over a protection; storage, the default, is left out."""
    name = look_of(scheme).label
    return name if protection in (None, "storage") else f"{name} over {protection}"


def plan_data(
    plan: RankedPlan,
    advice: Advice,
    optimised: Sequence[Optimised] = (),
    price_per_gpu_hour: float | None = None,
) -> dict[str, Any]:
    """Return a plan as nested dicts and lists; unknown values are None.

    With a price, in any currency, each choice has its cost.
    """
    situation = plan.situation
    job, durations = situation.scenario.job, situation.durations
    return {
        "scenario": situation.scenario.name,
        "gpus": situation.gpus,
        "groups": job.groups,
        "gpus_per_group": job.gpus_of_group,
        "steps": job.steps,
        "mtbf_s": situation.mtbf_s,
        "restart_s": situation.restart_s,
        "save_s": durations.save_s,
        "compute_s": situation.workload.compute_s,
        "all_reduce_s": durations.all_reduce_s(job.groups),
        "assumptions": list(situation.assumptions),
        "seeds": list(plan.seeds),
        "choices": [_line(plan, line, price_per_gpu_hour) for line in plan.lines],
        "unverified_choices": plan.unverified,
        "left_out": [asdict(each) for each in plan.left_out],
        "advice": _advice(advice),
        "optimised": [_optimised(each) for each in optimised],
    }


def _line(plan: RankedPlan, line: Line, price_per_gpu_hour: float | None) -> dict[str, Any]:
    situation, choice, step_s = plan.situation, line.choice, line.step_s
    off, predicted = line.may_be_off(), choice.predicted_ratio
    if off is None and not choice.rough and predicted is not None:
        off = plan.largest_error()
    resolved = choice.resolved
    return {
        **choice_data(choice),
        "checkpoint_interval_s": resolved.interval_steps * step_s,
        "snapshot_interval_s": resolved.snapshot_interval_steps * step_s,
        "best_of_scheme": line.is_best,
        "rough": choice.rough,
        "predicted": None
        if predicted is None
        else {
            **_cost(situation, predicted, price_per_gpu_hour),
            "availability": choice.availability,
            "steps_per_life": choice.steps_per_life,
        },
        "simulated": _simulated(situation, line, price_per_gpu_hour),
        "error": _interval(line.error()),
        "may_be_off": off,
    }


def choice_data(choice: Choice) -> dict[str, Any]:
    """Return a choice as JSON data: a scheme with its protection, redundancy and intervals."""
    return {
        "scheme": choice.scheme,
        "protection": choice.protection,
        "redundancy": choice.redundancy,
        "rejoin_when": choice.rejoin_when,
        "checkpoint_interval_steps": choice.resolved.interval_steps,
        "snapshot_interval_steps": choice.resolved.snapshot_interval_steps,
    }


def _cost(
    situation: Situation, ratio: float, price_per_gpu_hour: float | None
) -> dict[str, float | None]:
    gpu_hours, price = situation.gpu_hours(ratio), price_per_gpu_hour
    return {
        "days": situation.days(ratio),
        "gpu_hours": gpu_hours,
        "cost": None if price is None else gpu_hours * price,
        "time_to_train_ratio": ratio,
    }


def _simulated(
    situation: Situation, line: Line, price_per_gpu_hour: float | None
) -> dict[str, Any] | None:
    simulated = line.simulated
    if simulated is None:
        return None
    interval = interval_of(line.ratios)
    return {
        **_cost(situation, interval.mean, price_per_gpu_hour),
        "low": interval.low,
        "high": interval.high,
        "goodput": line.goodput,
        "availability": fmean(simulated.availabilities),
        "ratios": list(simulated.ratios),
        "steps": simulated.steps,
        "gave_up": simulated.gave_up,
        "states_refused": fmean(simulated.states_refused or (0,)),
        "recovery_s": simulated.recovery_s,
        "stopped_at": simulated.stopped_at,
    }


def _advice(advice: Advice) -> dict[str, Any]:
    lead = advice.lead
    taken = None if advice.taken is None else advice.taken.choice
    rival = None if lead is None else lead.rival.choice
    return {
        **{name: getattr(taken, name, None) for name in ("scheme", "protection", "redundancy")},
        "interval_steps": getattr(taken, "interval_steps", None),
        "rival": getattr(rival, "scheme", None),
        "rival_protection": getattr(rival, "protection", None),
        "change": None if lead is None else _interval(lead.change),
        "undecided": [
            {"scheme": line.choice.scheme, "protection": line.choice.protection}
            for line in advice.undecided
        ],
        "sentence": advice.sentence,
    }


def _optimised(each: Optimised) -> dict[str, Any]:
    optimum = each.optimum
    return {
        "scheme": each.scheme,
        "protection": each.protection,
        "closed_form": optimum.start._asdict(),
        "best": optimum.best._asdict(),
        "closed_form_takes_longer": _interval(optimum.change),
        "neighbours_could_gain": optimum.could_gain,
        "runs": optimum.runs,
        "steps": each.steps,
    }


def _interval(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else asdict(interval)
