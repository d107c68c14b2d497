"""A plan as plain data: for JSON, and for tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from faultline.experiments.analysis.intervals import Interval, interval_of
from faultline.experiments.planner.advice import Advice
from faultline.experiments.planner.plan import Line, Plan
from faultline.experiments.planner.search import Optimised
from faultline.experiments.planner.situation import Situation


def answer(plan: Plan, advice: Advice, optimised: Sequence[Optimised] = ()) -> dict[str, Any]:
    """Return all of a plan as nested dicts and lists; what is unknown is None."""
    situation = plan.situation
    job, durations = situation.scenario.job, situation.durations
    return {
        "scenario": situation.scenario.name,
        "gpus": situation.gpus,
        "groups": job.groups,
        "gpus_per_group": job.gpus_of_group,
        "steps": job.steps,
        "mtbf_s": situation.mtbf_s,
        "restart_s": durations.restart_s + durations.load_s,
        "save_s": durations.save_s,
        "compute_s": job.compute_s,
        "all_reduce_s": durations.all_reduce_s(job.groups),
        "assumptions": list(situation.assumptions),
        "seeds": list(plan.seeds),
        "choices": [_line(plan, line) for line in plan.lines],
        "unverified_choices": plan.unverified,
        "left_out": [asdict(each) for each in plan.left_out],
        "advice": _advice(advice),
        "optimised": [_optimised(each) for each in optimised],
    }


def _line(plan: Plan, line: Line) -> dict[str, Any]:
    situation, choice, step_s = plan.situation, line.choice, line.step_s
    off, predicted = line.may_be_off(), choice.predicted_ratio
    if off is None and not choice.rough and predicted is not None:
        off = plan.largest_error()
    question = choice.question
    snapshots = question.protected.snapshot_interval_steps
    return {
        "scheme": choice.scheme,
        "protection": choice.protection,
        "redundancy": choice.redundancy,
        "checkpoint_interval_steps": question.interval_steps,
        "checkpoint_interval_s": question.interval_steps * step_s,
        "snapshot_interval_steps": snapshots,
        "snapshot_interval_s": snapshots * step_s,
        "best_of_scheme": line.is_best,
        "rough": choice.rough,
        "predicted": None
        if predicted is None
        else {
            **_cost(situation, predicted),
            "availability": choice.availability,
            "steps_per_life": choice.steps_per_life,
        },
        "simulated": _simulated(situation, line),
        "error": _interval(line.error()),
        "may_be_off": off,
    }


def _cost(situation: Situation, ratio: float) -> dict[str, float]:
    return {
        "days": situation.days(ratio),
        "gpu_hours": situation.gpu_hours(ratio),
        "time_to_train_ratio": ratio,
    }


def _simulated(situation: Situation, line: Line) -> dict[str, Any] | None:
    simulated = line.simulated
    if simulated is None:
        return None
    interval = interval_of(simulated.ratios)
    return {
        **_cost(situation, interval.mean),
        "low": interval.low,
        "high": interval.high,
        "goodput": fmean(simulated.goodputs),
        "availability": fmean(simulated.availabilities),
        "ratios": list(simulated.ratios),
        "steps": simulated.steps,
        "gave_up": simulated.gave_up,
        "stopped_at": simulated.stopped_at,
    }


def _advice(advice: Advice) -> dict[str, Any]:
    lead = advice.lead
    taken = None if advice.taken is None else advice.taken.choice
    rival = None if lead is None else lead.rival.choice
    return {
        "scheme": None if taken is None else taken.scheme,
        "protection": None if taken is None else taken.protection,
        "redundancy": None if taken is None else taken.redundancy,
        "interval_steps": None if taken is None else taken.interval_steps,
        "rival": None if rival is None else rival.scheme,
        "rival_protection": None if rival is None else rival.protection,
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
