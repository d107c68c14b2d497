"""A scenario's time to train from closed forms: what they need is read from its rules."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache

from experiments.errors import UserError
from experiments.resolve import Question, rules_of
from simulator.failures.distributions import Distribution
from simulator.failures.models import IndependentGroups
from strategies.base import Strategy, StrategyOptions
from strategies.checkpoint_period import Costs
from strategies.closed_forms.course import FailureCourse, Predictable
from strategies.closed_forms.lifetimes import GroupLifetimes, stationary_excess
from strategies.closed_forms.prediction import (
    Prediction,
    StepCosts,
    largest_of_normals,
    predict,
)
from strategies.closed_forms.restart_wait import wait_for_slowest
from strategies.registry import strategy_class


def predict_question(question: Question) -> Prediction:
    """Predict what the replay engine would find for a question with every value filled in.

    Groups are taken to have run for long, so that their clocks stand anywhere: true of all lives
    but the first few. What the forms leave out: replication's controller handles one failure a
    step under `controller_sees` = "lowest"; a job ends with its last step, not with a wipe-out.

    Raises
    ------
    UserError
        If the scheme has no closed forms, or groups do not fail each by itself.
    """
    chosen = [(question.redundancy, question.interval_steps)]
    return _predict(question, chosen)[0]


def predict_redundancies(question: Question, redundancies: Sequence[int]) -> dict[int, Prediction]:
    """Predict a question at other redundancies, each at its best checkpoint interval.

    Raises
    ------
    UserError
        As `predict_question`.
    """
    found = _predict(question, [(redundancy, None) for redundancy in redundancies])
    return dict(zip(redundancies, found, strict=True))


def _predict(question: Question, chosen: Sequence[tuple[int, int | None]]) -> list[Prediction]:
    scenario = question.scenario
    groups, named = scenario.job.groups, scenario.strategy
    restart_s, lifetimes = _after_a_restart(question)
    extra = _step_costs(question)
    predictions = []
    for redundancy, interval_steps in chosen:
        scheme = strategy_class(named.name)(groups, redundancy, named.options())
        costs = _costs(question, scheme, restart_s)
        course = _course(type(scheme), groups, redundancy, named.options())
        predictions.append(predict(course, lifetimes, costs, extra, interval_steps))
    return predictions


@lru_cache(maxsize=128)
def _course(
    scheme: type[Strategy], groups: int, redundancy: int, options: StrategyOptions
) -> FailureCourse:
    """Return a scheme's course, which no failure rate changes: a sweep over rates asks often."""
    built = scheme(groups, redundancy, options)
    if not isinstance(built, Predictable):
        raise UserError(
            f"strategy.name = {scheme.name}: this scheme has no closed forms; "
            "give it a failure_course, or run it"
        )
    return built.failure_course()


def _after_a_restart(question: Question) -> tuple[float, GroupLifetimes]:
    """Return what a restart takes for the whole job, in seconds, and the groups after it."""
    failures = question.job(0).failures
    if not isinstance(failures, IndependentGroups):
        raise UserError(
            f"failures.model = {question.scenario.failures.model}: closed forms know groups that "
            "fail each by itself only; run the scenario instead"
        )
    rules, durations = rules_of(question.scenario), question.durations
    begins_anew = rules.failure_in_restart == "begins-anew"
    distribution = failures.distribution
    assert isinstance(distribution, Hashable)
    restart_s, lifetimes = _lifetimes_after_a_restart(
        distribution,
        failures.groups,
        durations.restart_s if begins_anew else None,
        begins_anew and rules.failure_while_waiting == "surfaces",
    )
    return (restart_s if begins_anew else durations.restart_s) + durations.load_s, lifetimes


@lru_cache(maxsize=4)
def _lifetimes_after_a_restart(
    distribution: Distribution, groups: int, begun_anew_s: float | None, surfaces: bool
) -> tuple[float, GroupLifetimes]:
    """Return the mean wait where restarts of `begun_anew_s` begin anew, and the groups after it.

    All schemes of a job share them.
    """
    left = stationary_excess(distribution.survival, distribution.mean_s)
    if begun_anew_s is None:
        return 0.0, GroupLifetimes(groups, left)
    wait = wait_for_slowest(groups, begun_anew_s, distribution.survival, left)
    return wait.mean_s, GroupLifetimes(groups, wait.survival if surfaces else left)


def _costs(question: Question, scheme: Strategy, restart_s: float) -> Costs:
    job, durations = question.scenario.job, question.durations
    save_s = durations.save_s
    if not scheme.checkpoint_waits:
        # The writer is late for its next step by less than the others wait for the slowest.
        slowest = float(largest_of_normals([job.groups])[0]) * job.compute_jitter
        save_s = max(0.0, save_s - slowest * job.compute_s * scheme.redundancy)
    return Costs(
        mtbf_s=question.job(0).failures.mtbf_s,
        save_s=save_s,
        restart_s=restart_s,
        compute_s=job.compute_s,
        all_reduce_s=durations.all_reduce_s(job.groups),
    )


def _step_costs(question: Question) -> StepCosts:
    scenario, durations = question.scenario, question.durations
    rules = rules_of(scenario)
    all_reduce_s = durations.all_reduce_s(scenario.job.groups)
    failed_s = rules.failed_all_reduce_fraction * all_reduce_s
    if rules.detection == "watchdog":
        failed_s = rules.watchdog_s
    return StepCosts(
        jitter=scenario.job.compute_jitter,
        failed_all_reduce_s=failed_s + durations.reconfigure_s(scenario.job.groups),
        spared_all_reduce_s=all_reduce_s if rules.fixed_step == "commits" else 0.0,
        restart_loses_steps=1 if rules.resume == "redo" else 0,
    )
