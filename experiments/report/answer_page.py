"""The page of a decision: the answer in three sentences, what decides, and sliders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isnan
from typing import Any

import numpy as np
from faultline.experiments.analysis.decision import (
    INDIFFERENCE,
    Information,
    Judgement,
    judge,
    value_of_information,
)
from faultline.experiments.analysis.design import Design, Floats, SimulatedCosts
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.analysis.quantities import fixed, number_text, quantity, time_text
from faultline.experiments.analysis.sensitivity import InputEffect, decisive_effects
from faultline.experiments.figures.decision import (
    InputScale,
    draw_plane,
    draw_tornado,
    positive_inputs,
    scales_of,
)
from faultline.experiments.figures.palette import OKABE_ITO, look_of
from faultline.experiments.report.page import PagePicture, embed, rendered
from faultline.experiments.report.tables import Table, TableColumn, number, percent, table_of, text
from markupsafe import Markup
from numpy.typing import NDArray
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


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What the samples say of candidates and inputs."""

    costs: SimulatedCosts
    judgements: list[Judgement]
    information: list[Information]
    scales: Mapping[str, InputScale]
    emulator: Emulator | None  # None without two candidates and an input.

    def turns(self, name: str) -> str:
        """Return the advice by the values of an input: ``below 527 s: A; above: B``.

        It is that of the page's slider, and empty if the advice is the same at all stops.
        """
        if self.emulator is None:
            return ""
        place, scale = self.costs.design.names.index(name), self.scales[name]
        stops, advised = _stops(self.emulator, place), _advised_at_stops(self.emulator, place)
        unit = quantity(name.partition(" of ")[0]).shown_unit
        texts = []
        for before in np.flatnonzero(advised[1:] != advised[:-1]):
            end = number_text(scale.value(float(stops[before : before + 2].mean())), 3)
            below = self.emulator.candidates[advised[before]]
            texts.append(f"below {' '.join(filter(None, (end, unit)))}: {below}")
        last = f"above: {self.emulator.candidates[advised[-1]]}"
        return "; ".join([*texts, last]) if texts else ""


def _stops(emulator: Emulator, place: int) -> Floats:
    """Return the quantiles of an input at the positions of its slider."""
    low, high = emulator.range[:, place].tolist()
    return np.linspace(low, high, _STOPS)


def _advised_at_stops(emulator: Emulator, place: int) -> NDArray[np.intp]:
    """Return the candidate of the least expected time at each position of an input's slider."""
    others = emulator.unit[:_SAMPLES]
    points = np.tile(others, (_STOPS, 1))
    points[:, place] = _stops(emulator, place).repeat(len(others))
    logs = emulator.log_times(points).reshape(len(emulator.candidates), _STOPS, len(others))
    advised: NDArray[np.intp] = np.exp(logs).mean(axis=2).argmin(axis=0)
    return advised


def answer_page(costs: SimulatedCosts, facts: AnswerFacts) -> str:
    """Return the page as HTML, complete in itself.

    Without two candidates it has neither sliders nor figures.
    """
    found = _found(costs, facts.labels)
    emulator = found.emulator
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
        costs,
        judge(costs),
        value_of_information(costs),
        scales_of(costs.design, names),
        _emulator_of(costs),
    )


@lru_cache(maxsize=1)
def _emulator_of(costs: SimulatedCosts) -> Emulator | None:
    """Return the emulator of costs, fitted once for the screen and the page."""
    return Emulator(costs) if len(costs.candidates) > 1 and costs.design.names else None


def _effects(emulator: Emulator, judgements: Sequence[Judgement]) -> list[InputEffect]:
    """Return total effects on the first's lead, weighted by each rival's probability of being best.

    If no rival is ever the best, those on the lead over the next count.
    """
    chances = {one.candidate: one.best.mean for one in judgements[1:]}
    if not any(chances.values()):
        chances = {judgements[1].candidate: 1.0}
    found: dict[str, InputEffect] = {name: InputEffect(name, 0.0, 0.0) for name in emulator.names}
    by_rival = decisive_effects(emulator, judgements[0].candidate)
    whole = sum(chances.get(rival, 0.0) for rival in by_rival)
    for rival, effects in by_rival.items():
        weight = chances.get(rival, 0.0) / whole if whole else 0.0
        for one in effects:
            before = found[one.name]
            total, error = before.total + weight * one.total, before.error + weight * one.error
            found[one.name] = InputEffect(one.name, total, error)
    return sorted(found.values(), key=lambda one: -one.total)


def _sentences(found: _Found) -> list[str]:
    """Return the answer: what to take and how sure, what it may lose, what to measure."""
    first, *others = found.judgements
    cap = f"{_days(found.costs.cap_s)} days"
    if found.costs.stopped.all():
        return [f"No candidate finishes within {cap}, at which runs are stopped, at any sample."]
    take = [*_take(first, others, found.costs.cap_s), *_stopped(found, cap)]
    if not others:
        return take
    ties = [one.candidate for one in others if one.tied]
    tied = f"; {_listed(ties)} {'ties' if len(ties) == 1 else 'tie'} with it" if ties else ""
    against = f"{others[0].candidate} loses {_regret(others[0])} on average{tied}."
    loss = (
        f"Against the best in hindsight it loses {_regret(first)} on average, and at least "
        f"{time_text(first.regret_95)} with a probability of 5 %; {against}"
    )
    if first.regret.mean == 0.0:
        loss = f"No other candidate is sooner at any sample; {against}"
    return [take[0], loss, *take[1:], _measure(found)]


