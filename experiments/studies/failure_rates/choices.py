"""Which redundancies and checkpoint intervals to play: those that closed forms find best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

from faultline.experiments.job.predictions import predict_redundancies
from faultline.experiments.job.resolved_job import ResolvedJob, resolve
from faultline.experiments.studies.failure_rates.settings import LIMIT_S, SCHEMES, STEPS, Setting
from faultline.simulator.job import Durations
from faultline.strategies.base import Strategy
from faultline.strategies.checkpoint_period import best_period_s
from faultline.strategies.registry import strategy_class

_PREDICTED = 3
_LARGEST = 16


@dataclass(frozen=True, slots=True)
class Choice:
    """A scheme's redundancy and interval in a setting, and what closed forms predict.

    Attributes
    ----------
    setting : Setting
        The job and its failures.
    question : ResolvedJob
        With redundancy and checkpoint interval filled in.
    ratio, availability : float
        Predicted time-to-train ratio and share of the time that is not downtime.
    steps_per_life : float
        Predicted steps from one restart to the next.
    """

    setting: Setting
    question: ResolvedJob
    ratio: float
    availability: float
    steps_per_life: float

    @property
    def scheme(self) -> str:
        """Name of the scheme."""
        return self.question.scenario.strategy.name

    @property
    def ideal_s(self) -> float:
        """Time of the whole job without redundancy, failures and checkpoints, in seconds."""
        job = self.question.scenario.job
        return STEPS * (job.compute_s + self.question.durations.all_reduce_s(job.groups))

    @property
    def in_range(self) -> bool:
        """Whether the closed forms hold here.

        They are means over long jobs that get on: until the first of its failures a job is faster
        than they say, which 20 failures make a matter of a few per cent. Nor do they hold where
        practically no life saves a step.
        """
        time_s = self.ratio * self.ideal_s
        return 20.0 * self.setting.mtbf_s <= time_s <= LIMIT_S

    def steps_to_play(self) -> int:
        """Return for how many steps to play: enough lives and failures, at most the whole job.

        Lives that end with their first failure scatter most: 200 of them are played, and 20 of
        others. Failures count, as all groups are new at first: a Weibull shape of 0.78 gives N / 3
        more of them than their mean says, however long the job is. Where checkpoints alone are far
        behind less has to do, since a restart of all groups is what takes long to play.
        """
        lives, failures = 20, 10 * self.setting.groups
        if self.question.redundancy == 1:
            far = self.ratio > 5.0
            lives, failures = (50, 4 * self.setting.groups) if far else (200, failures)
        step_s = self.ratio * self.ideal_s / STEPS
        wanted = max(lives * self.steps_per_life, failures * self.setting.mtbf_s / step_s)
        return max(100, min(STEPS, ceil(wanted)))


def choices_of(asked: tuple[Setting, Durations]) -> list[Choice]:
    """Return for each scheme the redundancies that come into question, the best predicted first."""
    setting, durations = asked
    found: list[Choice] = []
    for scheme in SCHEMES:
        named = strategy_class(scheme)
        # Stated, so that resolving does not look for the best by itself.
        least = f"strategy.redundancy={named.redundancies(setting.groups, named.Options())[0]}"
        question = resolve(
            setting.scenario(scheme, least, "checkpoint.interval_steps=1"), durations
        )
        redundancies = likely_redundancies(named, setting, question)
        mine = [
            Choice(
                setting,
                replace(
                    question,
                    redundancy=redundancy,
                    # A checkpoint that comes after the mean end of a life saves next to nothing.
                    interval_steps=max(
                        1, min(predicted.interval_steps, round(predicted.steps_per_life))
                    ),
                ),
                predicted.time_to_train_ratio,
                predicted.availability,
                predicted.steps_per_life,
            )
            for redundancy, predicted in predict_redundancies(question, redundancies).items()
        ]
        found += sorted(mine, key=lambda choice: choice.ratio)
    return found


def to_be_played(choices: Sequence[Choice], full: bool) -> list[Choice]:
    """Return which choices of one scheme and setting to play; the least mean is its best.

    The best predicted; and the next best that is not its neighbour, as neighbours differ by less
    than seeds do, if it is predicted within 3 %. `full`: all within 10 %, each at 0.6 and 1.6 times
    the interval, too.
    """
    best, *others = choices
    if full:
        near = [best, *(other for other in others if other.ratio <= 1.1 * best.ratio)]
        return [
            replace(choice, question=replace(choice.question, interval_steps=interval))
            for choice in near
            for interval in sorted(
                {max(1, round(choice.question.interval_steps * by)) for by in (0.6, 1.0, 1.6)}
            )
        ]
    apart = [
        other
        for other in others
        if abs(other.question.redundancy - best.question.redundancy) > 1
        and other.ratio <= 1.03 * best.ratio
    ]
    return [best, *apart[:1]]


def likely_redundancies(
    scheme: type[Strategy], setting: Setting, question: ResolvedJob
) -> list[int]:
    """Return the least redundancy, and the few best by the plain J(r) of Lee et al. 2026 (SPARe).

    J takes microseconds, and the exact forms, which decide among these few, tens of milliseconds.
    """
    if scheme.name == "checkpoint":
        return [1]
    groups = setting.groups
    options = question.scenario.strategy.options()
    costs = question.costs()

    def plain_ratio(redundancy: int) -> float:
        built = scheme(groups, redundancy, options)
        life_s = built.masked_failures() * costs.mtbf_s
        period_s = best_period_s(costs.save_s, life_s, costs.restart_s)
        availability = costs.availability(period_s, life_s)
        return built.step_s(costs) / availability if availability else inf

    known = [r for r in scheme.redundancies(groups, options) if r <= _LARGEST]
    return sorted({known[0], *sorted(known, key=plain_ratio)[:_PREDICTED]})
