"""Choices of redundancy and intervals for a scheme, ranked by closed forms.

Runs and the planner both fill in a scenario's open keys from here, so that they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from math import ceil, inf

from faultline.experiments.config.errors import UserError
from faultline.experiments.job.failure_model import corruptions_per_s
from faultline.experiments.job.job_shape import scheme_of
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.state_loss import loss_in_restart
from faultline.simulator.failures.distributions import Distribution
from faultline.simulator.failures.models import IndependentGroups
from faultline.simulator.job.job import Rejoin, Rules
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.recovery import SHRINK
from faultline.strategies.interface.scheme import Strategy, StrategyOptions
from faultline.strategies.theory.checkpoint_period import Costs
from faultline.strategies.theory.lifetimes import (
    GroupLifetimes,
    stationary_excess,
    wait_for_slowest,
)
from faultline.strategies.theory.prediction import (
    LoopCosts,
    Prediction,
    largest_of_normals,
    predict,
)
from faultline.strategies.theory.wipe_out import FailureCourse, Predictable

MOST_FAILURES_UNSAVED = 25
"""Failures between two checkpoints on storage, at most, if the state is kept in memory, too.

Closed forms of its loss leave out machines that run out, and groups that are down at the same time.
A run of a plan has about 100 failures. It would not show a loss that comes once in thousands.
With 10 or 50 failures, ratios of the REFT study differ by up to 3.5 %, and no verdict does.
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """A scheme with a redundancy and an interval, and its prediction by closed forms."""

    resolved: ResolvedJob  # The job under this choice; its redundancy and intervals are the choice.
    # Time to train over that of undisturbed steps; it ranks choices. It is a prediction only if
    # `is_prediction`.
    ratio: float
    availability: float  # Share of the time that is not spent in restarts.
    steps_per_life: float  # Steps from one restart to the next.
    step_s: float  # Mean time of a step, in seconds.
    # Whether the forms are plain ones, or neglect something that the scenario has.
    rough: bool
    # Whether the job is within the range of its closed form (`Prediction.ratio_of_job`). No closed
    # form covers schemes that continue with damaged groups.
    is_prediction: bool

    @property
    def scheme(self) -> str:
        """Name of the scheme."""
        return self.resolved.scenario.strategy.name

    @property
    def protection(self) -> str:
        """Name of the protection."""
        return self.resolved.scenario.protection.name

    @property
    def rejoin_when(self) -> Rejoin:
        """The moment at which dropped groups return."""
        return self.resolved.scenario.rejoin.when

    @property
    def returns_groups(self) -> bool:
        """Whether groups return between restarts, which no closed form covers."""
        return _rejoins(self.resolved)

    @property
    def redundancy(self) -> int:
        """Redundancy r."""
        return self.resolved.redundancy

    @property
    def interval_steps(self) -> int:
        """Steps between snapshots in memory; between checkpoints if there are no snapshots."""
        return self.resolved.snapshot_interval_steps or self.resolved.interval_steps

    @property
    def predicted_ratio(self) -> float | None:
        """The predicted time-to-train ratio; None outside the closed form's range."""
        return self.ratio if self.is_prediction else None


def at_redundancy(resolved: ResolvedJob, redundancy: int) -> ResolvedJob:
    """Return a job at a redundancy, with the stated intervals or the best by plain forms.

    An open interval is long enough that each snapshot is complete before the next. Checkpoints on
    storage serve only restarts that lose the state in memory, or that find it corrupt; their whole
    write counts as their cost, because it shares the network and the storage with the job.
    """
    changed = replace(resolved, redundancy=redundancy)
    scenario, protected, costs = resolved.scenario, resolved.protected, resolved.costs()
    scheme, stated = changed.strategy(), scenario.checkpoint.interval_steps
    if not protected.in_background:
        return replace(changed, interval_steps=stated or scheme.best_interval_steps(costs))
    step_s = scheme.step_s(costs)
    snapshots = 0
    if protected.protection.takes_snapshots and protected.protection.peers is not None:
        best = scheme.best_interval_steps(protected.costs_of_memory(costs))
        complete = ceil(protected.snapshot_cost.lag_s / step_s)
        snapshots = scenario.protection.interval_steps or max(best, complete, 1)
    window_s = snapshots * step_s + costs.restart_s
    lost = loss_in_restart(protected.protection, scenario, resolved.failures, window_s)
    persist = protected.persist_cost
    cost_s = persist.stall_s + (persist.lag_s if protected.protection.peers else 0.0)
    needed_per_s = lost / costs.mtbf_s
    if not scheme.compares:
        # The scheme masks failures, but no corruption.
        corrupt_per_s = corruptions_per_s(scenario, resolved.failures)
        needed_per_s += corrupt_per_s * scheme.masked_failures()
    rarer = replace(costs, mtbf_s=1.0 / needed_per_s if needed_per_s else inf, save_s=cost_s)
    complete = ceil(persist.lag_s / step_s)
    most = MOST_FAILURES_UNSAVED * costs.mtbf_s / step_s
    checkpoints = stated or max(round(min(scheme.best_interval_steps(rarer), most)), complete, 1)
    return replace(changed, interval_steps=checkpoints, snapshot_interval_steps=snapshots)


