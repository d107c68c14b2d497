"""A job with every unset value filled in, and what the simulator gets of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import inf
from typing import TYPE_CHECKING

from faultline.experiments.config.keys import KeyPath, schema_keys, value_at
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.job import HUNDRED_YEARS_S, LEAST_COMPUTE_FACTOR, JobTable
from faultline.experiments.job.disturbances import disturbances, slow_response
from faultline.experiments.job.durations import (
    MovesOnPlatform,
    free_machines_of,
    standbys_of,
)
from faultline.experiments.job.failure_model import (
    job_layout,
    mean_machine_life_s,
    mean_repair_s,
    reactions_of,
)
from faultline.experiments.job.job_shape import scheme_of
from faultline.experiments.job.platform_files import is_as_generated
from faultline.experiments.job.protected import Protected
from faultline.experiments.job.sources import Number, sources_of
from faultline.experiments.job.step_times import (
    jitter_of_passes,
    step_times,
)
from faultline.experiments.job.workload import Source, Workload
from faultline.simulator.failures.models import FailureModel
from faultline.simulator.failures.random_streams import Purpose, stream
from faultline.simulator.job.durations import Durations
from faultline.simulator.job.job import Job, Rules
from faultline.simulator.job.work import Work
from faultline.strategies.interface.recovery import RESTART, Recovery
from faultline.strategies.interface.scheme import Strategy
from faultline.strategies.plugins.registry import strategy_class
from faultline.strategies.protection.checkpoint_policies import (
    CheckpointPolicy,
    EverySteps,
    FollowingHazard,
    Never,
)
from faultline.strategies.theory.checkpoint_period import Costs
from faultline.strategies.theory.prediction import largest_of_normals

if TYPE_CHECKING:
    from faultline.simulator.job.durations import StepTime


@dataclass(frozen=True, slots=True)
class ResolvedJob:
    """A scenario with every value filled in."""

    scenario: Scenario  # As stated.
    # Stated, or the best by the scheme's closed forms.
    redundancy: int
    interval_steps: int  # Steps between checkpoints on storage.
    workload: Workload  # The work of a group in an undisturbed step.
    durations: Durations  # Stated, or measured on the platform.
    protected: Protected  # The protection of the state.
    # The scenario's failures, unless the caller replaces them.
    failures: FailureModel = field(compare=False, repr=False)
    snapshot_interval_steps: int = 0  # Steps between snapshots in memory; 0 without snapshots.

    @property
    def rules(self) -> Rules:
        """The scenario's choices as rules of the engines."""
        return Rules(**{rule: value_at(self.scenario, path) for rule, path in _rules().items()})

    @property
    def compute_s(self) -> float:
        """Time in which a group computes one shard type, in seconds."""
        return self.workload.compute_s

    @property
    def step(self) -> StepTime | None:
        """The parts of an undisturbed step, if it is simulated on the platform."""
        return self.workload.step

    @property
    def ideal_step_s(self) -> float:
        """Time of a step without redundancy, failures and checkpoints, in seconds."""
        job = self.scenario.job
        return undisturbed_step_s(job, self.compute_s, self.durations, self.jitter)

    @property
    def jitter(self) -> float:
        """Standard deviation of the time of passes, as a share of it."""
        return jitter_of_passes(self.scenario)

    @property
    def _replacement_s(self) -> float:
        """Seconds until a dropped group starts on other machines, as in a restart.

        They are free machines, or those of a shared cluster (``recovery.shortage``).
        """
        scenario, prices = self.scenario, self.durations.recovery
        if free_machines_of(scenario) is None and scenario.recovery.shortage == "wait":
            return inf
        needed = RESTART.without_standbys()
        detect_s = prices.detect_s if prices.whole_s(needed) is None else 0.0
        return prices.duration_s(needed) - detect_s

    @property
    def sources(self) -> dict[Number, Source]:
        """The source of each number: stated, derived, or measured by SimGrid."""
        return sources_of(self.scenario, self.workload, self.durations.recovery)

    @property
    def restart_s(self) -> float:
        """Time of a restart without loading, in seconds, with the mean wait for a repair."""
        needed = restart_of(self.scenario)
        return restart_with_repairs_s(self.scenario, self.durations, self.failures, needed)

    def costs(self) -> Costs:
        """Return the inputs of closed forms if checkpoints are on storage."""
        job, durations = self.scenario.job, self.durations
        return Costs(
            mtbf_s=self.failures.mtbf_s,
            save_s=durations.save_s,
            restart_s=self.restart_s + durations.load_s,
            compute_s=self.compute_s,
            all_reduce_s=durations.all_reduce_s(job.groups),
        )

    @property
    def standbys(self) -> int:
        """Number of standby machines."""
        return standbys_of(self.scenario)

    @property
    def kept_every_steps(self) -> int:
        """Steps between two states that a restart may load; 1 if only a failure saves the state."""
        if self.protected.protection.peers is None:
            return self.interval_steps
        return self.snapshot_interval_steps or 1

    def shortened(self, steps: int, time_limit_s: float | None = None) -> ResolvedJob:
        """Return the job with another number of steps and limit of simulated time."""
        limit_s = HUNDRED_YEARS_S if time_limit_s is None else time_limit_s
        changes = {"job.tokens": None, "job.steps": steps, "job.time_limit_s": limit_s}
        return replace(self, scenario=self.scenario.change(changes))

    def strategy(self) -> Strategy:
        """Return the scheme in its first state; a StrategyError if the job cannot use it."""
        return scheme_of(self.scenario, self.redundancy)

    def checkpoint_policy(self) -> CheckpointPolicy:
        """Return the policy that decides when a checkpoint is due."""
        if self.scenario.checkpoint.policy == "fixed":
            return EverySteps(self.interval_steps)
        return FollowingHazard(
            self.durations.save_s,
            self.restart_s + self.durations.load_s,
            self.scenario.job.groups,
            self.failures.group_failure_rate(),
            self.strategy().forces_restart(),
        )

    def read_ahead(self) -> None:
        """Read the platform, so that forked processes have it."""
        is_as_generated(self.scenario)
        if isinstance(self.durations.moves, MovesOnPlatform):
            self.durations.moves.read_ahead()

    def job(self, seed: int) -> Job:
        """Return the job for one seed."""
        scenario, table, recovery = self.scenario, self.scenario.job, self.scenario.recovery
        due, writes = self.checkpoint_policy(), {}
        if self.durations.write_beside is not None:
            writes["storage"] = self.durations.write_beside
        if self.protected.overlapped is not None:
            writes["memory"] = self.protected.overlapped.times
        tiers = self.protected.tiers(
            due, self.snapshot_interval_steps, simulated="storage" in writes
        )
        uneven = self.durations.rings_are_uneven
        times = step_times(scenario, self.step, self.compute_s, rings_are_uneven=uneven)
        work = Work(
            groups=table.groups,
            steps=table.steps,
            compute_s=self.compute_s,
            compute_jitter=table.compute_jitter,
            minimum_factor=LEAST_COMPUTE_FACTOR,
            checkpoint_policy=Never() if self.protected.in_background else due,
            time_limit_s=table.time_limit_s,
            give_up_after_restarts=table.give_up_after_restarts,
            spare_groups=scenario.rejoin.spare_groups,
            repair_s=scenario.rejoin.repair_s,
            replacement_s=self._replacement_s,
            tiers=tiers,
            layout=job_layout(scenario),
            standbys=self.standbys,
            replenish_s=recovery.replenish_s,
            standby_repair_s=mean_repair_s(scenario, self.failures),
            standby_s=recovery.standby_s,
            standby_lives=partial(self._standby_lives, seed),
            disturbances=disturbances(
                scenario, self.failures, self.durations.all_reduce_s, self.step, times, seed
            ),
            step_times=times,
            reactions=reactions_of(scenario),
            approximation_loss=scenario.strategy.approximation_loss,
            simulates_steps=self.step is not None,
            writes=writes,
            slow_response=slow_response(scenario, self.durations, self.step),
            free_machines=free_machines_of(scenario),
            gradients_hide=self.step is not None and scenario.model.gradient_overlap > 0.0,
        )
        return Job(work, self.rules, self.durations, self.failures, seed)

    def _standby_lives(self, seed: int) -> Iterator[float]:
        """Yield exponential lifetimes of standbys, with the mean of the job's machines."""
        drawn = stream(seed, Purpose.STANDBY_LIVES)
        mean_s = mean_machine_life_s(self.scenario, self.failures)
        while True:
            yield float(drawn.exponential(mean_s))


