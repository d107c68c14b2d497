"""The page of a decision: the answer in three sentences, what decides, and sliders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, isnan
from typing import Any

import numpy as np
from faultline.experiments.analysis.decision import (
    INDIFFERENCE,
    Information,
    Judgement,
    SwitchPoint,
    finishing,
    judge,
    switch_points,
    value_of_information,
)
from faultline.experiments.analysis.design import Design, SimulatedCosts
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.analysis.quantities import number_text, quantity, time_text
from faultline.experiments.analysis.sensitivity import Effect, decisive_effects
from faultline.experiments.figures.decision import (
    InputScale,
    draw_plane,
    draw_tornado,
    positive_inputs,
    scales_of,
)
from faultline.experiments.figures.palette import OKABE_ITO, look_of
from faultline.experiments.report.page import Picture, embed, rendered
from faultline.experiments.report.tables import Column, Table, number, percent, table_of, text
from markupsafe import Markup
from scipy.special import ndtri

_DAY_S = 86_400.0
_SLIDERS = 8
_STOPS = 41  # Positions of a slider.
_SAMPLES = 128  # Samples that the page averages over.
_LEAST_EFFECT = 5e-4  # A smaller total effect is written as 0.0 %.
_ROWS = 12  # Rows of each table: the page is printed on two sheets.
_ZONE = f"{100 * INDIFFERENCE:g} %"
_MEANING = (
    "Best: it has the least expected time at a sample of the unknown inputs, ± half the 95 % "
    f"interval. Within {_ZONE}: its time is at most that much longer than the least. "
    "Band: 80 % of runs. Inputs and luck: 80 % of expected times, and 80 % of a run's differences "
    "from its expected time. Regret: time lost against the best in hindsight. A tie is not "
    f"separated from the first by these samples, or by {_ZONE} of its time."
)


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What the page shows besides the costs."""

    title: str
    question: str
    job: tuple[str, ...]  # Lines about the job.
    assumptions: tuple[str, ...]  # A sentence each.
    command: str  # It made the page.
    version: str  # Of Faultline.
    # Labels of inputs with their units; by default those of the keys.
    labels: Mapping[str, str] = field(default_factory=dict)
    # The scheme of each candidate, which gives its colour; by default the candidate's name.
    schemes: Mapping[str, str] = field(default_factory=dict)
    # Remarks on candidates, such as their GPU-hours and whether they fit the memory.
    remarks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slider:
    """An input that the reader may fix."""

    label: str
    place: int  # In the design.
    texts: tuple[str, ...]  # Value at each position.
    scores: tuple[float, ...]  # Normal score of the input's quantile at each position.
    start: int  # Position of the median.


@dataclass(frozen=True, slots=True)
class _Found:
    """What the samples say of candidates and inputs."""

    judgements: list[Judgement]
    information: list[Information]
    switches: list[SwitchPoint]
    scales: Mapping[str, InputScale]

    def turns(self, name: str) -> str:
        """Return the advice by the values of an input: ``below 527 s: A; above: B``.

        It is empty if the advice is the same at all values.
        """
        points = [one for one in self.switches if one.name == name]
        unit = quantity(name.partition(" of ")[0]).shown_unit
        ends = [" ".join(filter(None, (number_text(one.value, 3), unit))) for one in points]
        texts = [f"below {end}: {one.below}" for end, one in zip(ends, points, strict=True)]
        return "; ".join([*texts, *(f"above: {one.above}" for one in points[-1:])])


def answer_page(costs: SimulatedCosts, facts: AnswerFacts) -> str:
    """Return the page as HTML, complete in itself.

    Without two candidates that finish in each sample it has neither sliders nor figures.
    """
    found = _found(costs, facts.labels)
    rivals = len(finishing(costs).candidates) > 1 and costs.design.names
    emulator = Emulator(costs) if rivals else None
    effects = _effects(emulator, found.judgements) if emulator else []
    sliders = _sliders(emulator, effects, found.scales, costs) if emulator else []
    data = _page_emulator(emulator, costs, sliders) if emulator else None
    totals = {one.name: one.total for one in effects}
    decides = any(totals.values()) or any(one.value.mean for one in found.information)
    return rendered(
        "answer.html",
        ("style.css", "answer.css"),
        ("script.js", "answer.js"),
        facts=facts,
        sentences=_sentences(found),
        ranking=_ranking_table(found.judgements, facts.remarks),
        meaning=_MEANING,
        sliders=sliders,
        accuracy=_accuracy(emulator) if emulator else "",
        pictures=_pictures(emulator, effects, found, costs, facts) if emulator else [],
        inputs=_inputs_table(found, totals) if decides else None,
        # A closing tag within the data would end the element.
        emulator=Markup(json.dumps(data).replace("<", r"\u003c")),
    )


