"""A job with every unset value filled in, and what the simulator gets of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from typing import TYPE_CHECKING

from faultline.experiments.config.keys import KeyPath, schema_keys, value_at
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.job import HUNDRED_YEARS_S, JobTable
from faultline.experiments.job.disturbances import disturbances
from faultline.experiments.job.failure_model import job_layout
from faultline.experiments.job.hardware import (
    awaits_repairs,
    breakage_of,
    free_machines_of,
    standbys_of,
)
from faultline.experiments.job.job_shape import scheme_of
from faultline.experiments.job.protected import Protected
from faultline.experiments.job.sources import Number, sources_of
from faultline.experiments.job.step_times import jitter_of_passes, step_times
from faultline.experiments.job.workload import Source, Workload
from faultline.simulator.failures.models import FailureModel
from faultline.simulator.job.compute_times import LEAST_COMPUTE_FACTOR
from faultline.simulator.job.durations import Durations
from faultline.simulator.job.job import Job, Rules
from faultline.simulator.job.work import Hardware, Saving, Work
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

    @property
    def hardware(self) -> Hardware:
        """The machines of the job, and those that replace failed ones."""
        scenario, broken = self.scenario, breakage_of(self.scenario, self.failures)
        return Hardware(
            job_layout(scenario),
            repair_s=scenario.rejoin.repair_s,
            spare_groups=scenario.rejoin.spare_groups,
            standbys=standbys_of(scenario),
            standby_s=scenario.recovery.standby_s,
            replenish_s=scenario.recovery.replenish_s,
            standby_repair_s=broken.mean_repair_s,
            standby_life_s=broken.mean_life_s,
            free_machines=free_machines_of(scenario),
            replacement_s=self._replacement_s,
        )

    @property
    def saving(self) -> Saving:
        """When and where the job saves its state."""
        due, writes = self.checkpoint_policy(), {}
        if self.durations.write_beside is not None:
            writes["storage"] = self.durations.write_beside
        if self.protected.overlapped is not None:
            writes["memory"] = self.protected.overlapped.times
        tiers = self.protected.tiers(
            due, self.snapshot_interval_steps, simulated="storage" in writes
        )
        return Saving(Never() if self.protected.in_background else due, tiers, writes)

    def job(self, seed: int) -> Job:
        """Return the job for one seed."""
        scenario, table, durations = self.scenario, self.scenario.job, self.durations
        uneven = durations.rings_are_uneven
        times = step_times(scenario, self.step, self.compute_s, rings_are_uneven=uneven)
        work = Work(
            table.groups,
            table.steps,
            self.compute_s,
            table.compute_jitter,
            table.time_limit_s,
            table.give_up_after_restarts,
            scenario.strategy.approximation_loss,
            times,
        )
        hindered = disturbances(scenario, self.failures, durations, times, seed)
        return Job(
            work, self.hardware, self.saving, self.rules, durations, self.failures, seed, hindered
        )


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


def restart_with_repairs_s(
    scenario: Scenario, durations: Durations, failures: FailureModel, needed: Recovery = RESTART
) -> float:
    """Return the time of a restart without loading, in seconds, with the mean wait for a repair."""
    if not (needed.replaces_hardware and awaits_repairs(scenario)):
        return durations.restart_s(needed)
    alone_s = durations.restart_s(replace(needed, replaces_hardware=False))
    return alone_s + breakage_of(scenario, failures).mean_repair_s


def restart_of(scenario: Scenario) -> Recovery:
    """Return what a restart of a scenario's scheme needs."""
    return strategy_class(scenario.strategy.name).restart_recovery()


@cache
def _rules() -> dict[str, KeyPath]:
    """Return the key of each rule."""
    rules = {path: key.rule for path, key in schema_keys(Scenario).items()}
    return {rule: path for path, rule in rules.items() if rule is not None}
