"""A plan: each scheme over each protection at its best by closed forms, verified by simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

from faultline.experiments.analysis.intervals import (
    Interval,
    factors_to_all_seeds,
    interval_of,
)
from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.tables.job import HUNDRED_YEARS_S
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.durations import standbys_of
from faultline.experiments.planner.situation import DAY_S, Situation, choices_of
from faultline.experiments.planner.verification import Simulated, steps_needed, verify
from faultline.platforms.errors import PlatformError
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.plugins.registry import all_protections, all_strategies, strategy_class

_NEEDS_LAYOUT = (
    "needs the layout of a group: set model.pipeline and model.tensor, or name it in --schemes"
)
_NEEDS_STANDBYS = "no machine stands by for it: set recovery.hardware=standby and recovery.standbys"
_MOST_REFUSED = 0.5
"""A scheme is left out if a larger share of its recoveries does not fit into GPU memory."""


@dataclass(frozen=True, slots=True)
class Line:
    """A choice and, if it was verified, its simulated result."""

    choice: Choice  # By closed forms.
    simulated: Simulated | None  # By simulation.
    # Whether closed forms rank it first among the redundancies of its scheme, protection and moment
    # of return; or whether it is the least redundancy of groups that return before a restart.
    is_best: bool
    # Scales a result with fewer seeds than others to the seeds of all.
    factor: float = 1.0

    @property
    def finished(self) -> bool:
        """Whether it finished in simulation with every seed."""
        return self.simulated is not None and self.simulated.finished

    @property
    def ratio(self) -> float:
        """The ratio that orders the lines: simulated, otherwise by closed forms."""
        if self.simulated is None:
            return self.choice.ratio
        return fmean(self.ratios)

    @property
    def ratios(self) -> tuple[float, ...]:
        """The simulated ratios, scaled to the seeds of the soonest choice."""
        assert self.simulated is not None
        return tuple(self.factor * ratio for ratio in self.simulated.ratios)

    @property
    def goodput(self) -> float:
        """The mean simulated goodput, scaled to the same seeds."""
        assert self.simulated is not None
        return fmean(self.simulated.goodputs) / self.factor

    @property
    def step_s(self) -> float:
        """The mean time of a step, in seconds: simulated, otherwise by closed forms."""
        return self.choice.step_s if self.simulated is None else fmean(self.simulated.step_s)

    def error(self) -> Interval | None:
        """Return the fraction by which the prediction exceeds the simulated ratio, with interval.

        None if there is no prediction or the simulated job did not finish.
        """
        predicted = self.choice.predicted_ratio
        if self.simulated is None or not self.finished or predicted is None:
            return None
        return interval_of([predicted / ratio - 1.0 for ratio in self.ratios])

    def may_be_off(self) -> float | None:
        """Return the largest error, as a fraction, within the 95 % interval.

        None if the choice was not verified, or with one seed only.
        """
        error = self.error()
        if error is None or not error.low <= error.high:
            return None
        return max(abs(error.low), abs(error.high))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A scheme that is left out, over one protection or (None) over all, and the reason."""

    scheme: str
    protection: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class RankedPlan:
    """The choices for a job, in their order."""

    situation: Situation  # The job.
    # Each scheme's best choice over each protection, and others that were verified: choices that
    # finished in simulation first, by their time, then the others, by closed forms.
    lines: tuple[Line, ...]
    left_out: tuple[LeftOut, ...]
    seeds: tuple[int, ...]  # Seeds of every choice that was not stopped.
    unverified: int  # Other redundancies, ranked lower by closed forms and not simulated.

    def largest_error(self) -> float | None:
        """Return the bound on an unverified prediction's error: that of the worst verified one."""
        known = [off for line in self.lines if (off := line.may_be_off()) is not None]
        return max(known, default=None)

    def first_of_schemes(self) -> list[Line]:
        """Return each scheme's soonest line, over any protection and redundancy."""
        return _firsts(self.lines)

    def bests_of_schemes(self) -> list[Line]:
        """Return each scheme's soonest line among those that closed forms rank first."""
        return _firsts(line for line in self.lines if line.is_best)


