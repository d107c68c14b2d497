"""From a scenario to a job, a scheme and a platform: every unset value filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.choices import Choice, at_redundancy, choices_at, wants_best_period
from faultline.experiments.job.failure_model import failure_model, job_layout
from faultline.experiments.job.platform_files import (
    check_platform,
    explaining_aborts,
    platform_file,
    traffic_of,
)
from faultline.experiments.job.protect import protect
from faultline.experiments.job.protected import Protected
from faultline.simulator.durations import AllReduceTime, ConstantTime
from faultline.simulator.failures.models import FailureModel
from faultline.simulator.job import Durations, Job, Rules, Work
from faultline.simulator.probe_cache import cached_probe
from faultline.simulator.simgrid_engine.probes import ProbeResult
from faultline.strategies.base import Strategy
from faultline.strategies.checkpoint_policies import (
    CheckpointPolicy,
    EverySteps,
    FollowingHazard,
    Never,
)
from faultline.strategies.registry import strategy_class


@dataclass(frozen=True, slots=True)
class ResolvedJob:
    """A scenario with every value filled in.

    Attributes
    ----------
    scenario : Scenario
        What was asked.
    redundancy, interval_steps : int
        Stated, or the best by the scheme's closed forms.
    durations : Durations
        Stated, or measured on the platform.
    protected : Protected
        How the state is kept.
    """

    scenario: Scenario
    redundancy: int
    interval_steps: int
    durations: Durations
    protected: Protected

    @property
    def rules(self) -> Rules:
        """The scenario's named choices as the engines know them."""
        return rules_of(self.scenario)

    def strategy(self) -> Strategy:
        """Return the scheme at its start.

        Raises
        ------
        StrategyError
            If it cannot be built for this job.
        """
        chosen = self.scenario.strategy
        scheme = strategy_class(chosen.name)
        return scheme(self.scenario.job.groups, self.redundancy, chosen.options())

    def checkpoint_policy(self) -> CheckpointPolicy:
        """Return what decides when a checkpoint is due."""
        if self.scenario.checkpoint.policy == "fixed":
            return EverySteps(self.interval_steps)
        failures = failure_model(self.scenario)
        return FollowingHazard(
            self.durations.save_s,
            self.durations.restart_s + self.durations.load_s,
            self.scenario.job.groups,
            failures.group_failure_rate(),
            self.strategy().forces_restart(),
        )

    def job(self, seed: int) -> Job:
        """Return the job for one seed."""
        table = self.scenario.job
        due = self.checkpoint_policy()
        work = Work(
            table.groups,
            table.steps,
            table.compute_s,
            table.compute_jitter,
            table.minimum_compute_factor,
            Never() if self.protected.in_background else due,
            table.time_limit_s,
            table.give_up_after_restarts,
            self.scenario.rejoin.spare_groups,
            self.scenario.rejoin.repair_s,
            self.protected.tiers(due),
            job_layout(self.scenario),
        )
        return Job(work, self.rules, self.durations, failure_model(self.scenario), seed)


def resolve(scenario: Scenario, known: Durations | None = None) -> ResolvedJob:
    """Fill in what a scenario leaves open.

    Redundancy and intervals are the first of `settings_of`, as in a plan.

    Parameters
    ----------
    scenario : Scenario
        What was asked.
    known : Durations, optional
        What `durations_of` returned for a scenario that differs in nothing it depends on; by
        default they are looked up, and measured on the platform where the scenario asks for that.
    """
    question, redundancies = _open_question(scenario, known)
    if len(redundancies) == 1 and not wants_best_period(question):
        return at_redundancy(question, redundancies[0])
    return choices_at(question, redundancies)[0].question


def settings_of(scenario: Scenario, known: Durations | None = None) -> list[Choice]:
    """Return all settings that a scenario leaves open, the best by closed forms first.

    Parameters
    ----------
    scenario, known
        As in `resolve`.

    Returns
    -------
    list of Choice
        One for each redundancy, or the one that is stated, with its intervals.
    """
    question, redundancies = _open_question(scenario, known)
    return choices_at(question, redundancies)


def _open_question(
    scenario: Scenario, known: Durations | None
) -> tuple[ResolvedJob, Sequence[int]]:
    """Return a question with everything but redundancy and intervals, and what is to choose from.

    Its own redundancy is the first, and its interval 1.
    """
    check_platform(scenario)
    durations = known or durations_of(scenario)
    _check_possible(scenario, durations, failure_model(scenario))
    chosen = scenario.strategy
    redundancies: Sequence[int] = [chosen.redundancy] if chosen.redundancy else ()
    redundancies = redundancies or strategy_class(chosen.name).redundancies(
        scenario.job.groups, chosen.options()
    )
    question = ResolvedJob(scenario, redundancies[0], 1, durations, protect(scenario, durations))
    return question, redundancies


