"""The page of an answer: the table and the sentences, what decides, and sliders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from faultline.experiments.analysis.decision import value_of_information
from faultline.experiments.analysis.design import SimulatedCosts
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.analysis.input_scales import InputScale, scales_of
from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.analysis.sensitivity import SAMPLES, STOPS, Swing
from faultline.experiments.figures.decision import draw_plane, draw_tornado, positive_inputs
from faultline.experiments.figures.palette import OKABE_ITO, look_of
from faultline.experiments.report.page import PagePicture, embed, rendered
from faultline.experiments.report.tables import Table, TableColumn, table_of, text
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
    remarks: tuple[str, ...] = ()  # Sentences below the table.
    keys: Table | None = None  # The keys that decide, with the values used.
    # The scheme of each candidate, which gives its colour; by default the candidate's name.
    schemes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slider:
    """An input that the reader may fix."""

    label: str
    place: int  # In the design.
    texts: tuple[str, ...]  # Value at each position.
    scores: tuple[float, ...]  # Normal score of the input's quantile at each position.
    start: int  # Position of the median.


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
    sliders = [_slider(costs, one, scales[one.name]) for one in swings[:_SLIDERS]]
    data = _page_emulator(emulator, costs, sliders) if emulator else None
    return rendered(
        "answer.html",
        ("style.css", "answer.css"),
        ("script.js", "answer.js"),
        facts=facts,
        sliders=sliders,
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
    rows = [
        {
            "input": scales[one.name].label,
            "median": scales[one.name].text(0.5),
            "range": scales[one.name].range_text(),
            "swing": one.size_s,
            "value": worth[one.name].mean,
            "switch": one.turns_text(costs.candidates, scales[one.name]) or None,
        }
        for one in swings
    ]
    columns = (
        text("input", "input", "prose"),
        text("median", "median"),
        text("80 % range", "range"),
        TableColumn("moves the lead by", lambda row: duration_text(row["swing"])),
        TableColumn("worth knowing", lambda row: duration_text(row["value"])),
        text("advice by its value", "switch", "prose"),
    )
    caption = "Inputs: how much each moves the lead within its range, and what knowing it is worth"
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
    axes = positive_inputs([one.name for one in swings], scales)[:2]
    if len(axes) == 2:
        looks = _colours(emulator.candidates, facts.schemes)
        plane = draw_plane(emulator, costs.design, scales, (axes[0], axes[1]), looks)
        pictures.append(embed("The candidate that is expected to train soonest", plane))
    return pictures


def _colours(candidates: Sequence[str], schemes: Mapping[str, str]) -> dict[str, str]:
    """Return the colour of each candidate's scheme, or a free one if another has it already."""
    free = iter([*OKABE_ITO, *OKABE_ITO])
    colours: dict[str, str] = {}
    for name in candidates:
        colour = look_of(schemes.get(name, name)).colour
        while colour in colours.values() and len(colours) < len(OKABE_ITO):
            colour = next(free)
        colours[name] = colour
    return colours


def _slider(costs: SimulatedCosts, swing: Swing, scale: InputScale) -> Slider:
    """Return the slider of an input."""
    place = costs.design.names.index(swing.name)
    texts, scores = map(scale.text, swing.stops.tolist()), ndtri(swing.stops).round(5).tolist()
    return Slider(scale.label, place, tuple(texts), tuple(scores), STOPS // 2)


def _page_emulator(
    emulator: Emulator, costs: SimulatedCosts, sliders: Sequence[Slider]
) -> dict[str, Any]:
    """Return what the page's script needs."""
    return {
        **emulator.to_json(),
        "samples": ndtri(costs.design.unit[:SAMPLES]).round(5).tolist(),
        "scores": {str(slider.place): slider.scores for slider in sliders},
        "texts": {str(slider.place): slider.texts for slider in sliders},
    }


def _accuracy(emulator: Emulator) -> str:
    """Return how well the emulator predicts simulations that it has not seen."""
    errors = emulator.leave_out()
    worst = max(errors, key=lambda name: errors[name].median)
    one = errors[worst]
    return (
        f"Error of the emulator at a simulation that it has not seen, for {worst}, the least well "
        f"predicted: median {one.median:.1%} of the time, 95 % of errors below "
        f"{one.percentile_95:.1%}; its 80 % band contains {one.coverage:.0%} of "
        "the simulations. A slider ends where the simulated values end."
    )
