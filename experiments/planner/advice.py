"""One sentence: what to take, or that simulation does not tell it from something else."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.experiments.analysis.intervals import Interval
from faultline.experiments.figures.palette import look_of
from faultline.experiments.job.choices import Choice
from faultline.experiments.planner.plan import Line, Plan
from faultline.experiments.planner.verification import HOPELESS, INDIFFERENCE, change_of


@dataclass(frozen=True, slots=True)
class Lead:
    """How the choice that is taken compares with the soonest of the others.

    Attributes
    ----------
    rival : Line
        The other one.
    change : Interval or None
        Fraction by which ours takes longer, below zero where it is sooner done; None where the
        rival did not finish.
    """

    rival: Line
    change: Interval | None


@dataclass(frozen=True, slots=True)
class Advice:
    """What to take.

    Attributes
    ----------
    taken : Line or None
        A verified choice that is sooner done than every other scheme and protection, by more than
        chance explains; None where there is no such choice, and so no advice.
    lead : Lead or None
        Over the closest; None where nothing else finished, or nothing is advised.
    undecided : tuple of Line
        Where nothing is advised, the choices that cannot be told apart, the soonest first.
    sentence : str
        All of it in words.
    """

    taken: Line | None
    lead: Lead | None
    undecided: tuple[Line, ...]
    sentence: str


def advise(plan: Plan) -> Advice:
    """Return which choice to take.

    Only choices that were simulated to their end come into question. Each scheme over each
    protection stands for itself; of its redundancies, that which closed forms put first, unless
    another is clearly sooner done.
    """
    finished = _stands(plan)
    if not finished:
        return Advice(None, None, (), _nothing(plan))
    soonest, *others = finished
    undecided = [line for line in others if not _is_clearly_sooner(soonest, line)]
    if undecided:
        return Advice(None, None, (soonest, *undecided), _undecided_sentence(soonest, undecided))
    lead = _lead(plan, soonest, others)
    return Advice(soonest, lead, (), _sentence(plan, soonest, lead))


def _stands(plan: Plan) -> list[Line]:
    """Return what stands for each scheme and protection, the soonest first."""
    standing: dict[tuple[str, str], Line] = {}
    finished = [line for line in plan.lines if line.finished]
    for line in sorted(finished, key=lambda line: not line.is_best):
        key = line.choice.scheme, line.choice.protection
        if key not in standing or _is_clearly_sooner(line, standing[key]):
            standing[key] = line
    return sorted(standing.values(), key=lambda line: line.ratio)


def _is_clearly_sooner(one: Line, other: Line) -> bool:
    assert one.simulated is not None
    assert other.simulated is not None
    return change_of(one.simulated, other.simulated).is_below_zero


def _lead(plan: Plan, taken: Line, others: list[Line]) -> Lead | None:
    assert taken.simulated is not None
    if others:
        rival = others[0]
        assert rival.simulated is not None
        return Lead(rival, change_of(taken.simulated, rival.simulated))
    stopped = [line for line in plan.lines if line.simulated is not None and line.is_best]
    return next((Lead(line, None) for line in stopped if not line.finished), None)


def _nothing(plan: Plan) -> str:
    if not plan.lines:
        return "No scheme would finish this job."
    if any(line.simulated is not None for line in plan.lines):
        return "No advice: no simulated job came to its end."
    predicted = [line for line in plan.lines if line.choice.is_prediction]
    first = f"; closed forms alone put {choice_text(predicted[0])} first" if predicted else ""
    return f"No advice: nothing was verified by simulation{first}."


def _sentence(plan: Plan, taken: Line, lead: Lead | None) -> str:
    assert taken.simulated is not None
    start = f"Take {choice_text(taken)}: {plan.situation.days(taken.ratio):,.1f} days"
    if lead is None:
        return f"{start}. Nothing else finishes, or was asked for."
    rival = stands_for(lead.rival.choice)
    if lead.change is None:
        return f"{start}. Nothing else finished in simulation within {HOPELESS:g} times that."
    return (
        f"{start}, {-lead.change.mean:.1%} less than the next best, {rival} (95 % interval "
        f"{-lead.change.high:.1%} to {-lead.change.low:.1%}, "
        f"{len(taken.simulated.ratios)} paired seeds)."
    )


def _undecided_sentence(soonest: Line, undecided: list[Line]) -> str:
    assert soonest.simulated is not None
    seeds = len(soonest.simulated.ratios)
    names = ", ".join(stands_for(line.choice) for line in (soonest, *undecided))
    if seeds == 1:
        return f"No advice: by one seed {names} cannot be told apart; use more --seeds."
    changes = [change_of(line.simulated, soonest.simulated) for line in undecided if line.simulated]
    if all(max(-change.low, change.high) <= INDIFFERENCE for change in changes):
        return f"No advice is needed between {names}: within {INDIFFERENCE:.1%} they take as long."
    return (
        f"No advice: {names} differ by less than {seeds} paired seeds can tell (their order in the "
        "table is chance); whatever else was played takes longer. More --seeds may tell."
    )


def choice_text(line: Line) -> str:
    """Return a choice in words."""
    choice = line.choice
    return f"{stands_for(choice)} with r = {choice.redundancy} and {_interval_text(choice)}"


def _interval_text(choice: Choice) -> str:
    if choice.question.scenario.checkpoint.policy == "dynamic":
        return "checkpoints by the dynamic policy"
    every = choice.question.protected.kept_every_steps(choice.question.interval_steps)
    steps = "step" if every == 1 else f"{every:,} steps"
    if choice.question.protected.snapshot_interval_steps:
        return f"a snapshot every {steps}"
    if choice.question.protected.protection.peers is not None:
        return "a checkpoint after a failure"
    return f"a checkpoint every {steps}"


def stands_for(choice: Choice) -> str:
    """Return a choice's scheme and protection in words."""
    return pair_name(choice.scheme, choice.protection)


def pair_name(scheme: str, protection: str | None) -> str:
    """Return what a scheme over a protection is called; storage goes without saying."""
    usual = protection is None or protection == "storage"
    return scheme_name(scheme) if usual else f"{scheme_name(scheme)} over {protection}"


def scheme_name(scheme: str) -> str:
    """Return what a scheme is called in text."""
    return look_of(scheme).label