def answer_texts(
    costs: SimulatedCosts, labels: Mapping[str, str], remarks: Mapping[str, str]
) -> tuple[list[str], Table]:
    """Return the sentences and the ranking of the page, for a screen."""
    found = _found(costs, labels)
    return _sentences(found), _ranking_table(found.judgements, remarks)


def _found(costs: SimulatedCosts, labels: Mapping[str, str]) -> _Found:
    names = {name: labels.get(name) or quantity(name).with_unit for name in costs.design.names}
    return _Found(
        judge(costs),
        value_of_information(costs),
        switch_points(costs),
        scales_of(costs.design, names),
    )


def _effects(emulator: Emulator, judgements: Sequence[Judgement]) -> list[Effect]:
    """Return total effects on the first's lead, weighted by each rival's probability of being best.

    If no rival is ever the best, those on the lead over the next count.
    """
    chances = {one.candidate: one.best.mean for one in judgements[1:]}
    if not any(chances.values()):
        chances = {judgements[1].candidate: 1.0}
    found: dict[str, Effect] = {name: Effect(name, 0.0, 0.0) for name in emulator.names}
    by_rival = decisive_effects(emulator, judgements[0].candidate)
    whole = sum(chances.get(rival, 0.0) for rival in by_rival)
    for rival, effects in by_rival.items():
        weight = chances.get(rival, 0.0) / whole if whole else 0.0
        for one in effects:
            before = found[one.name]
            total, error = before.total + weight * one.total, before.error + weight * one.error
            found[one.name] = Effect(one.name, total, error)
    return sorted(found.values(), key=lambda one: -one.total)


def _sentences(found: _Found) -> list[str]:
    """Return the answer: what to take and how sure, what an error costs, what to measure."""
    first, *others = found.judgements
    if not isfinite(first.bands.mean):
        return [
            f"No candidate finishes in each sample; {first.candidate} fails to in the fewest, "
            f"{_percent(first.unfinished)} %."
        ]
    take = (
        f"Take {first.candidate}: it is {_chance(first)} likely to train "
        f"soonest, in {_days(first.bands.mean)} days (80 % band: {_days(first.bands.low)} to "
        f"{_days(first.bands.high)})."
    )
    if not others:
        return [take]
    ties = [one.candidate for one in others if one.tied]
    tied = f"; {_listed(ties)} {'ties' if len(ties) == 1 else 'tie'} with it" if ties else ""
    against = f"{_regret(others[0])} on average for {others[0].candidate}{tied}."
    loss = (
        f"If that is wrong, it loses {time_text(first.regret.mean)} on average and "
        f"at least {time_text(first.regret_95)} with a probability of 5 %, against {against}"
    )
    if first.regret.mean == 0.0:
        loss = f"It is the soonest at every sample; the loss is {against}"
    return [take, loss, _measure(found)]


def _measure(found: _Found) -> str:
    """Return which input to measure first, its worth, and where it changes the advice."""
    worth = next((one for one in found.information if one.value.low > 0.0), None)
    if worth is None:
        return "No single input is worth measuring: in these samples, knowing it saves no time."
    label, turns = found.scales[worth.name].label, found.turns(worth.name)
    text = f"Measure first: {label}; to know it is worth {time_text(worth.value.mean)}"
    return f"{text} ({turns})." if turns else f"{text}."


def _chance(one: Judgement) -> str:
    half = (one.best.high - one.best.low) / 2.0
    return f"{_percent(one.best.mean)} ± {_percent(half)} %"


def _percent(share: float, decimals: int = 0) -> str:
    return f"{100.0 * share:.{decimals}f}"


def _days(seconds: float) -> str:
    return number_text(seconds / _DAY_S, 3)