def _firsts(lines: Iterable[Line]) -> list[Line]:
    """Return the first line of each scheme."""
    firsts: dict[str, Line] = {}
    for line in lines:
        firsts.setdefault(line.choice.scheme, line)
    return list(firsts.values())


def _chosen_schemes(
    names: Sequence[str] | None, situation: Situation
) -> tuple[list[str], list[LeftOut]]:
    """Return the schemes to plan and those left out.

    Planned are the named schemes, otherwise all for which the scenario states enough. An unknown
    name is a UserError.
    """
    known = all_strategies()
    if names:
        chosen = _named("--schemes", "scheme", names, list(known))
        others = [name for name in known if name not in chosen]
        return chosen, [LeftOut(name, None, "not among --schemes") for name in others]
    table = situation.scenario.model
    has_layout = table.name != "stated" or not {"pipeline", "tensor"}.isdisjoint(
        table.model_fields_set
    )
    chosen = [name for name, scheme in known.items() if has_layout or "layout" not in scheme.needs]
    return chosen, [LeftOut(name, None, _NEEDS_LAYOUT) for name in known if name not in chosen]


def _chosen_protections(names: Sequence[str] | None) -> list[str]:
    """Return the protections to plan: those named, or all; an unknown name is a UserError."""
    known = list(all_protections())
    return _named("--protections", "protection", names, known) if names else known


def _named(option: str, kind: str, names: Sequence[str], known: list[str]) -> list[str]:
    for name in names:
        if name not in known:
            raise UserError(f"{option} {name}: no such {kind}; {did_you_mean(name, known)}")
    return list(dict.fromkeys(names))


def make_plan(
    situation: Situation,
    schemes: Sequence[str] | None,
    protections: Sequence[str] | None,
    seeds: Sequence[int],
    verified: int,
    steps: int | None = None,
    on_done: Callable[[], None] | None = None,
    on_chosen: Callable[[int], None] | None = None,
) -> RankedPlan:
    """Plan a job with the candidate schemes and protections.

    Parameters
    ----------
    situation : Situation
        The job.
    schemes, protections : sequence of str, optional
        The candidates; by default all for which the scenario states enough.
    seeds : sequence of int
        Seeds of the verification.
    verified : int
        Least number of choices to verify; 0 for none. Each scheme's best over each protection is
        always verified; then others, by predicted time.
    steps : int, optional
        Steps of the simulated job; by default `steps_needed`.
    on_done : callable, optional
        Called after each run.
    on_chosen : callable, optional
        Called with the number of choices before the first of them is simulated.

    Raises
    ------
    UserError, StrategyError, PlatformError
        If a name is unknown, the scheme whose redundancy the scenario states cannot be built with
        it, or no requested scheme can be built.
    """
    chosen, not_chosen = _chosen_schemes(schemes, situation)
    left_out = _without_standbys(situation, chosen)
    idle = {each.scheme for each in left_out}
    pairs = list(
        product([name for name in chosen if name not in idle], _chosen_protections(protections))
    )
    bests: list[Choice] = []
    others: list[Choice] = []
    refused: list[UserError | StrategyError | PlatformError] = []
    for scheme, protection in pairs:
        never: str | None = None
        has_choices = False
        try:
            for moment in situation.moments_of_return(scheme):
                choices = choices_of(situation, scheme, protection, moment)
                reasons = [why_untrained(situation, choice) for choice in choices]
                never = never or reasons[0]
                finishing = [
                    choice
                    for choice, reason in zip(choices, reasons, strict=True)
                    if reason is None
                ]
                first = _to_be_simulated(finishing)
                bests += first
                others += [choice for choice in finishing if choice not in first]
                has_choices = has_choices or bool(finishing)
        except (UserError, StrategyError, PlatformError) as error:
            if situation.stated_redundancy(scheme) is not None:
                raise
            refused.append(error)
            left_out.append(LeftOut(scheme, protection, str(error)))
            continue
        if never is not None and not has_choices:
            left_out.append(LeftOut(scheme, protection, never))
    if refused and len(refused) == len(pairs):
        raise refused[0]
    bests.sort(key=_prediction_order)
    others.sort(key=_prediction_order)
    to_verify = [*bests, *others[: max(0, verified - len(bests))]] if verified else []
    results: list[Simulated] = []
    if to_verify:
        if on_chosen is not None:
            on_chosen(len(to_verify))
        resolved_jobs = [choice.resolved for choice in to_verify]
        results = verify(resolved_jobs, seeds, steps or steps_needed(resolved_jobs[0]), on_done)
    factors = factors_to_all_seeds([result.ratios for result in results])
    lines = [
        Line(choice, result, place < len(bests), factor)
        for place, (choice, result, factor) in enumerate(
            zip(to_verify, results, factors, strict=True)
        )
    ]
    lines = lines or [Line(choice, None, True) for choice in bests]
    unverified = len(bests) + len(others) - len(lines)
    kept = [line for line in lines if (reason := why_refused(line)) is None]
    left_out += [
        LeftOut(line.choice.scheme, line.choice.protection, reason)
        for line in lines
        if (reason := why_refused(line)) is not None
    ]
    return RankedPlan(
        situation,
        tuple(sorted(kept, key=lambda line: (not line.finished, line.ratio, line.choice.ratio))),
        (*left_out, *not_chosen),
        tuple(seeds),
        unverified,
    )


