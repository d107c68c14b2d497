"""Prints a plan over the priors: on a screen, as JSON, and as a page."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from faultline.experiments.analysis.decision import BAND, judge, value_of_information
from faultline.experiments.analysis.quantities import number_text, quantity
from faultline.experiments.config.distribution import own_version
from faultline.experiments.config.keys import path_of
from faultline.experiments.config.reference import unmet_condition, value_in_force
from faultline.experiments.config.toml_text import written
from faultline.experiments.figures.palette import look_of
from faultline.experiments.job.choices import Choice
from faultline.experiments.planner.advice import choice_data, interval_text, return_text
from faultline.experiments.planner.over_priors import OverPriors
from faultline.experiments.planner.plan import RankedPlan
from faultline.experiments.planner.printing import job_texts, left_out_texts
from rich.console import Console

if TYPE_CHECKING:
    from faultline.experiments.report.tables import Table

_GIVEN = (
    "recovery.hardware",
    "recovery.standbys",
    "recovery.shortage",
    "model.virtual_stages",
    "model.optimizer_backup",
)
"""Facts that decide, and that an operator knows: they are stated, and never averaged over."""

_WIDE = 130
"""A narrower screen has a ranking of few columns, and the set-ups below it."""

_OF_NARROW_TABLES = ("candidate", "best", "days", "80 % band", "regret (days)", "stopped")

_MOST_LEFT_OUT = 4
"""More reasons would leave no room on the page."""


def print_over_priors(console: Console, over: OverPriors) -> None:
    """Print the answer in sentences, the ranking by expected regret, and what is taken as given."""
    # Importing the emulator's libraries takes a second.
    from faultline.experiments.report.answer_page import answer_texts
    from faultline.experiments.report.tables import on_screen

    sentences, table = answer_texts(over.costs, _labels(over), _set_ups(over))
    stated = sum(key.is_stated for key in over.keys)
    console.print(
        f"over the priors of {len(over.keys)} inputs ({stated} stated, the others shipped), at "
        f"{len(over.costs.design)} samples:",
        style="bold",
        soft_wrap=True,
    )
    if console.width < _WIDE:
        console.print(on_screen(_narrow(table)))
        for candidate, set_up in _set_ups(over).items():
            console.print(f"{candidate}: {set_up}", soft_wrap=True)
    else:
        console.print(on_screen(table))
    for line in filter(None, (apart_text(over), given_text(over))):
        console.print(line, soft_wrap=True)
    for line in not_simulated_texts(over):
        console.print(line, soft_wrap=True)
    for sentence in sentences:
        console.print(sentence, style="bold", soft_wrap=True)


def _narrow(table: Table) -> Table:
    """Return a ranking with the columns that fit into 80 characters."""
    from faultline.experiments.report.tables import TableRow

    kept = [place for place, one in enumerate(table.columns) if one.title in _OF_NARROW_TABLES]
    rows = (TableRow(tuple(row.cells[place] for place in kept), row.best) for row in table.rows)
    return replace(table, columns=tuple(table.columns[place] for place in kept), rows=tuple(rows))


def apart_text(over: OverPriors) -> str:
    """Return a line with the values of the first answer that are unusual under their priors.

    It is empty if all are within the 80 % ranges.
    """
    scenario, apart = over.choices[0].resolved.scenario, []
    for key in over.keys:
        low, high = key.prior.quantile(np.array(BAND)).tolist()
        value = 1.0 if key.times else value_in_force(scenario, path_of(key.dotted))
        if value is not None and not low <= value <= high:
            own, *ends = (number_text(one, 3) if one else "0" for one in (value, low, high))
            apart.append(f"{key.dotted} = {own} ({' to '.join(ends)})")
    if not apart:
        return ""
    return (
        "the first answer is at the scenario's values, which differ from most of their priors (80 "
        f"% range): {', '.join(apart)}"
    )


def given_text(over: OverPriors) -> str:
    """Return a line with the facts that the scenario takes as given, by their keys."""
    scenario = over.choices[0].resolved.scenario
    facts = [
        f"{dotted} = {written(value)}"
        for dotted in _GIVEN
        if unmet_condition(path_of(dotted), scenario) is None
        and (value := value_in_force(scenario, path_of(dotted))) is not None
    ]
    return (
        f"taken as given, as an operator knows it: {', '.join(facts)}; another value may change "
        "the answer (--set KEY=VALUE). Steps on approximate gradients, and batches whose rest is "
        "trained later, count as full ones (--schemes leaves such schemes out)."
    )


def not_simulated_texts(over: OverPriors) -> list[str]:
    """Return a line for each reason why schemes of the plan are not simulated over the priors."""
    by_reason: dict[str, list[str]] = {}
    for scheme, reason in over.left_out.items():
        by_reason.setdefault(reason, []).append(look_of(scheme).label)
    return [
        f"not simulated over the priors ({reason}): {', '.join(schemes)}"
        for reason, schemes in by_reason.items()
    ]


def _set_ups(over: OverPriors) -> dict[str, str]:
    """Return how each candidate is set up: its protection, redundancy, interval and returns."""
    return {
        candidate: _set_up(choice)
        for candidate, choice in zip(over.costs.candidates, over.choices, strict=True)
    }


def _set_up(choice: Choice) -> str:
    redundancy = f"r = {choice.redundancy}"
    parts = [choice.protection, redundancy, interval_text(choice), return_text(choice)]
    return ", ".join(filter(None, parts))


def over_priors_page(
    plan: RankedPlan, over: OverPriors, command: str, price_per_gpu_hour: float | None = None
) -> str:
    """Return the page of the answer, with sliders for the inputs that decide most."""
    from faultline.experiments.report.answer_page import AnswerFacts, answer_page

    title, *job = job_texts(plan)
    schemes = [choice.scheme for choice in over.choices]
    assumptions = [text.removeprefix("- ") for text in job if text.startswith("- ")]
    reasons = [*not_simulated_texts(over), *left_out_texts(plan)]
    sentences = [given_text(over), apart_text(over), *reasons[:_MOST_LEFT_OUT]]
    given, *left_out = [text[0].upper() + text[1:] for text in sentences if text]
    facts = AnswerFacts(
        title=title,
        question="Which fault-tolerance scheme trains this model soonest on this cluster?",
        job=tuple(text for text in job if not text.startswith("- ")),
        assumptions=(given, *assumptions, *left_out),
        command=command,
        version=own_version(),
        labels=_labels(over),
        schemes=dict(zip(over.costs.candidates, schemes, strict=True)),
        remarks=_remarks(plan, over, price_per_gpu_hour),
    )
    return answer_page(over.costs, facts)


def over_priors_data(over: OverPriors) -> dict[str, Any]:
    """Return the judgements and the values of information as JSON data; times in seconds."""
    choices = dict(zip(over.costs.candidates, over.choices, strict=True))
    return {
        "inputs": {key.dotted: key.prior.model_dump(exclude_none=True) for key in over.keys},
        "samples": len(over.costs.design),
        "stopped_at_s": over.costs.cap_s,
        "not_simulated": over.left_out,
        "candidates": [
            {**asdict(one), **choice_data(choices[one.candidate])} for one in judge(over.costs)
        ],
        "information": [asdict(one) for one in value_of_information(over.costs)],
    }


def _labels(over: OverPriors) -> dict[str, str]:
    """Return the label of each input; one that each scheme has of its own names the scheme.

    Inputs of two tables that share a label name the table: launch_s of recovery and protection.
    """
    labels = {}
    for name in over.costs.design.names:
        dotted, of, scheme = name.partition(" of ")
        labels[name] = f"{quantity(dotted).with_unit}{' of ' + scheme if of else ''}"
    shared = Counter(labels.values())
    return {
        name: f"{name.partition('.')[0]} {label}" if shared[label] > 1 else label
        for name, label in labels.items()
    }


def _remarks(
    plan: RankedPlan, over: OverPriors, price_per_gpu_hour: float | None
) -> dict[str, str]:
    """Return each candidate's set-up, its GPU-hours at its expected time, and their cost."""
    remarks = _set_ups(over)
    for one in judge(over.costs):
        hours = plan.situation.gpu_hours(one.bands.mean / plan.situation.ideal_s)
        price = "" if price_per_gpu_hour is None else f", {hours * price_per_gpu_hour:,.0f}"
        least = "at least " if one.stopped else ""
        remarks[one.candidate] += f"; {least}{hours:,.0f} GPU-hours{price}"
    return remarks
