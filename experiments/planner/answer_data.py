"""An answer as JSON data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from faultline.experiments.analysis.decision import value_of_information
from faultline.experiments.analysis.sensitivity import Swing
from faultline.experiments.planner.answer import Answer, Row
from faultline.experiments.planner.choice_texts import choice_data, gpu_memory
from faultline.experiments.planner.sentences import answer_sentences
from faultline.experiments.planner.situation import DAY_S


def answer_data(
    answer: Answer, found: Sequence[Swing] = (), price_per_gpu_hour: float | None = None
) -> dict[str, Any]:
    """Return an answer as nested dicts and lists; unknown values are None, times in seconds."""
    situation, costs = answer.situation, answer.costs
    job, durations = situation.scenario.job, situation.durations
    return {
        "scenario": situation.scenario.name,
        "gpus": situation.gpus,
        "groups": job.groups,
        "gpus_per_group": job.gpus_of_group,
        "steps": job.steps,
        "simulated_steps": answer.steps,
        "mtbf_s": situation.mtbf_s,
        "restart_s": situation.restart_s,
        "save_s": durations.save_s,
        "compute_s": situation.workload.compute_s,
        "all_reduce_s": durations.all_reduce_s(job.groups),
        "assumptions": list(situation.assumptions),
        "inputs": {key.dotted: key.prior.model_dump(exclude_none=True) for key in answer.keys},
        "worlds": answer.worlds,
        "decided": answer.is_decided,
        "cap_s": None if costs is None else costs.cap_s,
        "schemes": [_row(answer, row, price_per_gpu_hour) for row in answer.rows],
        "advised": answer.rows[0].choice.scheme if answer.finishes else None,
        "ties": [row.choice.scheme for row in answer.ties],
        "swings": [
            {"name": one.name, "lead_s": one.ends_s, "swing_s": one.size_s} for one in found
        ],
        "information": []
        if costs is None
        else [asdict(one) for one in value_of_information(costs)],
        "left_out": [asdict(each) for each in answer.left_out],
        "sentences": answer_sentences(answer, found),
    }


def _row(answer: Answer, row: Row, price_per_gpu_hour: float | None) -> dict[str, Any]:
    situation, judgement = answer.situation, row.judgement
    mean_s, price, memory = judgement.bands.mean, price_per_gpu_hour, gpu_memory(row.choice)
    hours = situation.gpu_hours(mean_s)
    return {
        **choice_data(row.choice),
        **asdict(judgement),
        "days": mean_s / DAY_S,
        "time_to_train_ratio": mean_s / situation.ideal_s,
        "predicted_ratio": row.choice.predicted_ratio,
        "gpu_hours": hours,
        "cost": None if price is None else hours * price,
        "gpu_memory_bytes": None if memory is None else memory[0],
        "recoveries_refused": row.refused,
        "worlds": row.worlds,
        "endings": dict(row.endings),
    }