def at_interval(resolved: ResolvedJob, interval_steps: int) -> ResolvedJob:
    """Return a job with another `Choice.interval_steps`."""
    if resolved.snapshot_interval_steps:
        return replace(resolved, snapshot_interval_steps=interval_steps)
    return replace(resolved, interval_steps=interval_steps)


def choices_at(resolved: ResolvedJob, redundancies: Sequence[int]) -> list[Choice]:
    """Return a choice for each redundancy, the best first."""
    settings = [at_redundancy(resolved, redundancy) for redundancy in redundancies]
    if wants_best_period(resolved):
        best = predictions(resolved, [(redundancy, None) for redundancy in redundancies])
        settings = [
            at_complete_snapshots(setting, prediction.interval_steps)
            for setting, prediction in zip(settings, best, strict=True)
        ]
    return sorted(choices_for(resolved, settings), key=lambda choice: choice.ratio)


def choices_for(resolved: ResolvedJob, settings: Sequence[ResolvedJob]) -> list[Choice]:
    """Return the choices of jobs that differ in redundancy and intervals, in their order."""
    if not has_course(resolved):
        return [_choice_by_plain_forms(setting) for setting in settings]
    chosen = []
    for setting in settings:
        # If the interval is longer than the job, one checkpoint is at its end.
        interval = setting.snapshot_interval_steps or setting.interval_steps
        limited = at_interval(setting, min(interval, setting.scenario.job.steps))
        chosen.append((setting.redundancy, limited.kept_every_steps))
    predicted = predictions(resolved, chosen)
    return [_choice_by_course(*pair) for pair in zip(settings, predicted, strict=True)]


def wants_best_period(resolved: ResolvedJob) -> bool:
    """Return whether `Choice.interval_steps` is open and follows from the lifetimes."""
    checkpoint, protected = resolved.scenario.checkpoint, resolved.protected
    if checkpoint.period != "of-lives" or not has_course(resolved):
        return False
    if protected.protection.peers is None:
        return checkpoint.interval_steps is None
    takes_snapshots = protected.protection.takes_snapshots
    return takes_snapshots and resolved.scenario.protection.interval_steps is None


def at_complete_snapshots(resolved: ResolvedJob, interval_steps: int) -> ResolvedJob:
    """Return a job at an interval, or at the shortest in which each snapshot is completed."""
    protected = resolved.protected
    lag_s = 0.0
    if protected.in_background:
        in_memory = resolved.snapshot_interval_steps > 0
        lag_s = (protected.snapshot_cost if in_memory else protected.persist_cost).lag_s
    step_s = resolved.strategy().step_s(resolved.costs())
    return at_interval(resolved, max(interval_steps, ceil(lag_s / step_s)))


def has_course(resolved: ResolvedJob) -> bool:
    """Return whether the job's scheme has a closed form of its course of failures."""
    return isinstance(resolved.strategy(), Predictable)


def _choice_by_course(resolved: ResolvedJob, prediction: Prediction) -> Choice:
    scenario = resolved.scenario
    rough = (
        scenario.rejoin.when != "at-restart"
        or scenario.checkpoint.policy != "fixed"
        or not isinstance(resolved.failures, IndependentGroups)
    )
    return Choice(
        resolved,
        prediction.time_to_train_ratio,
        prediction.availability,
        prediction.steps_per_life,
        prediction.step_s,
        rough,
        prediction.holds_for(scenario.job.steps) and not _rejoins(resolved),
    )


def _rejoins(resolved: ResolvedJob) -> bool:
    """Return whether groups return between restarts, which no closed form covers.

    A scheme that masks no failure has no such groups.
    """
    is_open = resolved.scenario.rejoin.when != "at-restart"
    return is_open and resolved.strategy().masked_failures() > 1.0


def _choice_by_plain_forms(resolved: ResolvedJob) -> Choice:
    """Return a choice by the objective J(r) of Lee et al. 2026 (SPARe).

    The compute time includes the wait for the slowest of N groups, with each shard type as a batch
    of its own.
    """
    scenario = resolved.scenario
    job, scheme = scenario.job, resolved.strategy()
    costs = resolved.protected.costs_of_memory(resolved.costs())
    time_to_failure_s = scheme.masked_failures() * costs.mtbf_s
    work = scheme.checked_work_per_step()
    slowest = float(largest_of_normals([job.groups])[0]) * resolved.jitter
    step_s = costs.compute_s * (work + work**0.5 * slowest) + costs.all_reduce_s
    interval = resolved.kept_every_steps
    period_s = costs.save_s + min(interval, job.steps) * step_s
    availability = costs.availability(period_s, time_to_failure_s)
    return Choice(
        resolved,
        step_s / resolved.ideal_step_s / availability if availability else inf,
        time_to_failure_s / (time_to_failure_s + costs.restart_s),
        time_to_failure_s / (period_s / interval),
        step_s,
        True,
        is_prediction=availability > 0.0
        and not scheme.tracks_components
        and not _rejoins(resolved),
    )


