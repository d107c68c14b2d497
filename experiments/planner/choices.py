"""What closed forms make of each scheme: every redundancy at its best checkpoint interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from experiments.planner.situation import Situation
from experiments.resolve import Question
from experiments.theory.predictions import predict_question, predict_redundancies
from simulator.failures.models import IndependentGroups
from strategies.checkpoint_period import Costs
from strategies.closed_forms.course import Predictable
from strategies.closed_forms.prediction import Prediction
from strategies.registry import strategy_class


@dataclass(frozen=True, slots=True)
class Choice:
    """A scheme with a redundancy and an interval, and what closed forms predict for it.

    Attributes
    ----------
    question : Question
        The job under this choice; its redundancy and interval are the choice.
    ratio : float
        Predicted time to train over that without redundancy, failures and checkpoints.
    availability : float
        Predicted share of the time that is not spent in restarts.
    steps_per_life : float
        Predicted steps from one restart to the next.
    rough : bool
        Whether only the scheme's plain forms were at hand, or closed forms that leave out
        something the scenario has.
    """

    question: Question
    ratio: float
    availability: float
    steps_per_life: float
    rough: bool

    @property
    def scheme(self) -> str:
        """Name of the scheme."""
        return self.question.scenario.strategy.name

    @property
    def redundancy(self) -> int:
        """Redundancy r."""
        return self.question.redundancy

    @property
    def interval_steps(self) -> int:
        """Steps between two checkpoints."""
        return self.question.interval_steps


def choices_of(situation: Situation, scheme: str) -> list[Choice]:
    """Return a choice for each redundancy of a scheme, the best first.

    Where the scenario states the redundancy or the checkpoint interval, that one is taken.

    Raises
    ------
    UserError, StrategyError
        If the scheme cannot be built for this job.
    """
    question = situation.question(scheme)
    stated = situation.stated_redundancy(scheme)
    groups, options = question.scenario.job.groups, question.scenario.strategy.options()
    named = strategy_class(scheme)
    redundancies = named.redundancies(groups, options) if stated is None else [stated]
    question.strategy()
    if has_closed_forms(question):
        choices = _by_course(question, redundancies)
    else:
        choices = [_by_plain_forms(question, redundancy) for redundancy in redundancies]
    return sorted(choices, key=lambda choice: choice.ratio)


def predicted_ratio(question: Question) -> float:
    """Return the predicted time-to-train ratio of a question at its redundancy and interval."""
    if has_closed_forms(question):
        return predict_question(question).time_to_train_ratio
    return _at_interval(question).ratio


def has_closed_forms(question: Question) -> bool:
    """Return whether the scheme's course is known, and groups fail each by itself."""
    failures = question.job(0).failures
    return isinstance(question.strategy(), Predictable) and isinstance(failures, IndependentGroups)


def _by_course(question: Question, redundancies: Sequence[int]) -> list[Choice]:
    interval = question.scenario.checkpoint.interval_steps
    rejoining = question.scenario.rejoin.when != "at-restart"
    rough = rejoining or question.scenario.checkpoint.policy != "fixed"
    if interval is None:
        predictions = predict_redundancies(question, redundancies)
    else:
        predictions = {
            redundancy: predict_question(replace(question, redundancy=redundancy))
            for redundancy in redundancies
        }
    return [
        _within_the_job(_predicted(replace(question, redundancy=redundancy), prediction, rough))
        for redundancy, prediction in predictions.items()
    ]


def _within_the_job(choice: Choice) -> Choice:
    """Where the best interval is longer than the job, predict the one checkpoint at its end."""
    steps = choice.question.scenario.job.steps
    if choice.interval_steps <= steps:
        return choice
    at_end = replace(choice.question, interval_steps=steps)
    return _predicted(at_end, predict_question(at_end), choice.rough)


def _predicted(question: Question, prediction: Prediction, rough: bool) -> Choice:
    return Choice(
        replace(question, interval_steps=prediction.interval_steps),
        prediction.time_to_train_ratio,
        prediction.availability,
        prediction.steps_per_life,
        rough,
    )


def _by_plain_forms(question: Question, redundancy: int) -> Choice:
    asked = replace(question, redundancy=redundancy)
    interval = question.scenario.checkpoint.interval_steps
    if interval is None:
        interval = asked.strategy().best_interval_steps(_costs(question))
    return _at_interval(replace(asked, interval_steps=interval))


def _at_interval(question: Question) -> Choice:
    """The objective J(r) of Lee et al. 2026 (SPARe), at the interval of the question."""
    costs, scheme = _costs(question), question.strategy()
    time_to_failure_s = scheme.masked_failures() * costs.mtbf_s
    step_s = scheme.step_s(costs)
    period_s = costs.save_s + question.interval_steps * step_s
    availability = costs.availability(period_s, time_to_failure_s)
    ideal_s = costs.compute_s + costs.all_reduce_s
    return Choice(
        question,
        step_s / ideal_s / availability if availability else inf,
        time_to_failure_s / (time_to_failure_s + costs.restart_s),
        time_to_failure_s / (period_s / question.interval_steps),
        True,
    )


def _costs(question: Question) -> Costs:
    job, durations = question.scenario.job, question.durations
    return Costs(
        mtbf_s=question.job(0).failures.mtbf_s,
        save_s=durations.save_s,
        restart_s=durations.restart_s + durations.load_s,
        compute_s=job.compute_s,
        all_reduce_s=durations.all_reduce_s(job.groups),
    )