def undisturbed_step_s(
    job: JobTable, compute_s: float, durations: Durations, jitter: float | None = None
) -> float:
    """Return the mean time of a step without redundancy, failures and checkpoints, in seconds.

    `jitter` is the standard deviation of the time of passes, as a share of it; by default it is
    that of `compute_s`, the compute time of a group without jitter, in seconds.
    """
    drawn = job.compute_jitter if job.undisturbed_step == "with-jitter" else 0.0
    slowest = _mean_slowest(job.groups, drawn) if drawn else 1.0
    if drawn and jitter is not None:
        slowest = 1.0 + (slowest - 1.0) * jitter / drawn
    return compute_s * slowest + durations.all_reduce_s(job.groups)


@cache
def _mean_slowest(groups: int, jitter: float) -> float:
    """Return the mean of the largest of `groups` random factors on the time of a shard type."""
    least = (LEAST_COMPUTE_FACTOR - 1.0) / jitter
    return 1.0 + jitter * float(largest_of_normals([groups], least)[0])


def awaits_repairs(scenario: Scenario) -> bool:
    """Return whether a failed machine has no replacement, so that the job waits for its repair."""
    has_others = standbys_of(scenario) or free_machines_of(scenario) != 0
    return scenario.recovery.price("hardware") == "repaired" or not has_others


def restart_with_repairs_s(
    scenario: Scenario, durations: Durations, failures: FailureModel, needed: Recovery = RESTART
) -> float:
    """Return the time of a restart without loading, in seconds, with the mean wait for a repair."""
    if not (needed.replaces_hardware and awaits_repairs(scenario)):
        return durations.restart_s(needed)
    alone_s = durations.restart_s(replace(needed, replaces_hardware=False))
    return alone_s + mean_repair_s(scenario, failures)


def restart_of(scenario: Scenario) -> Recovery:
    """Return what a restart of a scenario's scheme needs."""
    return strategy_class(scenario.strategy.name).restart_recovery()


@cache
def _rules() -> dict[str, KeyPath]:
    """Return the key of each rule."""
    rules = {path: key.rule for path, key in schema_keys(Scenario).items()}
    return {rule: path for path, rule in rules.items() if rule is not None}
