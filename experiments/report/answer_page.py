"""The page of a decision: the answer in three sentences, what decides, and sliders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan
from pathlib import Path
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
from faultline.experiments.analysis.design import SimulatedCosts
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.analysis.quantities import number_text, quantity, time_text
from faultline.experiments.analysis.sensitivity import Effect, decisive_effects
from faultline.experiments.figures.decision import (
    InputScale,
    draw_plane,
    positive_inputs,
    scales_of,
)
from faultline.experiments.figures.palette import OKABE_ITO, look_of
from faultline.experiments.report.page import Picture, embed, rendered
from faultline.experiments.report.tables import Column, Table, number, percent, table_of, text
from faultline.platforms.files import write_file
from markupsafe import Markup
from scipy.special import ndtri

_DAY_S = 86_400.0
_SLIDERS = 8
_STOPS = 41  # Positions of a slider.
_SAMPLES = 128  # Samples that the page averages over.
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
    """What the page shows besides the costs.

    Attributes
    ----------
    title, question
        Of the page; a line each.
    job
        Lines about the job.
    assumptions
        A sentence each.
    command, version
        How the page was made, and by which Faultline.
    labels
        Labels of inputs with their units; by default those of the keys.
    schemes
        The scheme of each candidate, which gives its colour; by default the candidate's name.
    remarks
        Remarks on candidates, such as their GPU-hours and whether they fit the memory.
    """

    title: str
    question: str
    job: tuple[str, ...]
    assumptions: tuple[str, ...]
    command: str
    version: str
    labels: Mapping[str, str] = field(default_factory=dict)
    schemes: Mapping[str, str] = field(default_factory=dict)
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
    """All that is computed for the page; effects are empty if nothing has a rival."""

    judgements: list[Judgement]
    information: list[Information]
    switches: list[SwitchPoint]
    scales: Mapping[str, InputScale]
    emulator: Emulator | None
    effects: list[Effect]


def write_answer_page(costs: SimulatedCosts, facts: AnswerFacts, path: Path) -> None:
    """Write the page of a decision to a file.

    Parameters
    ----------
    costs : SimulatedCosts
        Times to train of at least one candidate.
    facts : AnswerFacts
        What else the page shows.
    path : Path
        The file.
    """
    write_file(path, answer_page(costs, facts))


def answer_page(costs: SimulatedCosts, facts: AnswerFacts) -> str:
    """Return the page as HTML, complete in itself.

    Without two candidates that finish in each sample it has neither sliders nor figures.
    """
    found = _found(costs, facts)
    sliders = _sliders(found, costs)
    accuracy = _accuracy(found.emulator) if found.emulator else ""
    return rendered(
        "answer.html",
        ("style.css", "answer.css"),
        ("script.js", "answer.js"),
        facts=facts,
        sentences=answer_sentences(
            found.judgements, found.information, found.switches, found.scales
        ),
        ranking=_ranking_table(found.judgements, facts.remarks),
        meaning=_MEANING,
        sliders=sliders,
        accuracy=accuracy,
        picture=_plane(costs, found, facts),
        inputs=_inputs_table(found),
        # A closing tag within the data would end the element.
        emulator=Markup(json.dumps(_page_emulator(found, costs, sliders)).replace("<", r"\u003c")),
    )


def answer_texts(
    costs: SimulatedCosts, labels: Mapping[str, str], remarks: Mapping[str, str]
) -> tuple[list[str], Table]:
    """Return the sentences and the ranking of the page, for a screen.

    Parameters
    ----------
    costs : SimulatedCosts
        Times to train of at least one candidate.
    labels, remarks
        As in `AnswerFacts`.
    """
    judgements, scales = judge(costs), scales_of(costs.design, _labels(costs, labels))
    sentences = answer_sentences(
        judgements, value_of_information(costs), switch_points(costs), scales
    )
    return sentences, _ranking_table(judgements, remarks)


def _labels(costs: SimulatedCosts, labels: Mapping[str, str]) -> dict[str, str]:
    return {name: labels.get(name) or quantity(name).with_unit for name in costs.design.names}


def _found(costs: SimulatedCosts, facts: AnswerFacts) -> _Found:
    labels = _labels(costs, facts.labels)
    judgements = judge(costs)
    usable = finishing(costs)
    emulator = Emulator(costs) if len(usable.candidates) > 1 and labels else None
    effects = _effects(emulator, judgements) if emulator else []
    return _Found(
        judgements,
        value_of_information(costs),
        switch_points(costs),
        scales_of(costs.design, labels),
        emulator,
        effects,
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


def answer_sentences(
    judgements: Sequence[Judgement],
    information: Sequence[Information],
    switches: Sequence[SwitchPoint],
    scales: Mapping[str, InputScale],
) -> list[str]:
    """Return the answer: what to take and how sure, what an error costs, what to measure."""
    first, *others = judgements
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
    return [take, loss, _measure(information, switches, scales)]


def _measure(
    information: Sequence[Information],
    switches: Sequence[SwitchPoint],
    scales: Mapping[str, InputScale],
) -> str:
    """Return which input to measure first, its worth, and where it changes the advice."""
    worth = next((one for one in information if one.value.low > 0.0), None)
    if worth is None:
        return "To measure any single input is not worth a time that these samples show."
    label = scales[worth.name].label
    text = f"Measure first: {label}; to know it is worth {time_text(worth.value.mean)}"
    turns = [one for one in switches if one.name == worth.name]
    changes = [f"below {number_text(one.value, 3)} {one.below}, above {one.above}" for one in turns]
    return f"{text}{' (' + '; '.join(changes) + ')' if changes else ''}."


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


def _inputs_table(found: _Found) -> Table:
    effects = {one.name: one for one in found.effects}
    # Those that decide most, by the worth of knowing them and then by their effect.
    order = sorted(
        found.information,
        key=lambda one: (-max(0.0, one.value.low), -_total(effects, one.name)),
    )
    rows = [
        {
            "input": found.scales[one.name].label,
            "range": " to ".join(found.scales[one.name].text(unit) for unit in (0.1, 0.9)),
            "effect": _total(effects, one.name) if effects else None,
            "value": one.value.mean,
            "error": (one.value.high - one.value.low) / 2.0,
            "switch": _switch_text(found.switches, one.name),
        }
        for one in order[:_ROWS]
    ]
    columns = (
        text("input", "input", "prose"),
        text("80 % range", "range"),
        percent("total effect", "effect"),
        number("worth knowing (h)", "value", 1, 1 / 3600),
        number("± (h)", "error", 1, 1 / 3600),
        text("changes the advice at", "switch", "prose"),
    )
    caption = (
        "Inputs: their total effect on the lead over the rivals, and what knowing each is worth"
    )
    return table_of("inputs-table", caption, columns, rows)


def _total(effects: Mapping[str, Effect], name: str) -> float:
    return effects[name].total if name in effects else 0.0


def _switch_text(switches: Sequence[SwitchPoint], name: str) -> str | None:
    turns = [one for one in switches if one.name == name]
    if not turns:
        return None
    return "; ".join(f"{number_text(one.value, 3)}: {one.below} | {one.above}" for one in turns)


def _plane(costs: SimulatedCosts, found: _Found, facts: AnswerFacts) -> Picture | None:
    """Draw the plane of the two inputs of the largest effects, if there are two."""
    axes = positive_inputs([one.name for one in found.effects], found.scales)[:2]
    if found.emulator is None or len(axes) < 2:
        return None
    looks = _colours(found.emulator.candidates, facts.schemes)
    plane = draw_plane(found.emulator, costs.design, found.scales, (axes[0], axes[1]), looks)
    return embed("Which candidate is expected to train soonest?", plane)


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


def _sliders(found: _Found, costs: SimulatedCosts) -> list[Slider]:
    """Return a slider for each of the inputs of the largest effects."""
    if found.emulator is None:
        return []
    sliders = []
    for one in found.effects[:_SLIDERS]:
        place, scale = costs.design.names.index(one.name), found.scales[one.name]
        low, high = found.emulator.range[:, place].tolist()
        stops = np.linspace(low, high, _STOPS)
        texts, scores = map(scale.text, stops.tolist()), ndtri(stops).round(5).tolist()
        sliders.append(Slider(scale.label, place, tuple(texts), tuple(scores), _STOPS // 2))
    return sliders


def _page_emulator(
    found: _Found, costs: SimulatedCosts, sliders: Sequence[Slider]
) -> dict[str, Any] | None:
    """Return what the page's script needs, or None without an emulator."""
    if found.emulator is None:
        return None
    return {
        **found.emulator.to_json(),
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
