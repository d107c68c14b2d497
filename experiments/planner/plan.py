"""A plan: each scheme at its best by closed forms, and the best few of them verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.errors import UserError, did_you_mean
from experiments.planner.choices import Choice, choices_of
from experiments.planner.pairs import Interval, interval_of
from experiments.planner.simulation import Simulated, simulate, steps_needed
from experiments.planner.situation import Situation
from strategies.registry import all_strategies

DAY_S = 86_400.0
_HUNDRED_YEARS_S = 100 * 365.25 * DAY_S
# Far behind the best, a verification would cost much and decide nothing.
_HOPELESSLY_BEHIND = 10.0


@dataclass(frozen=True, slots=True)
class Line:
    """A choice with what became of it in simulation, where it was verified.

    Attributes
    ----------
    choice : Choice
        What closed forms say.
    simulated : Simulated or None
        What simulation says.
    is_best_of_scheme : bool
        Whether closed forms rank it first among the redundancies of its scheme.
    """

    choice: Choice
    simulated: Simulated | None
    is_best_of_scheme: bool

    def error(self) -> Interval | None:
        """Return by which fraction the prediction is above the simulated ratio, with interval."""
        if self.simulated is None:
            return None
        predicted = self.choice.ratio
        return interval_of([predicted / ratio - 1.0 for ratio in self.simulated.ratios])

    def may_be_off(self) -> float | None:
        """Return the largest error, as a fraction, that the seeds leave possible (95 %).

        None where it was not verified, or by one seed only.
        """
        error = self.error()
        if error is None or not error.low <= error.high:
            return None
        return max(abs(error.low), abs(error.high))


@dataclass(frozen=True, slots=True)
class Untrained:
    """A scheme that would not finish the job, and why."""

    scheme: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is planned.

    Attributes
    ----------
    situation : Situation
        The job.
    lines : tuple of Line
        Each scheme's best choice, in the order of predicted time, and others that were verified.
    untrained : tuple of Untrained
        Schemes that would not finish.
    seeds : tuple of int
        Seeds of the verification.
    """

    situation: Situation
    lines: tuple[Line, ...]
    untrained: tuple[Untrained, ...]
    seeds: tuple[int, ...]

    def largest_error(self) -> float | None:
        """Return how far off an unverified prediction may be: as far as the worst verified one."""
        known = [off for line in self.lines if (off := line.may_be_off()) is not None]
        return max(known, default=None)


def chosen_schemes(names: Sequence[str] | None) -> list[str]:
    """Return the schemes to plan: those named, else all whose options fit any job.

    Raises
    ------
    UserError
        If there is no scheme of that name.
    """
    known = list(all_strategies())
    for name in names or ():
        if name not in known:
            raise UserError(f"--schemes {name}: no such scheme; {did_you_mean(name, known)}")
    if names:
        return list(dict.fromkeys(names))
    return [name for name, scheme in all_strategies().items() if not scheme.needs_layout]


def make_plan(
    situation: Situation,
    schemes: Sequence[str],
    seeds: Sequence[int],
    verified: int,
    steps: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> Plan:
    """Plan a job.

    Parameters
    ----------
    situation : Situation
        The job.
    schemes : sequence of str
        Schemes that come into question.
    seeds : sequence of int
        Seeds of the verification.
    verified : int
        How many choices are verified; 0 for none. Each scheme's best come first, then others, by
        predicted time. One that is predicted to take ten times as long as the best is left out.
    steps : int, optional
        Steps of the simulated job; by default as many as `steps_needed` says.
    on_done : callable, optional
        Called after each run.

    Raises
    ------
    UserError, StrategyError
        If a scheme cannot be built for this job.
    """
    bests, others, untrained = [], [], []
    for scheme in schemes:
        choices = choices_of(situation, scheme)
        reasons = [why_untrained(situation, choice) for choice in choices]
        finishing = [
            choice for choice, reason in zip(choices, reasons, strict=True) if reason is None
        ]
        if reasons[0] is not None and not finishing:
            untrained.append(Untrained(scheme, reasons[0]))
            continue
        bests.append(finishing[0])
        others += finishing[1:]
    bests.sort(key=_ratio)
    others.sort(key=_ratio)
    within_reach = [
        choice
        for choice in (*bests, *others)
        if choice.ratio <= _HOPELESSLY_BEHIND * bests[0].ratio
    ]
    played = within_reach[:verified]
    results: list[Simulated] = []
    if played:
        questions = [choice.question for choice in played]
        results = simulate(questions, seeds, steps or steps_needed(played), on_done)
    lines = [
        Line(choice, result, choice in bests)
        for choice, result in zip(played, results, strict=True)
    ]
    lines += [Line(choice, None, True) for choice in bests if choice not in played]
    return Plan(
        situation,
        tuple(sorted(lines, key=lambda line: (not line.is_best_of_scheme, line.choice.ratio))),
        tuple(untrained),
        tuple(seeds),
    )


def why_untrained(situation: Situation, choice: Choice) -> str | None:
    """Return why a choice would not finish in time, None if it would.

    The horizon is ``job.time_limit_s``, or a hundred years. A job that is done within its first
    life is not held up by restarts, and passes.
    """
    job, durations = situation.scenario.job, situation.durations
    limit_s = job.time_limit_s
    horizon_s = _HUNDRED_YEARS_S if limit_s is None else limit_s
    horizon = _long_time(horizon_s)
    if limit_s is not None:
        horizon = f"job.time_limit_s ({horizon})"
    needed_s, restart_s = choice.ratio * situation.ideal_s, durations.restart_s + durations.load_s
    if needed_s <= horizon_s or choice.steps_per_life >= job.steps:
        return None
    if restart_s >= horizon_s:
        return (
            f"a restart takes {_long_time(restart_s)}, longer than {horizon}, and one is due after "
            f"{choice.steps_per_life:,.1f} of {job.steps:,} steps: nothing would ever be trained"
        )
    return f"would take {_long_time(needed_s)}, longer than {horizon}"


def _ratio(choice: Choice) -> float:
    return choice.ratio


def _long_time(seconds: float) -> str:
    days = seconds / DAY_S
    years = days / 365.25
    if years < 2:
        return f"{days:,.3g} days"
    return f"{years:,.0f} years" if years < 1e6 else "more than a million years"