def _check_possible(scenario: Scenario, durations: Durations, failures: FailureModel) -> None:
    """Refuse what would never end, or what has no meaning.

    Raises
    ------
    UserError
        If no group would ever come up again, or the watchdog fires in a sound all-reduce.
    """
    restart_s = durations.restart_s
    repair_s = restart_s + durations.load_s + durations.controller_s
    table = scenario.failures
    named = "failures.mtbf_s"
    if table.model == "trace" or (table.model == "mix" and table.rate == "model"):
        named = f"the {table.process}'s mean time between failures"
    if repair_s > 1e7 * failures.mtbf_s:
        raise UserError(
            f"{named} = {failures.mtbf_s:g}: more than ten million failures fall into one restart "
            f"of {repair_s:g} s; raise it, or shorten the restart"
        )
    if scenario.restart.failure_during == "begins-anew":
        unharmed = failures.survival(restart_s)
        if unharmed < 1e-3:
            raise UserError(
                f"{named} = {failures.mtbf_s:g}: a restart of {restart_s:g} s gets through without "
                f"another failure with probability {unharmed:.1g} only; "
                'raise it, or set restart.failure_during = "absorbed"'
            )
    all_reduce_s = durations.all_reduce_s(scenario.job.groups)
    if scenario.detection.mode == "watchdog" and scenario.detection.watchdog_s <= all_reduce_s:
        raise UserError(
            f"detection.watchdog_s = {scenario.detection.watchdog_s:g}: fires in a sound "
            f"all-reduce, which takes {all_reduce_s:g} s; use more than that"
        )


def rules_of(scenario: Scenario) -> Rules:
    """Return the scenario's named choices as the engines know them."""
    return Rules(
        clock=scenario.failures.clock,
        detection=scenario.detection.mode,
        failed_all_reduce_fraction=scenario.all_reduce.failed_fraction,
        watchdog_s=scenario.detection.watchdog_s,
        failure_in_all_reduce=scenario.detection.failure_in_all_reduce,
        fixed_step=scenario.all_reduce.fixed_step,
        failure_in_restart=scenario.restart.failure_during,
        failure_while_waiting=scenario.restart.failure_while_waiting,
        resume=scenario.restart.resume,
        failed_writer=scenario.checkpoint.failed_writer,
        rejoin=scenario.rejoin.when,
    )


def durations_of(scenario: Scenario) -> Durations:
    """Return the times of the job's phases, measured where the scenario says so."""
    reduce, checkpoint, restart = scenario.all_reduce, scenario.checkpoint, scenario.restart
    all_reduce_s: AllReduceTime | None = None
    save_s, load_s, load_growth_s, unevenness = None, 0.0, 0.0, 0.0
    if reduce.time == "stated":
        each_s, groups = reduce.time_per_group_s, scenario.job.groups
        all_s = reduce.time_s if each_s is None or reduce.time_s is not None else each_s * groups
        all_reduce_s = ConstantTime(_stated(all_s, "all_reduce.time", "time_s"))
    if checkpoint.write == "stated":
        save_s = _stated(checkpoint.write_s, "checkpoint.write", "write_s")
    if is_measured(scenario):
        measured = measure(scenario)
        if reduce.time == "measured":
            all_reduce_s = measured.ring_time()
            unevenness = measured.ring_unevenness
        if checkpoint.write == "measured":
            save_s = measured.save_s
            unevenness = max(unevenness, measured.storage_unevenness)
        if restart.load == "measured":
            load_s, load_growth_s = measured.load_s, measured.load_growth_s
            unevenness = max(unevenness, measured.storage_unevenness)
    assert all_reduce_s is not None, "stated or measured"
    assert save_s is not None, "stated or measured"
    return Durations(
        all_reduce_s,
        save_s,
        load_s,
        restart_time_s(scenario),
        controller_time_s(scenario),
        restart.shrink_per_member_s,
        save_s if scenario.rejoin.time_s is None else scenario.rejoin.time_s,
        unevenness,
        load_growth_s,
    )


def is_measured(scenario: Scenario) -> bool:
    """Return whether any time of the job is to be measured on its platform: that takes a while."""
    return "measured" in (
        scenario.all_reduce.time,
        scenario.checkpoint.write,
        scenario.restart.load,
    )


def restart_time_s(scenario: Scenario) -> float:
    """Return the seconds of a group's restart without loading: stated, or modelled by GPUs."""
    restart = scenario.restart
    if restart.time == "stated":
        return _stated(restart.duration_s, "restart.time", "duration_s")
    growth = (
        scenario.job.all_gpus / restart.initialisation_gpus
    ) ** restart.initialisation_exponent
    return float(restart.scheduling_s + restart.initialisation_s * growth)


def controller_time_s(scenario: Scenario) -> float:
    """Return the seconds in which the job shrinks; where open, by the time of a new communicator.

    NCCLX (arXiv 2510.20171) makes one of 8k, 32k, 96k GPUs in 3.97, 11.9, 24.0 s.
    """
    stated = scenario.restart.controller_s
    return float(0.88 * (scenario.job.all_gpus / 1000) ** 0.72) if stated is None else stated


def _stated(value_s: float | None, choice: str, key: str) -> float:
    if value_s is None:
        table = choice.partition(".")[0]
        raise UserError(f'{choice} = "stated": needs {table}.{key}')
    return value_s


def measure(scenario: Scenario) -> ProbeResult:
    """Return what SimGrid measures for this job on its platform."""
    path = platform_file(scenario)
    with explaining_aborts(path):
        return cached_probe(path, traffic_of(scenario, path))
