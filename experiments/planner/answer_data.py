"""An answer as JSON data, and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from faultline.experiments.analysis.decision import BAND, value_of_information
from faultline.experiments.analysis.quantities import number_text
from faultline.experiments.analysis.sensitivity import Swing
from faultline.experiments.config.distribution import own_version
from faultline.experiments.config.keys import path_of
from faultline.experiments.config.priors import UncertainKey
from faultline.experiments.config.reference import unmet_condition, value_in_force
from faultline.experiments.config.reference_page import DECISIVE
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.toml_text import written
from faultline.experiments.planner.answer import Answer, Row
from faultline.experiments.planner.choice_texts import choice_data, gpu_memory
from faultline.experiments.planner.printing import answer_table, given_text, job_texts
from faultline.experiments.planner.sentences import (
    answer_sentences,
    endings_texts,
    left_out_texts,
    remarks,
)
from faultline.experiments.report.tables import Table, table_of, text


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
    ratio = judgement.bands.mean / situation.ideal_s
    hours, price, memory = situation.gpu_hours(ratio), price_per_gpu_hour, gpu_memory(row.choice)
    return {
        **choice_data(row.choice),
        **asdict(judgement),
        "days": situation.days(ratio),
        "time_to_train_ratio": ratio,
        "predicted_ratio": row.choice.predicted_ratio,
        "gpu_hours": hours,
        "cost": None if price is None else hours * price,
        "gpu_memory_bytes": None if memory is None else memory[0],
        "recoveries_refused": row.refused,
        "worlds": row.worlds,
        "endings": dict(row.endings),
    }


def answer_page_of(
    answer: Answer,
    found: Sequence[Swing],
    command: str,
    price_per_gpu_hour: float | None = None,
) -> str:
    """Return the page of an answer: its table and sentences first, then what decides."""
    from faultline.experiments.report.answer_page import AnswerFacts, answer_page

    assert answer.costs is not None
    title, *job = job_texts(answer)
    situation = answer.situation
    left_out = [f"Left out: {text}" for text in left_out_texts(answer)]
    facts = AnswerFacts(
        title=title,
        job=tuple(job),
        sentences=tuple(answer_sentences(answer, found)),
        ranking=answer_table(answer, price_per_gpu_hour),
        remarks=(*remarks(answer), *endings_texts(answer)),
        keys=keys_table(answer),
        assumptions=(
            given_text(answer),
            *situation.assumptions,
            *left_out,
        ),
        command=command,
        version=own_version(),
        schemes={
            name: choice.scheme
            for name, choice in zip(answer.costs.candidates, answer.choices, strict=True)
        },
    )
    return answer_page(answer.costs, facts, found)


_OF_CANDIDATES = ("protection.name", "rejoin.when")


def keys_table(answer: Answer) -> Table:
    """Return the keys that decide a plan, with the values that the worlds used."""
    scenario = answer.situation.scenario
    uncertain = {key.dotted: key for key in answer.keys}
    rows = [
        {"question": question, "key": dotted, "value": _value_used(scenario, dotted, uncertain)}
        for question, (keys, _) in DECISIVE.items()
        for dotted in keys
        if unmet_condition(path_of(dotted), scenario) is None
    ]
    columns = text("question", "question", "prose"), text("key", "key"), text("value", "value")
    caption = "The keys that decide: their values, or the 80 % ranges of those that are uncertain"
    return table_of("keys-table", caption, columns, rows)


def _value_used(scenario: Scenario, dotted: str, uncertain: Mapping[str, UncertainKey]) -> str:
    """Return a key's value in the worlds."""
    if dotted in _OF_CANDIDATES:
        return "each candidate has its own"
    value = value_in_force(scenario, path_of(dotted))
    own = "not stated" if value is None else written(value)
    if dotted not in uncertain:
        return own
    key = uncertain[dotted]
    low, high = (number_text(one, 3) for one in key.prior.quantile(np.array(BAND)).tolist())
    return f"{low} to {high} times {own}" if key.times else f"{low} to {high}"
