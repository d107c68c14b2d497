"""Prints a plan over the priors: on a screen, as JSON, and as a page."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

from faultline.experiments.analysis.decision import judge, value_of_information
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.config.distribution import own_version
from faultline.experiments.planner.over_priors import OverPriors
from faultline.experiments.planner.plan import Plan
from faultline.experiments.planner.printing import job_texts
from rich.console import Console


def print_over_priors(console: Console, over: OverPriors) -> None:
    """Print the answer in sentences, and the ranking by expected regret."""
    # Importing the emulator's libraries takes a second.
    from faultline.experiments.report.answer_page import answer_texts
    from faultline.experiments.report.tables import on_screen

    sentences, table = answer_texts(over.costs, _labels(over), {})
    stated = sum(key.is_stated for key in over.keys)
    console.print(
        f"over the priors of {len(over.keys)} inputs ({stated} stated, the others shipped), at "
        f"{len(over.costs.design)} samples:",
        style="bold",
        soft_wrap=True,
    )
    console.print(on_screen(table))
    for sentence in sentences:
        console.print(sentence, soft_wrap=True)


def over_priors_page(
    plan: Plan, over: OverPriors, command: str, price_per_gpu_hour: float | None = None
) -> str:
    """Return the page of the answer, with sliders for the inputs that decide most."""
    from faultline.experiments.report.answer_page import AnswerFacts, answer_page

    title, *job = job_texts(plan)
    schemes = [choice.scheme for choice in over.choices]
    facts = AnswerFacts(
        title=title,
        question="Which fault-tolerance scheme trains this model soonest on this cluster?",
        job=tuple(text for text in job if not text.startswith("- ")),
        assumptions=tuple(text.removeprefix("- ") for text in job if text.startswith("- ")),
        command=command,
        version=own_version(),
        labels=_labels(over),
        schemes=dict(zip(over.costs.candidates, schemes, strict=True)),
        remarks=_remarks(plan, over, price_per_gpu_hour),
    )
    return answer_page(over.costs, facts)


def over_priors_data(over: OverPriors) -> dict[str, Any]:
    """Return the judgements and the values of information as JSON data; times in seconds."""
    return {
        "inputs": {key.dotted: key.prior.model_dump(exclude_none=True) for key in over.keys},
        "samples": len(over.costs.design),
        "candidates": [asdict(one) for one in judge(over.costs)],
        "information": [asdict(one) for one in value_of_information(over.costs)],
    }


def _labels(over: OverPriors) -> dict[str, str]:
    """Return the label of each input; one that each scheme has of its own names the scheme."""
    labels = {}
    for name in over.costs.design.names:
        dotted, of, scheme = name.partition(" of ")
        labels[name] = f"{quantity(dotted).with_unit}{' of ' + scheme if of else ''}"
    return labels


def _remarks(plan: Plan, over: OverPriors, price_per_gpu_hour: float | None) -> dict[str, str]:
    """Return each candidate's GPU-hours at its expected time and, with a price, their cost."""
    remarks = {}
    for one in judge(over.costs):
        if isfinite(one.bands.mean):
            hours = plan.situation.gpu_hours(one.bands.mean / plan.situation.ideal_s)
            price = "" if price_per_gpu_hour is None else f", {hours * price_per_gpu_hour:,.0f}"
            remarks[one.candidate] = f"{hours:,.0f} GPU-hours{price}"
    return remarks
