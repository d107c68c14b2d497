"""A scenario with every unset value filled in, and the job and the scheme that follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import inf
from typing import TYPE_CHECKING

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import KeyPath, schema_keys, value_at
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.job import HUNDRED_YEARS_S, LEAST_COMPUTE_FACTOR, JobTable
from faultline.experiments.config.tables.recovery import OPEN_PRICES
from faultline.experiments.job.choices import (
    at_redundancy,
    choices_at,
    predictions,
    wants_best_period,
)
from faultline.experiments.job.disturbances import disturbances, slow_response
from faultline.experiments.job.durations import (
    MovesOnPlatform,
    durations_of,
    free_machines_of,
    standbys_of,
)
from faultline.experiments.job.failure_model import (
    failure_model,
    job_layout,
    mean_machine_life_s,
    mean_repair_s,
    reactions_of,
    stated_mtbf_s,
)
from faultline.experiments.job.job_shape import job_shape, scheme_of
from faultline.experiments.job.platform_files import (
    check_platform,
    is_as_generated,
    reduces_on_network,
    state_bytes,
)
from faultline.experiments.job.protected import Protected, protect
from faultline.experiments.job.step_times import (
    jitter_of_passes,
    step_times,
)
from faultline.experiments.job.workload import Source, Workload, workload_of
from faultline.simulator.failures.models import FailureModel
from faultline.simulator.failures.random_streams import Purpose, stream
from faultline.simulator.failures.trace import Trace
from faultline.simulator.job.durations import Durations
from faultline.simulator.job.job import Job, Rules
from faultline.simulator.job.work import Work
from faultline.strategies.interface.recovery import RESTART, SHRINK, Recovery
from faultline.strategies.interface.scheme import Strategy
from faultline.strategies.plugins.registry import strategy_class
from faultline.strategies.protection.checkpoint_policies import (
    CheckpointPolicy,
    EverySteps,
    FollowingHazard,
    Never,
)
from faultline.strategies.theory.checkpoint_period import Costs
from faultline.strategies.theory.prediction import Prediction, largest_of_normals

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
        return prices.duration_s(needed) - (0.0 if prices.states(needed) else prices.detect_s)

    @property
    def sources(self) -> dict[str, Source]:
        """The source of each phase's time: stated, derived, or measured by SimGrid."""
        times, measured = self.scenario.times, self.scenario.measured
        known = self.durations.recovery.stated_s
        kinds = strategy_class(self.scenario.strategy.name).recoveries
        return {
            "compute": self.workload.source,
            "all_reduce": "measured" if measured.all_reduce else "stated",
            "checkpoint": "measured" if measured.checkpoint else "stated",
            "load": "measured" if measured.load else "stated",
            "snapshot": "stated" if times.states_snapshots else "measured",
            "restart": "stated" if "restart" in known else "derived",
            "recovery": "stated" if set(kinds) <= set(known) else "derived",
        }

    @property
    def restart_s(self) -> float:
        """Time of a restart without loading, in seconds, with the mean wait for a repair."""
        needed = _restart_of(self.scenario)
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

    def predict(self) -> Prediction:
        """Predict the result of the replay engine; a UserError if there are no closed forms."""
        return predictions(self, [(self.redundancy, self.kept_every_steps)])[0]

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
        table, usual_s = self.scenario.job, self.scenario.rejoin.repair_s
        due = self.checkpoint_policy()
        uneven = self.durations.rings_are_uneven
        times = step_times(self.scenario, self.step, self.compute_s, rings_are_uneven=uneven)
        writes = {}
        if self.durations.write_beside is not None:
            writes["storage"] = self.durations.write_beside
        if self.protected.overlapped is not None:
            writes["memory"] = self.protected.overlapped.times
        hides = self.step is not None and self.scenario.model.gradient_overlap > 0.0
        work = Work(
            table.groups,
            table.steps,
            self.compute_s,
            table.compute_jitter,
            LEAST_COMPUTE_FACTOR,
            Never() if self.protected.in_background else due,
            table.time_limit_s,
            table.give_up_after_restarts,
            self.scenario.rejoin.spare_groups,
            usual_s,
            self._replacement_s,
            self.protected.tiers(due, self.snapshot_interval_steps, simulated="storage" in writes),
            job_layout(self.scenario),
            self.standbys,
            self.scenario.recovery.replenish_s,
            mean_repair_s(self.scenario, self.failures),
            self.scenario.recovery.standby_s,
            partial(self._standby_lives, seed),
            disturbances(
                self.scenario,
                self.failures,
                self.durations.all_reduce_s,
                self.workload,
                reduces_on_network(self.scenario),
                seed,
            ),
            times,
            reactions_of(self.scenario),
            self.scenario.strategy.approximation_loss,
            self.step is not None,
            writes,
            slow_response(self.scenario, self.durations, self.step),
            free_machines_of(self.scenario),
            hides,
        )
        return Job(work, self.rules, self.durations, self.failures, seed)

    def _standby_lives(self, seed: int) -> Iterator[float]:
        """Yield exponential lifetimes of standbys, with the mean of the job's machines."""
        drawn = stream(seed, Purpose.STANDBY_LIVES)
        mean_s = mean_machine_life_s(self.scenario, self.failures)
        while True:
            yield float(drawn.exponential(mean_s))


def resolve(
    scenario: Scenario, known: Durations | None = None, failures: FailureModel | None = None
) -> ResolvedJob:
    """Fill in the open keys of a scenario; the parameters are those of `open_job`.

    Redundancy and intervals are the first of `choices_at`, as in a plan.
    """
    resolved, redundancies = open_job(scenario, known, failures)
    if len(redundancies) == 1 and not wants_best_period(resolved):
        return at_redundancy(resolved, redundancies[0])
    return choices_at(resolved, redundancies)[0].question


