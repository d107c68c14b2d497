"""A plan as plain data: for JSON, and for tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from experiments.planner.advice import Advice
from experiments.planner.optimised import Optimised
from experiments.planner.pairs import Interval, interval_of
from experiments.planner.plan import DAY_S, Line, Plan
from experiments.planner.situation import Situation


def answer(
    plan: Plan, advice: Advice | None, optimised: Sequence[Optimised] = ()
) -> dict[str, Any]:
    """Return all of a plan as nested dicts and lists; what is infinite or unknown is None."""
    situation = plan.situation
    job, durations = situation.scenario.job, situation.durations
    content = {
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
        "choices": [_line(situation, plan, line) for line in plan.lines],
        "untrained": [
            {"scheme": scheme.scheme, "reason": scheme.reason} for scheme in plan.untrained
        ],
        "advice": None if advice is None else _advice(advice),
        "optimised": [_optimised(each) for each in optimised],
    }
    finite: dict[str, Any] = _finite(content)
    return finite


def days(situation: Situation, ratio: float) -> float:
    """Return the time of the whole job at a time-to-train ratio, in days."""
    return ratio * situation.ideal_s / DAY_S


def gpu_hours(situation: Situation, ratio: float) -> float:
    """Return the GPU-hours of the whole job at a ratio, those of spare groups included."""
    return days(situation, ratio) * 24.0 * situation.gpus


def _line(situation: Situation, plan: Plan, line: Line) -> dict[str, Any]:
    choice = line.choice
    off = line.may_be_off()
    if off is None and not choice.rough:
        off = plan.largest_error()
    return {
        "scheme": choice.scheme,
        "redundancy": choice.redundancy,
        "interval_steps": choice.interval_steps,
        "best_of_scheme": line.is_best_of_scheme,
        "rough": choice.rough,
        "predicted": {
            **_cost(situation, choice.ratio),
            "availability": choice.availability,
            "steps_per_life": choice.steps_per_life,
        },
        "simulated": _simulated(situation, line),
        "error": _interval(line.error()),
        "may_be_off": off,
    }


def _cost(situation: Situation, ratio: float) -> dict[str, float]:
    return {
        "time_to_train_ratio": ratio,
        "days": days(situation, ratio),
        "gpu_hours": gpu_hours(situation, ratio),
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
        "availability": float(np.mean(simulated.availabilities)),
        "ratios": list(simulated.ratios),
        "steps": simulated.steps,
        "gave_up": simulated.gave_up,
    }


def _advice(advice: Advice) -> dict[str, Any]:
    choice, lead = advice.taken.choice, advice.lead
    return {
        "scheme": choice.scheme,
        "redundancy": choice.redundancy,
        "interval_steps": choice.interval_steps,
        "rival": None if lead is None else lead.rival.choice.scheme,
        "change": None if lead is None else _interval(lead.change),
        "clear_of_chance": None if lead is None else lead.is_clear,
        "sentence": advice.sentence,
    }


def _optimised(each: Optimised) -> dict[str, Any]:
    optimum = each.optimum
    return {
        "scheme": each.scheme,
        "closed_form": optimum.start._asdict(),
        "best": optimum.best._asdict(),
        "closed_form_takes_longer": _interval(optimum.change),
        "neighbours_could_gain": optimum.could_gain,
        "runs": optimum.runs,
        "steps": each.steps,
    }


def _interval(interval: Interval | None) -> dict[str, float] | None:
    if interval is None:
        return None
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}


def _finite(value: Any) -> Any:
    """JSON knows no infinity."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not isfinite(value) else value