def _to_be_simulated(choices: Sequence[Choice]) -> list[Choice]:
    """Return the first of a scheme's choices, and another that closed forms cannot compare with it.

    No closed form covers groups that return before a restart. If they return soon, the least
    redundancy suffices.
    """
    first = list(choices[:1])
    masking = [choice for choice in choices if choice.returns_groups]
    least = min(masking, key=lambda choice: choice.redundancy, default=None)
    return first if least is None or least in first else [*first, least]


def _without_standbys(situation: Situation, schemes: Sequence[str]) -> list[LeftOut]:
    """Return the schemes that need standbys, if none is there."""
    if standbys_of(situation.scenario):
        return []
    return [
        LeftOut(name, None, _NEEDS_STANDBYS)
        for name in schemes
        if "standbys" in strategy_class(name).needs
    ]


def why_refused(line: Line) -> str | None:
    """Return why a choice is another scheme than its name says; None if it is not.

    If most recoveries do not fit into GPU memory, the job does something else instead.
    """
    simulated = line.simulated
    if simulated is None:
        return None
    refused, events = sum(simulated.states_refused), sum(simulated.events)
    if refused <= _MOST_REFUSED * events:
        return None
    return (
        f"most of its recoveries do not fit into GPU memory: {refused:,.0f} were refused in "
        f"{events:,} failures"
    )


def why_untrained(situation: Situation, choice: Choice) -> str | None:
    """Return why a choice would not finish in time; None if it would.

    The horizon is ``job.time_limit_s``. A job that finishes before its first restart passes; so
    does a scheme that continues with broken groups, since no closed form covers it.
    """
    if strategy_class(choice.scheme).tracks_components:
        return None
    job = situation.scenario.job
    horizon_s = HUNDRED_YEARS_S if job.time_limit_s is None else job.time_limit_s
    horizon = _long_time(horizon_s)
    if horizon_s != HUNDRED_YEARS_S:
        horizon = f"job.time_limit_s ({horizon})"
    needed_s, restart_s = choice.ratio * situation.ideal_s, situation.restart_s
    if needed_s <= horizon_s or choice.steps_per_life >= job.steps:
        return None
    if restart_s >= horizon_s:
        return (
            f"a restart takes {_long_time(restart_s)}, longer than {horizon}, and one is due after "
            f"{choice.steps_per_life:,.1f} of {job.steps:,} steps: the job would never finish"
        )
    return f"would take {_long_time(needed_s)}, longer than {horizon}"


def _prediction_order(choice: Choice) -> tuple[bool, bool, float]:
    """Order by prediction, unreliable ones last: they may be far too optimistic."""
    return not choice.is_prediction, choice.rough, choice.ratio


def _long_time(seconds: float) -> str:
    days = seconds / DAY_S
    years = days / 365.25
    if years < 2:
        return f"{days:,.3g} days"
    return f"{years:,.0f} years" if years < 1e6 else "more than a million years"
