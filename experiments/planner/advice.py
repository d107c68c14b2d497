"""One sentence: which scheme to take, and whether its lead is clear of chance."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

from experiments.figure_style import scheme_looks
from experiments.planner.pairs import Interval, paired_change
from experiments.planner.plan import Line, Plan


@dataclass(frozen=True, slots=True)
class Lead:
    """How one choice compares with the best of another scheme.

    Attributes
    ----------
    rival : Line
        The other one.
    change : Interval
        Fraction by which ours takes longer, below zero where it is sooner done; without an
        interval where it is not verified on both sides.
    is_clear : bool
        Whether chance, or the error of unverified predictions, cannot explain it.
    """

    rival: Line
    change: Interval
    is_clear: bool


@dataclass(frozen=True, slots=True)
class Advice:
    """What to take; `lead` is that over the closest rival, None where there is no other scheme."""

    taken: Line
    lead: Lead | None
    sentence: str


def advise(plan: Plan) -> Advice | None:
    """Return which choice to take; None if no scheme would finish the job."""
    if not plan.lines:
        return None
    bests = [line for line in plan.lines if line.is_best_of_scheme]
    taken = _best_of_its_scheme(plan, min(bests, key=_expected_ratio))
    rivals = [line for line in bests if line.choice.scheme != taken.choice.scheme]
    lead = _lead(plan, taken, min(rivals, key=_expected_ratio)) if rivals else None
    return Advice(taken, lead, _sentence(plan, taken, lead))


def _expected_ratio(line: Line) -> float:
    if line.simulated is None:
        return line.choice.ratio
    return sum(line.simulated.ratios) / len(line.simulated.ratios)


def _best_of_its_scheme(plan: Plan, best: Line) -> Line:
    """Of choices of one scheme, prefer what closed forms do, unless another is clearly sooner."""
    for line in plan.lines:
        if line.choice.scheme != best.choice.scheme or line.simulated is None:
            continue
        if best.simulated is None:
            continue
        if paired_change(line.simulated.ratios, best.simulated.ratios).is_below_zero:
            best = line
    return best


def _lead(plan: Plan, taken: Line, rival: Line) -> Lead:
    if taken.simulated is not None and rival.simulated is not None:
        change = paired_change(taken.simulated.ratios, rival.simulated.ratios)
        never = all(ratio == inf for ratio in rival.simulated.ratios)
        finished = all(map(isfinite, taken.simulated.ratios))
        return Lead(rival, change, change.is_below_zero or (never and finished))
    fraction = _expected_ratio(taken) / _expected_ratio(rival) - 1.0
    off = plan.largest_error()
    # Both may be off at once, in opposite directions.
    is_clear = off is not None and not rival.choice.rough and (1 + off) ** 2 * (1 + fraction) < 1
    return Lead(rival, Interval(fraction, float("nan"), float("nan")), is_clear)


def _sentence(plan: Plan, taken: Line, lead: Lead | None) -> str:
    start = f"Take {choice_text(taken)}"
    if lead is None:
        others = ", ".join(scheme_name(scheme.scheme) for scheme in plan.untrained)
        alone = f"the only one that finishes; not so {others}" if others else "nothing else asked"
        return f"{start} ({alone})."
    if taken.simulated is not None and lead.rival.simulated is not None:
        return _verified_sentence(plan, start, lead)
    sooner = _sooner(lead)
    if plan.largest_error() is None:
        return f"{start}: {sooner} by closed forms alone, not verified by simulation."
    grounds = "more than" if lead.is_clear else "no more than"
    return f"{start}: {sooner}, which is {grounds} the error of the predictions can explain."


def _verified_sentence(plan: Plan, start: str, lead: Lead) -> str:
    if lead.change.low <= lead.change.high:
        grounds = (
            f"(95 % interval {-lead.change.high:.1%} to {-lead.change.low:.1%}, "
            f"{len(plan.seeds)} paired seeds)"
        )
        if lead.is_clear:
            return f"{start}: {_sooner(lead)}, clear of chance {grounds}."
        return f"{start}, but its lead is not clear of chance: {_sooner(lead)} {grounds}."
    if lead.is_clear:
        return f"{start}: {_rival(lead)} did not finish a step in any simulation."
    return f"{start}: {_sooner(lead)} in simulation; one seed cannot tell a lead from chance."


def _rival(lead: Lead) -> str:
    return f"{scheme_name(lead.rival.choice.scheme)} at its best"


def _sooner(lead: Lead) -> str:
    return f"{-lead.change.mean:.1%} less time than {_rival(lead)}"


def choice_text(line: Line) -> str:
    """Return a choice in words."""
    choice = line.choice
    steps = "step" if choice.interval_steps == 1 else f"{choice.interval_steps:,} steps"
    interval = f"a checkpoint every {steps}"
    if choice.question.scenario.checkpoint.policy == "dynamic":
        interval = "checkpoints by the dynamic policy"
    return f"{scheme_name(choice.scheme)} with r = {choice.redundancy} and {interval}"


def scheme_name(scheme: str) -> str:
    """Return what a scheme is called in text."""
    return scheme_looks([scheme])[scheme].label
