"""An answer in sentences: what to take, what it may lose, what to measure, what is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultline.experiments.analysis.decision import INDIFFERENCE
from faultline.experiments.analysis.input_scales import scales_of
from faultline.experiments.analysis.quantities import (
    counted,
    duration_text,
    number_text,
    percent_text,
)
from faultline.experiments.analysis.sensitivity import Swing, swings
from faultline.experiments.figures.palette import look_of
from faultline.experiments.planner.answer import CAP, DECIDING_WORLDS, Answer, Row
from faultline.experiments.planner.choice_texts import pair_name, row_text
from faultline.experiments.planner.race import NO_TIME

_ZONE = percent_text(INDIFFERENCE)
_SMALL_SWING = 0.01
"""An input that swings the lead by less than this share of the time decides nothing."""


def answer_sentences(answer: Answer, found: Sequence[Swing] = ()) -> list[str]:
    """Return the answer in sentences, the advice first.

    Parameters
    ----------
    answer : Answer
        The answer.
    found : sequence of Swing
        The effect of each input, if it was computed.
    """
    if not answer.rows and (not answer.left_out or _is_out_of_time(answer)):
        return [_no_world(answer)]
    if not answer.rows:
        return ["No advice: each scheme is left out, for the reasons below."]
    if not answer.finishes:
        return [f"No advice: no scheme ends within {_cap_text(answer)}."]
    texts = [_take(answer), _loss(answer), _condition(answer), _measure(answer, found)]
    return [*filter(None, texts), _progress(answer)]


def band_text(answer: Answer, row: Row) -> str:
    """Return the 80 % band of a row, without its unit."""
    bands, span = row.judgement.bands, answer.situation.span
    return f"{span(bands.low)} to {span(bands.high)}"


def _likely(row: Row) -> str:
    """Return the probability that a row is the soonest, with half its 95 % interval."""
    best = row.judgement.best
    if best.mean == 0.0:
        return f"under {percent_text(best.high)}"
    if best.mean == 1.0:
        return f"over {percent_text(best.low)}"
    return f"{100 * best.mean:.0f} ± {50 * (best.high - best.low):.0f} %"


def _cap_text(answer: Answer) -> str:
    assert answer.costs is not None
    situation = answer.situation
    return f"{situation.span(answer.costs.cap_s)} {situation.unit}, about {CAP:g} times the soonest"


def _take(answer: Answer) -> str:
    first, job = answer.rows[0], answer.situation
    expected = (
        f"{row_text(first)}: {job.span(first.judgement.bands.mean)} {job.unit} expected (80 % band "
        f"{band_text(answer, first)}), {_likely(first)} likely the soonest"
    )
    text = f"Take {expected}"
    if answer.ties:
        names = _listed([row.name for row in (first, *answer.ties)], "or")
        if all(map(answer.is_settled, answer.ties)):
            why = f"their expected times differ by less than {_ZONE}"
        else:
            why = f"{counted(answer.worlds, 'world')} do not separate them"
        text = f"A tie: take {names}; {why}. The least expected time is that of {expected}"
    rivals = (row for row in answer.rows if row.worlds == answer.worlds)
    likeliest = max(rivals, key=lambda row: row.judgement.best.mean)
    if likeliest.judgement.best.mean > first.judgement.best.mean:
        loss = duration_text(likeliest.judgement.loss_if_wrong or 0.0)
        text += f". Likelier: {likeliest.name}, {_likely(likeliest)}, but {loss} lost if it is not"
    return f"{'' if answer.is_last else 'So far: '}{text}."


def _loss(answer: Answer) -> str:
    first = answer.rows[0].judgement
    if len(answer.rows) == 1:
        if _is_out_of_time(answer):
            return "No other scheme was simulated in time."
        return "No other scheme was requested or would finish."
    if first.loss_if_wrong is None:
        return f"In each of {counted(answer.worlds, 'world')} it is within {_ZONE} of the soonest."
    wrong = 1.0 - first.within.mean
    return (
        f"If that is wrong ({percent_text(wrong)} of worlds, by more than {_ZONE}), it loses "
        f"{duration_text(first.loss_if_wrong)} on average; over all worlds its expected loss is "
        f"{duration_text(first.regret.mean)}."
    )


def _condition(answer: Answer) -> str:
    """Return on what the answer is conditional, if runs of schemes that may lead did not end."""
    leading = (
        row
        for row in answer.rows
        if row is answer.rows[0] or row.judgement.tied or row.judgement.best.mean > 0.0
    )
    if not any(row.endings for row in leading):
        return ""
    return f"Conditional on the cap, {_cap_text(answer)}, at which runs without an end count."


def endings_texts(answer: Answer) -> Iterator[str]:
    """Yield a line for each reason why runs did not end, with the schemes and their worlds."""
    by_reason: dict[str, list[str]] = {}
    for row in answer.rows:
        for reason, worlds in row.endings.most_common():
            text = f"{row.name} ({worlds} of {counted(row.worlds, 'world')})"
            by_reason.setdefault(reason, []).append(text)
    for reason, texts in by_reason.items():
        yield f"{reason}: {_listed(texts)}"


def find_swings(answer: Answer) -> list[Swing]:
    """Return the effect of each input on the lead, the largest first.

    None are found by fewer than 16 worlds, without uncertain inputs, or without a rival.
    """
    costs = answer.costs
    if costs is None or answer.worlds < DECIDING_WORLDS or not answer.keys:
        return []
    if len(costs.candidates) < 2 or not answer.finishes:
        return []
    # Importing the emulator's libraries takes a second.
    from faultline.experiments.analysis.emulator import Emulator

    return swings(Emulator(costs), answer.advised)


def _measure(answer: Answer, found: Sequence[Swing]) -> str:
    """Return which input to measure first, and where the advice turns."""
    if not answer.keys:
        return "All inputs have the values of the scenario: what is unknown of them is left out."
    if not found or answer.costs is None:
        return ""
    first, scales = answer.rows[0].judgement, scales_of(answer.costs.design)
    # An emulator of few worlds may find a turn where none of them has one.
    may_turn = first.loss_if_wrong and found[0].size_s >= _SMALL_SWING * first.bands.mean
    turning = next((one for one in found if one.turns()), None) if may_turn else None
    shown = turning or found[0]
    scale, size = scales[shown.name], duration_text(shown.size_s)
    if turning is None:
        return (
            "Nothing is worth measuring first: no single input changes the advice within its "
            f"range. The lead moves most, by {size}, with the {scale.label} ({scale.range_text()})."
        )
    return (
        f"Measure first: {scale.label} ({scale.range_text()}); it moves the lead by {size}: "
        f"{turning.turns_text(answer.costs.candidates, scale)}."
    )


def first_text(answer: Answer) -> str:
    """Return the order of the schemes by closed forms, before anything is simulated."""
    known, situation = dict[str, float](), answer.situation
    for one in answer.first:
        choice = one.choices[0]
        if choice.predicted_ratio is not None:
            known.setdefault(look_of(choice.scheme).label, choice.predicted_ratio)
    if not known:
        return "No closed form holds for this job: its schemes are simulated."
    order = sorted(known.items(), key=lambda pair: pair[1])
    texts = [f"{name} {situation.span(ratio * situation.ideal_s)}" for name, ratio in order]
    return (
        f"First answer, by closed forms at the stated values, in {situation.unit}: "
        f"{', '.join(texts)}."
    )


def _is_out_of_time(answer: Answer) -> bool:
    return any(each.reason == NO_TIME for each in answer.left_out)


def _no_world(answer: Answer) -> str:
    more = (
        "The time (--within) was over before the first world was simulated: a longer one brings "
        "an answer by simulation."
    )
    return f"{first_text(answer)} {more}" if answer.first else more


def _progress(answer: Answer) -> str:
    """Return how far the answer is, and what more time would bring."""
    worlds, most = answer.worlds, answer.most_worlds
    if answer.is_decided:
        return f"Decided after {counted(worlds, 'world')}: more would hardly change the advice."
    open_ties = [row for row in answer.ties if not answer.is_settled(row)]
    gains = [-answer.lead_over(row).low for row in open_ties if row.worlds == worlds]
    gain = max((one for one in gains if one == one), default=0.0)  # noqa: PLR0124 - NaN
    could = f"; a tied scheme may be up to {duration_text(gain)} sooner" if gain > 0 else ""
    if not answer.is_last:
        return f"{worlds} of at most {most} worlds{could}."
    more = "--worlds N with more worlds" if worlds >= most else "a longer --within"
    return f"Not decided after {counted(worlds, 'world')}{could}: {more} may separate them."


_MOST_NAMES = 3


def left_out_texts(answer: Answer, *, explain: bool = True) -> list[str]:
    """Return a line for each reason to leave choices out, with their names.

    Without `explain` a line has a few names, and the number of the others.
    """
    by_reason: dict[str, list[str]] = {}
    for each in answer.left_out:
        name = pair_name(each.scheme, each.protection)
        beside = f" beside {each.beside}" if each.beside else ""
        by_reason.setdefault(each.reason, []).append(f"{name}{beside}")
    for row in answer.rows:
        if row.worlds < answer.worlds:
            why = f"behind after {counted(row.worlds, 'world')}, so no more of it"
            by_reason.setdefault(why, []).append(row.name)
    texts = []
    for why, found in by_reason.items():
        names = list(dict.fromkeys(found))
        more = 0 if explain else len(names) - _MOST_NAMES
        shown = [*names[:_MOST_NAMES], f"{more} more"] if more > 1 else names
        texts.append(f"{_listed(shown)}: {why}")
    if answer.behind:
        texts.append(f"{answer.behind} other set-ups, which closed forms rank behind these")
    return texts


def remarks(answer: Answer) -> list[str]:
    """Return what a short job, or one with few failures, means for its answer."""
    situation = answer.situation
    texts = [situation.fleet] if situation.fleet else []
    failures = situation.ideal_s / situation.mtbf_s
    if failures < 20:
        texts.append(
            f"Only {number_text(failures, 2)} failures are expected in this job: luck may decide "
            "more than the scheme."
        )
    repair_s = situation.repair_s
    if situation.ideal_s < 3 * repair_s:
        late = min(1.0, repair_s / situation.ideal_s)
        texts.append(
            f"The job trains for {duration_text(situation.ideal_s)} and a repair takes "
            f"{duration_text(repair_s)}: up to {percent_text(late)} of the machines that fail do "
            "not come back before its end."
        )
    return texts


def _listed(names: Sequence[str], word: str = "and") -> str:
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))
