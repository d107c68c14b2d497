"""The page of an answer: the table and the sentences, what decides, and sliders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from faultline.experiments.analysis.decision import BAND, value_of_information
from faultline.experiments.analysis.design import SimulatedCosts
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.analysis.input_scales import InputScale, scales_of
from faultline.experiments.analysis.quantities import MISSING, duration_text, number_text
from faultline.experiments.analysis.sensitivity import SAMPLES, STOPS, Swing
from faultline.experiments.config.distribution import own_version
from faultline.experiments.config.keys import path_of
from faultline.experiments.config.priors import UncertainKey
from faultline.experiments.config.reference import unmet_condition, value_in_force
from faultline.experiments.config.reference_page import DECISIVE
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.toml_text import written
from faultline.experiments.figures.decision import draw_plane, draw_tornado
from faultline.experiments.figures.palette import OKABE_ITO, look_of
from faultline.experiments.planner.answer import Answer
from faultline.experiments.planner.printing import answer_table, given_text, job_texts
from faultline.experiments.planner.sentences import (
    answer_sentences,
    endings_texts,
    left_out_texts,
    remarks,
)
from faultline.experiments.report.page import PagePicture, embed, rendered
from faultline.experiments.report.tables import Mapped, Table, TableColumn, table_of, text
from markupsafe import Markup
from scipy.special import ndtri

_SLIDERS = 8
_LEAST_SWING = 1e-3
"""Inputs that move the lead by less than this share of the largest swing are not drawn."""


def answer_page(
    answer: Answer,
    swings: Sequence[Swing],
    command: str,
    price_per_gpu_hour: float | None = None,
) -> str:
    """Return the page as HTML, complete in itself: the table and the sentences first.

    Without swings (no two candidates, or no input) it has neither sliders nor figures.

    Parameters
    ----------
    answer : Answer
        The answer, with at least one row.
    swings : sequence of Swing
        The effect of each input, the largest first.
    command : str
        What made the page.
    price_per_gpu_hour : float, optional
        Price in any currency.
    """
    assert answer.costs is not None
    costs = answer.costs
    title, *job = job_texts(answer)
    scales = scales_of(costs.design)
    emulator = Emulator(costs) if swings else None
    sliders = [
        {
            "label": scales[one.name].label,
            "place": costs.design.names.index(one.name),
            "texts": list(map(scales[one.name].text, one.stops.tolist())),
            "scores": ndtri(one.stops).round(5).tolist(),
        }
        for one in swings[:_SLIDERS]
    ]
    samples = ndtri(costs.design.unit[:SAMPLES]).round(5).tolist()
    data = {**emulator.to_json(), "samples": samples, "sliders": sliders} if emulator else None
    return rendered(
        "answer.html",
        ("style.css", "answer.css"),
        ("script.js", "answer.js"),
        title=title,
        job=job,
        sentences=answer_sentences(answer, swings),
        ranking=answer_table(answer, price_per_gpu_hour),
        remarks=[*remarks(answer), *endings_texts(answer)],
        keys=keys_table(answer),
        assumptions=[
            given_text(answer),
            *answer.situation.assumptions,
            *(f"Left out: {text}" for text in left_out_texts(answer)),
        ],
        command=command,
        version=own_version(),
        sliders=sliders,
        stops=STOPS,
        accuracy=_accuracy(emulator) if emulator else "",
        pictures=_pictures(emulator, swings, scales, answer) if emulator else [],
        inputs=_inputs_table(costs, swings, scales) if swings else None,
        # A closing tag within the data would end the element.
        emulator=Markup(json.dumps(data).replace("<", r"\u003c")),
    )


def _inputs_table(
    costs: SimulatedCosts, swings: Sequence[Swing], scales: Mapping[str, InputScale]
) -> Table:
    """Return all inputs with the values used, by their swing, and what knowing each is worth."""
    worth = {one.name: one.value for one in value_of_information(costs)}

    def advice(row: Mapped) -> str:
        return row["swing"].turns_text(costs.candidates, row["scale"]) or MISSING

    columns = (
        TableColumn("input", lambda row: row["scale"].label, "prose"),
        TableColumn("median", lambda row: row["scale"].text(0.5), "text"),
        TableColumn("80 % range", lambda row: row["scale"].range_text(), "text"),
        TableColumn("moves the lead by", lambda row: duration_text(row["swing"].size_s)),
        TableColumn("worth knowing", lambda row: duration_text(worth[row["swing"].name].mean)),
        TableColumn("advice by its value", advice, "prose"),
    )
    caption = "Inputs: how much each moves the lead within its range, and what knowing it is worth"
    rows = [{"swing": one, "scale": scales[one.name]} for one in swings]
    return table_of("inputs-table", caption, columns, rows)


def _pictures(
    emulator: Emulator,
    swings: Sequence[Swing],
    scales: Mapping[str, InputScale],
    answer: Answer,
) -> list[PagePicture]:
    """Draw the tornado of inputs with an effect, and the plane of those of the largest swings."""
    first, pictures = answer.advised, []
    moving = [one for one in swings if one.size_s > _LEAST_SWING * swings[0].size_s]
    if moving:
        tornado = draw_tornado(moving, scales, first)
        pictures.append(embed(f"The lead of {first}, by inputs", tornado))
    # The axes of the plane are logarithmic.
    axes = [
        one.name for one in swings if 0.0 < scales[one.name].values[0] < scales[one.name].values[-1]
    ][:2]
    if len(axes) == 2:
        of_schemes = [look_of(choice.scheme).colour for choice in answer.choices]
        # Standbys have no colours of their own.
        known = cycle(OKABE_ITO) if answer.situation.fleet else of_schemes
        colours = dict(zip(emulator.candidates, known, strict=False))
        plane = draw_plane(emulator, scales, axes, colours)
        pictures.append(embed("The candidate that is expected to train soonest", plane))
    return pictures


def _accuracy(emulator: Emulator) -> str:
    """Return how well the emulator predicts simulations that it has not seen."""
    errors = emulator.leave_out()
    worst = max(errors, key=lambda name: np.median(errors[name]))
    median, most = np.quantile(errors[worst], (0.5, 0.95))
    return (
        f"Error of the emulator at a simulation that it has not seen, for {worst}, the least well "
        f"predicted: median {median:.1%} of the time, 95 % of errors below {most:.1%}. A slider "
        "ends where the simulated values end."
    )


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