def _regret(one: Judgement) -> str:
    return time_text(one.regret.mean) if isfinite(one.regret.mean) else "a job without an end"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _ranking_table(judgements: Sequence[Judgement], remarks: Mapping[str, str]) -> Table:
    rows = [
        {
            "candidate": one.candidate + (" (tie)" if one.tied and place else ""),
            "best": _chance(one),
            "within": one.within.mean,
            "time": one.bands.mean,
            "band": f"{_days(one.bands.low)} to {_days(one.bands.high)}",
            "parameters": _span(one.bands.parameters),
            "luck": _span(one.bands.luck),
            "regret": one.regret.mean,
            "regret_95": one.regret_95,
            "unfinished": one.unfinished,
            "remark": remarks.get(one.candidate),
            "first": place == 0,
        }
        for place, one in enumerate(judgements[:_ROWS])
    ]
    columns = [
        text("candidate", "candidate"),
        Column("best", lambda row: row["best"]),
        percent(f"within {_ZONE}", "within"),
        number("days", "time", 2, 1 / _DAY_S),
        text("80 % band", "band"),
        text("by inputs", "parameters"),
        text("by luck", "luck"),
        number("regret (days)", "regret", 2, 1 / _DAY_S),
        number("95 % regret (days)", "regret_95", 2, 1 / _DAY_S),
    ]
    if any(one.unfinished for one in judgements):
        columns.append(percent("does not finish", "unfinished"))
    if remarks:
        columns.append(text("set-up", "remark", "prose"))
    more = len(judgements) - len(rows)
    caption = "Candidates by expected regret" + (f"; {more} more are worse" if more else "")
    return table_of("ranking-table", caption, columns, rows, lambda row: bool(row["first"]))


def _span(ends: tuple[float, float]) -> str:
    return "unknown" if isnan(ends[0]) else f"{_days(ends[0])} to {_days(ends[1])}"


def _inputs_table(found: _Found, effects: Mapping[str, float]) -> Table:
    """Return the inputs that decide most, by the worth of knowing them, then by total effect."""
    order = sorted(
        found.information,
        key=lambda one: (-max(0.0, one.value.low), -effects.get(one.name, 0.0)),
    )
    rows = [
        {
            "input": found.scales[one.name].label,
            "range": " to ".join(found.scales[one.name].text(unit) for unit in (0.1, 0.9)),
            "effect": effects.get(one.name),
            "value": one.value.mean,
            "error": (one.value.high - one.value.low) / 2.0,
            "switch": found.turns(one.name) or None,
        }
        for one in order[:_ROWS]
    ]
    columns = (
        text("input", "input", "prose"),
        text("80 % range", "range"),
        percent("total effect", "effect"),
        number("worth knowing (h)", "value", 1, 1 / 3600),
        number("± (h)", "error", 1, 1 / 3600),
        text("advice by its value", "switch", "prose"),
    )
    caption = (
        "Inputs: their total effect on the lead over the rivals, and what knowing each is worth"
    )
    return table_of("inputs-table", caption, columns, rows)


def _pictures(
    emulator: Emulator,
    effects: Sequence[Effect],
    found: _Found,
    costs: SimulatedCosts,
    facts: AnswerFacts,
) -> list[Picture]:
    """Draw the tornado of inputs with an effect, and the plane of those of the largest effects."""
    first = found.judgements[0].candidate
    pictures = []
    moving = [costs.design.names.index(one.name) for one in effects if one.total >= _LEAST_EFFECT]
    if moving:
        names = tuple(costs.design.names[place] for place in moving)
        design = Design(names, costs.design.unit[:, moving], costs.design.values[:, moving])
        tornado = draw_tornado(replace(costs, design=design), found.scales, first)
        pictures.append(embed(f"What moves the lead of {first}", tornado))
    axes = positive_inputs([one.name for one in effects], found.scales)[:2]
    if len(axes) == 2:
        looks = _colours(emulator.candidates, facts.schemes)
        plane = draw_plane(emulator, costs.design, found.scales, (axes[0], axes[1]), looks)
        pictures.append(embed("Which candidate is expected to train soonest?", plane))
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


def _sliders(
    emulator: Emulator,
    effects: Sequence[Effect],
    scales: Mapping[str, InputScale],
    costs: SimulatedCosts,
) -> list[Slider]:
    """Return a slider for each of the inputs of the largest effects."""
    sliders = []
    for one in effects[:_SLIDERS]:
        place, scale = costs.design.names.index(one.name), scales[one.name]
        low, high = emulator.range[:, place].tolist()
        stops = np.linspace(low, high, _STOPS)
        texts, scores = map(scale.text, stops.tolist()), ndtri(stops).round(5).tolist()
        sliders.append(Slider(scale.label, place, tuple(texts), tuple(scores), _STOPS // 2))
    return sliders


def _page_emulator(
    emulator: Emulator, costs: SimulatedCosts, sliders: Sequence[Slider]
) -> dict[str, Any]:
    """Return what the page's script needs."""
    return {
        **emulator.to_json(),
        "samples": ndtri(costs.design.unit[:_SAMPLES]).round(5).tolist(),
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
        f"predicted: median {_percent(one.median, 1)} % of the time, 95 % of errors below "
        f"{_percent(one.percentile_95, 1)} %; its 80 % band contains {_percent(one.coverage)} % of "
        "the simulations. A slider ends where the simulated values end."
    )