def _take(first: Judgement, others: Sequence[Judgement], cap_s: float) -> list[str]:
    """Return the first candidate; and the likeliest one, if that is another."""
    bands, least = first.bands, "at least " if first.stopped else ""
    high = f"{'at least ' if bands.high >= cap_s else ''}{_days(bands.high)}"
    chance = (
        f"it is {_chance(first)} likely to train soonest, in {least}{_days(bands.mean)} days "
        f"(80 % band: {_days(bands.low)} to {high})."
    )
    likeliest = max([first, *others], key=lambda one: one.best.mean)
    if likeliest.best.mean == first.best.mean:
        return [f"Take {first.candidate}: {chance}"]
    other = f"{likeliest.candidate} is the likeliest, {_chance(likeliest)}"
    if likeliest.tied:
        return [
            f"Take {first.candidate} or {likeliest.candidate}, which these samples do not "
            f"separate. {first.candidate} has the least expected loss: {chance} {other}."
        ]
    return [
        f"Take {first.candidate} for the least expected loss: {chance} {other}, but loses "
        f"{_regret(likeliest)} on average."
    ]


def _stopped(found: _Found, cap: str) -> list[str]:
    """Return a sentence about candidates whose runs were stopped; none without any."""
    shares = [
        f"{one.candidate} at {_percent(one.stopped)} % of the samples"
        for one in found.judgements
        if one.stopped
    ]
    if not shares:
        return []
    return [f"Stopped at {cap}, so that times and losses are lower bounds: {_listed(shares)}."]


def _measure(found: _Found) -> str:
    """Return which input to measure first, its worth, and where it changes the advice."""
    if not found.information:
        return "No input is uncertain, so that none is to be measured."
    for one in found.information:
        if one.value.low > 0.0 and (turns := found.turns(one.name)):
            worth = time_text(one.value.mean)
            label = found.scales[one.name].label
            return f"Measure first: {label}; to know it is worth {worth} ({turns})."
    first, most = found.judgements[0], found.information[0]
    none = "No single input is surely worth measuring"
    if first.regret.mean == 0.0:
        return f"{none}: no candidate is sooner than {first.candidate} at any sample."
    if most.value.mean == 0.0:
        return f"{none}: at these samples, to know one saves no time."
    label, worth = found.scales[most.name].label, time_text(most.value.mean)
    if most.value.low > 0.0:
        return f"{none}: {label} is worth {worth}, but no value of it changes the advice."
    return f"{none}: the largest worth is {worth}, of {label}, and its 95 % interval reaches zero."


def _chance(one: Judgement) -> str:
    half = (one.best.high - one.best.low) / 2.0
    return f"{_percent(one.best.mean)} ± {_percent(half)} %"


def _percent(share: float, decimals: int = 0) -> str:
    return f"{100.0 * share:.{decimals}f}"


def _days(seconds: float) -> str:
    return number_text(seconds / _DAY_S, 3)


def _regret(one: Judgement) -> str:
    return f"{'at least ' if one.stopped else ''}{time_text(one.regret.mean)}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _bounded(title: str, key: str) -> TableColumn:
    """Return a column of days, with ≥ for candidates whose runs were stopped."""
    return TableColumn(title, lambda row: "≥ " * bool(row["stopped"]) + fixed(row[key] / _DAY_S, 2))


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
            "stopped": one.stopped,
            "remark": remarks.get(one.candidate),
            "first": place == 0,
        }
        for place, one in enumerate(judgements[:_ROWS])
    ]
    columns = [
        text("candidate", "candidate"),
        TableColumn("best", lambda row: row["best"]),
        percent(f"within {_ZONE}", "within"),
        _bounded("days", "time"),
        text("80 % band", "band"),
        text("by inputs", "parameters"),
        text("by luck", "luck"),
        _bounded("regret (days)", "regret"),
        _bounded("95 % regret (days)", "regret_95"),
    ]
    if any(one.stopped for one in judgements):
        columns.append(percent("stopped", "stopped"))
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
    effects: Sequence[InputEffect],
    found: _Found,
    costs: SimulatedCosts,
    facts: AnswerFacts,
) -> list[PagePicture]:
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
    effects: Sequence[InputEffect],
    scales: Mapping[str, InputScale],
    costs: SimulatedCosts,
) -> list[Slider]:
    """Return a slider for each of the inputs of the largest effects."""
    sliders = []
    for one in effects[:_SLIDERS]:
        place, scale = costs.design.names.index(one.name), scales[one.name]
        stops = _stops(emulator, place)
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
