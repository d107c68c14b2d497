"""The page of an answer: the table and the sentences, what decides, and sliders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from faultline.experiments.analysis.decision import value_of_information
from faultline.experiments.analysis.design import SimulatedCosts
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.analysis.input_scales import InputScale, scales_of
from faultline.experiments.analysis.quantities import MISSING, duration_text
from faultline.experiments.analysis.sensitivity import SAMPLES, STOPS, Swing
from faultline.experiments.figures.decision import draw_plane, draw_tornado
from faultline.experiments.figures.palette import look_of
from faultline.experiments.report.page import PagePicture, embed, rendered
from faultline.experiments.report.tables import Mapped, Table, TableColumn, table_of
from markupsafe import Markup
from scipy.special import ndtri

_SLIDERS = 8
_LEAST_SWING = 1e-3
"""Inputs that move the lead by less than this share of the largest swing are not drawn."""


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What the page shows besides the costs."""

    title: str
    job: tuple[str, ...]  # Lines about the job.
    sentences: tuple[str, ...]  # The answer, as the terminal prints it.
    ranking: Table  # The same table as on the terminal.
    assumptions: tuple[str, ...]  # A sentence each.
    command: str  # It made the page.
    version: str  # Of Faultline.
    schemes: Mapping[str, str]  # The scheme of each candidate, which gives its colour.
    remarks: tuple[str, ...] = ()  # Sentences below the table.
    keys: Table | None = None  # The keys that decide, with the values used.


def answer_page(costs: SimulatedCosts, facts: AnswerFacts, swings: Sequence[Swing]) -> str:
    """Return the page as HTML, complete in itself.

    Without swings (no two candidates, or no input) it has neither sliders nor figures.

    Parameters
    ----------
    costs : SimulatedCosts
        Times to train of the candidates that were simulated in all worlds.
    facts : AnswerFacts
        What else the page shows.
    swings : sequence of Swing
        The effect of each input, the largest first.
    """
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
        facts=facts,
        sliders=sliders,
        stops=STOPS,
        accuracy=_accuracy(emulator) if emulator else "",
        pictures=_pictures(emulator, swings, scales, costs, facts) if emulator else [],
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
    costs: SimulatedCosts,
    facts: AnswerFacts,
) -> list[PagePicture]:
    """Draw the tornado of inputs with an effect, and the plane of those of the largest swings."""
    first = costs.candidates[int(costs.costs.mean(axis=(1, 2)).argmin())]
    pictures = []
    moving = [one for one in swings if one.size_s > _LEAST_SWING * swings[0].size_s]
    if moving:
        tornado = draw_tornado(moving, scales, first)
        pictures.append(embed(f"The lead of {first}, by inputs", tornado))
    # The axes of the plane are logarithmic.
    axes = [
        one.name for one in swings if 0.0 < scales[one.name].values[0] < scales[one.name].values[-1]
    ][:2]
    if len(axes) == 2:
        colours = {name: look_of(scheme).colour for name, scheme in facts.schemes.items()}
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