def predict_job(resolved: ResolvedJob) -> Prediction:
    """Predict the result of the replay engine; a UserError if there are no closed forms."""
    return predictions(resolved, [(resolved.redundancy, resolved.kept_every_steps)])[0]


def predictions(
    resolved: ResolvedJob, chosen: Sequence[tuple[int, int | None]]
) -> list[Prediction]:
    """Predict the results of the replay engine for a job with other redundancies and intervals.

    The closed forms assume:

    - Groups have run for long, so the phases of their failure clocks are random. This holds for all
      lives but the first few.
    - A failure of several groups counts as independent failures of one group each, without memory.
    - Each node finds the state in its own memory, if it is kept there.
    - Replication's controller handles all failures of a step, even if `controller_sees` = "lowest".
    - The job ends with a wipe-out; a simulated one ends with its last step.

    Each of `chosen` is a redundancy, and the steps between two kept states; None for the best
    interval. A UserError reports a scheme without closed forms.
    """
    scenario = resolved.scenario
    groups, rules = scenario.job.groups, resolved.rules
    restart_s, lifetimes = _after_a_restart(resolved, rules)
    extra, options = _step_costs(resolved, rules), scenario.strategy.options()
    results = []
    for redundancy, pairs in groupby(chosen, key=lambda pair: pair[0]):
        scheme = scheme_of(scenario, redundancy)
        costs = _costs(resolved, scheme, restart_s)
        course = _course(type(scheme), groups, redundancy, options, scheme.shape)
        results += [predict(course, lifetimes, costs, extra, steps) for _, steps in pairs]
    return results


@lru_cache(maxsize=128)
def _course(
    scheme: type[Strategy],
    groups: int,
    redundancy: int,
    options: StrategyOptions,
    shape: JobShape,
) -> FailureCourse:
    """Return a scheme's course of failures, which is independent of failure rates."""
    built = scheme(groups, redundancy, options, shape)
    if not isinstance(built, Predictable):
        raise UserError(
            f"strategy.name = {scheme.name}: this scheme has no closed forms; "
            "give it a failure_course, or run it"
        )
    return built.failure_course()


def _after_a_restart(resolved: ResolvedJob, rules: Rules) -> tuple[float, GroupLifetimes]:
    """Return the time of a restart without loading, in seconds, and the lifetimes after it."""
    groups, lifetimes = resolved.scenario.job.groups, resolved.failures.lifetimes
    begins_anew = rules.failure_in_restart == "begins-anew"
    surfaces = rules.failure_while_waiting == "surfaces"
    return _lives(groups, lifetimes, resolved.restart_s, begins_anew, surfaces)


_SHORTEST_RESTART_S = 1e-12
"""Shorter times count as zero: their parts cannot be distinguished."""


@lru_cache(maxsize=128)  # A plan asks for each of its samples under each scheme.
def _lives(
    groups: int, distribution: Distribution, restart_s: float, begins_anew: bool, surfaces: bool
) -> tuple[float, GroupLifetimes]:
    """Compute `_after_a_restart`, the slowest part of a prediction, once for all schemes."""
    remaining = stationary_excess(distribution.survival, distribution.mean_s)
    # A restart of zero length has no failures.
    if not begins_anew or restart_s < _SHORTEST_RESTART_S:
        return restart_s, GroupLifetimes(groups, remaining)
    wait = wait_for_slowest(groups, restart_s, distribution.survival, remaining)
    return wait.mean_s, GroupLifetimes(groups, wait.survival if surfaces else remaining)


def _costs(resolved: ResolvedJob, scheme: Strategy, restart_s: float) -> Costs:
    job, durations = resolved.scenario.job, resolved.durations
    save_s = durations.save_s
    if not scheme.checkpoint_waits:
        # The writer's delay is partly hidden by the wait for the slowest group.
        slowest = float(largest_of_normals([job.groups])[0]) * resolved.jitter
        save_s = max(0.0, save_s - slowest * resolved.compute_s * scheme.redundancy)
    protected = resolved.protected
    if protected.protection.peers is None:
        restart_s += durations.load_s
    costs = replace(resolved.costs(), save_s=save_s, restart_s=restart_s)
    return protected.costs_of_memory(costs) if protected.in_background else costs


def _step_costs(resolved: ResolvedJob, rules: Rules) -> LoopCosts:
    scenario, durations = resolved.scenario, resolved.durations
    all_reduce_s = durations.all_reduce_s(scenario.job.groups)
    failed_s = rules.failed_all_reduce_fraction * all_reduce_s
    if rules.detection == "watchdog":
        failed_s = rules.watchdog_s
    return LoopCosts(
        jitter=resolved.jitter,
        failed_all_reduce_s=failed_s + durations.recovery.duration_s(SHRINK),
        spared_all_reduce_s=all_reduce_s if rules.fixed_step == "commits" else 0.0,
        restart_loses_steps=1 if rules.resume == "redo" else 0,
        undisturbed_s=resolved.ideal_step_s,
    )
