"""A scenario's time to train from closed forms: what they need is read from its rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from faultline.experiments.config.errors import UserError
from faultline.experiments.job.job_shape import scheme_options
from faultline.simulator.failures.distributions import Distribution, Exponential
from faultline.simulator.failures.models import IndependentGroups
from faultline.simulator.job import Rules
from faultline.strategies.base import Strategy, StrategyOptions
from faultline.strategies.checkpoint_period import Costs
from faultline.strategies.closed_forms.lifetimes import (
    GroupLifetimes,
    stationary_excess,
    wait_for_slowest,
)
from faultline.strategies.closed_forms.prediction import (
    Prediction,
    StepCosts,
    largest_of_normals,
    predict,
)
from faultline.strategies.closed_forms.wipe_out import FailureCourse, Predictable
from faultline.strategies.recovery import SHRINK
from faultline.strategies.registry import strategy_class

if TYPE_CHECKING:
    # What a question leaves open is filled in by these predictions.
    from faultline.experiments.job.resolved_job import ResolvedJob


def predict_settings(question: ResolvedJob, settings: Sequence[ResolvedJob]) -> list[Prediction]:
    """Predict what the replay engine would find for jobs that differ in redundancy and intervals.

    Groups are taken to have run for long, so that their clocks stand anywhere: true of all lives
    but the first few. Where one failure may take several groups, each counts as one of one group,
    without memory. State that is kept in memory is taken to be found there, in the nodes' own. What
    else the forms leave out: replication's controller handles one failure a step under
    `controller_sees` = "lowest"; a job ends with its last step, not with a wipe-out.

    Parameters
    ----------
    question : ResolvedJob
        What they have in common.
    settings : sequence of ResolvedJob
        Each with its own redundancy and intervals.

    Raises
    ------
    UserError
        If the scheme has no closed forms.
    """
    chosen = [
        (each.redundancy, each.protected.kept_every_steps(each.interval_steps)) for each in settings
    ]
    return _predict(question, chosen)


def predict_redundancies(
    question: ResolvedJob, redundancies: Sequence[int]
) -> dict[int, Prediction]:
    """Predict a question at other redundancies, each at its best checkpoint interval.

    Raises
    ------
    UserError
        As `predict_settings`.
    """
    found = _predict(question, [(redundancy, None) for redundancy in redundancies])
    return dict(zip(redundancies, found, strict=True))


def _predict(question: ResolvedJob, chosen: Sequence[tuple[int, int | None]]) -> list[Prediction]:
    scenario = question.scenario
    groups, named = scenario.job.groups, scenario.strategy
    rules = question.rules
    restart_s, lifetimes = _after_a_restart(question, rules)
    extra, options = _step_costs(question, rules), scheme_options(scenario)
    predictions = []
    for redundancy, interval_steps in chosen:
        scheme = strategy_class(named.name)(groups, redundancy, options)
        costs = _costs(question, scheme, restart_s)
        course = _course(type(scheme), groups, redundancy, options)
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


def _after_a_restart(question: ResolvedJob, rules: Rules) -> tuple[float, GroupLifetimes]:
    """Return what a restart takes for the whole job, in seconds, and the lifetimes after it.

    Without loading: that depends on where the state is.
    """
    failures, groups = question.failures, question.scenario.job.groups
    distribution: Distribution = Exponential(failures.mtbf_s * groups)
    if isinstance(failures, IndependentGroups):
        distribution = failures.distribution
    begins_anew = rules.failure_in_restart == "begins-anew"
    surfaces = rules.failure_while_waiting == "surfaces"
    restart_s = question.restart_s
    # Every distribution is a frozen dataclass.
    return _lives(groups, distribution, restart_s, begins_anew, surfaces)  # type: ignore[arg-type]


_SHORTEST_RESTART_S = 1e-12
"""Shorter ones are no time: their parts could not be told apart."""


@lru_cache(maxsize=16)
def _lives(
    groups: int, distribution: Distribution, restart_s: float, begins_anew: bool, surfaces: bool
) -> tuple[float, GroupLifetimes]:
    """Work out `_after_a_restart`, once for all schemes: that takes the longest."""
    left = stationary_excess(distribution.survival, distribution.mean_s)
    # In a restart of no time nobody fails.
    if not begins_anew or restart_s < _SHORTEST_RESTART_S:
        return restart_s, GroupLifetimes(groups, left)
    wait = wait_for_slowest(groups, restart_s, distribution.survival, left)
    return wait.mean_s, GroupLifetimes(groups, wait.survival if surfaces else left)


def _costs(question: ResolvedJob, scheme: Strategy, restart_s: float) -> Costs:
    job, durations = question.scenario.job, question.durations
    save_s = durations.save_s
    if not scheme.checkpoint_waits:
        # The writer is late for its next step by less than the others wait for the slowest.
        slowest = float(largest_of_normals([job.groups])[0]) * job.compute_jitter
        save_s = max(0.0, save_s - slowest * question.scenario.compute_s * scheme.redundancy)
    protected = question.protected
    if protected.protection.peers is None:
        restart_s += durations.load_s
    costs = replace(question.costs(), save_s=save_s, restart_s=restart_s)
    return protected.costs_of_memory(costs) if protected.in_background else costs


def _step_costs(question: ResolvedJob, rules: Rules) -> StepCosts:
    scenario, durations = question.scenario, question.durations
    all_reduce_s = durations.all_reduce_s(scenario.job.groups)
    failed_s = rules.failed_all_reduce_fraction * all_reduce_s
    if rules.detection == "watchdog":
        failed_s = rules.watchdog_s
    return StepCosts(
        jitter=scenario.job.compute_jitter,
        failed_all_reduce_s=failed_s + durations.recovery.duration_s(SHRINK, scenario.job.groups),
        spared_all_reduce_s=all_reduce_s if rules.fixed_step == "commits" else 0.0,
        restart_loses_steps=1 if rules.resume == "redo" else 0,
    )