def resolve_runnable(scenario: Scenario) -> ResolvedJob:
    """Fill in the open keys of a scenario, and refuse one that cannot be simulated."""
    resolved = resolve(scenario)
    resolved.strategy()
    resolved.job(seed=0)
    return resolved


def open_job(
    scenario: Scenario,
    known: Durations | None = None,
    failures: FailureModel | None = None,
    workload: Workload | None = None,
) -> tuple[ResolvedJob, Sequence[int]]:
    """Return a job without its redundancy and intervals, and the redundancies to choose from.

    The job has the first redundancy and interval 1; `choices.at_redundancy` changes them. `known`
    is the result of `durations_of` for a scenario with equal durations, and `workload` that of
    `workload_of`; they are not measured again. `failures` replace those of the scenario.
    """
    check_platform(scenario)
    workload = workload or workload_of(scenario)
    durations = known or durations_of(scenario, workload)
    failures = failures or failure_model(scenario)
    _check_possible(scenario, durations, failures)
    stated, scheme = scenario.strategy.redundancy, strategy_class(scenario.strategy.name)
    redundancies: Sequence[int] = [stated] if stated else ()
    if not redundancies:
        redundancies = scheme.redundancies(scenario.job.groups, scenario.strategy.options())
    protected = protect(scenario, durations, workload.compute_s)
    resolved = ResolvedJob(scenario, redundancies[0], 1, workload, durations, protected, failures)
    return resolved, redundancies


def _check_possible(scenario: Scenario, durations: Durations, failures: FailureModel) -> None:
    """Raise a UserError if restarts would never end, or the watchdog fires without a failure."""
    restart_s = durations.restart_s(_restart_of(scenario))
    shrinking_s = durations.recovery.duration_s(SHRINK)
    repair_s = restart_s + durations.load_s + shrinking_s
    table = scenario.failures
    named = "failures.mtbf_s"
    if table.model == "trace" or (table.model == "mix" and table.rate == "model"):
        named = f"the {table.process}'s mean time between failures"
    if repair_s > 1e6 * failures.mtbf_s:
        raise UserError(
            f"{named} = {failures.mtbf_s:g}: a restart of {repair_s:g} s has more than a million "
            "failures; raise it, or shorten the restart"
        )
    if scenario.restart.failure_during == "begins-anew":
        unharmed = failures.survival(restart_s)
        if unharmed < 1e-3:
            raise UserError(
                f"{named} = {failures.mtbf_s:g}: the probability of a restart of {restart_s:g} s "
                f"without another failure is only {unharmed:.1g}; "
                'raise it, or set restart.failure_during = "absorbed"'
            )
    all_reduce_s = durations.all_reduce_s(scenario.job.groups)
    if scenario.detection.mode == "watchdog" and scenario.detection.watchdog_s <= all_reduce_s:
        raise UserError(
            f"detection.watchdog_s = {scenario.detection.watchdog_s:g}: fires in a healthy "
            f"all-reduce, which takes {all_reduce_s:g} s; use more than that"
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


def _restart_of(scenario: Scenario) -> Recovery:
    return strategy_class(scenario.strategy.name).restart_recovery()


@cache
def _rules() -> dict[str, KeyPath]:
    """Return the key of each rule."""
    rules = {path: key.rule for path, key in schema_keys(Scenario).items()}
    return {rule: path for path, rule in rules.items() if rule is not None}


def filled_in(resolved: ResolvedJob) -> Scenario:
    """Return an equivalent scenario with every value stated."""
    scenario = resolved.scenario
    tables = scenario.model_dump()
    tables["strategy"]["redundancy"] = resolved.redundancy
    tables["checkpoint"]["interval_steps"] = resolved.interval_steps
    if resolved.workload.source == "measured" and resolved.step is None:
        # A stated compute time would lose the parts of a simulated step.
        tables["times"]["compute_s"] = resolved.compute_s
    shape = job_shape(scenario)
    tables["model"] |= {
        "stages_that_fit": shape.stages_that_fit or shape.stages,
        "least_stages": shape.least_stages,
        "least_tensor": shape.least_tensor,
    }
    tables["recovery"] |= {name: scenario.recovery.price(name) for name in OPEN_PRICES}
    tables["recovery"]["free_machines"] = free_machines_of(scenario)
    if not scenario.measured.all_reduce:
        groups = scenario.job.groups
        tables["times"]["all_reduce_s"] = resolved.durations.all_reduce_s(groups)
    if scenario.rejoin.when == "at-checkpoint":
        tables["times"]["rejoin_s"] = resolved.durations.recovery.stated_s.get("rejoin")
    if resolved.snapshot_interval_steps:
        tables["protection"]["interval_steps"] = resolved.snapshot_interval_steps
    tables["protection"]["state_bytes"] = state_bytes(scenario)
    tables["failures"] |= _failures_filled_in(resolved)
    return Scenario.model_validate(tables)


def _failures_filled_in(resolved: ResolvedJob) -> dict[str, object]:
    """Return the open keys of ``[failures]`` with their values."""
    scenario, table = resolved.scenario, resolved.scenario.failures
    layout = job_layout(scenario)
    filled: dict[str, object] = {"gpus_per_host": layout.gpus_per_host}
    if table.model == "independent" or (table.model == "mix" and table.rate == "mtbf"):
        filled["mtbf_s"] = stated_mtbf_s(scenario)
    if table.model != "independent":
        filled["gpus_per_domain"] = layout.gpus_per_domain
        filled["gpus_per_switch"] = layout.gpus_per_switch
    if table.model == "mix":
        filled["mix"] = table.mix or "llama3"
    if isinstance(resolved.failures, Trace):
        filled["trace_span_s"] = resolved.failures.span_s
    return filled
