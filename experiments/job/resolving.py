"""From a scenario to its resolved job: open keys are measured, derived or chosen."""

from __future__ import annotations

from collections.abc import Sequence

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.choices import at_redundancy, choices_at, wants_best_period
from faultline.experiments.job.durations import durations_of
from faultline.experiments.job.failure_model import failure_model
from faultline.experiments.job.platform_files import check_platform
from faultline.experiments.job.protected import Protected, protect
from faultline.experiments.job.resolved_job import ResolvedJob, restart_of
from faultline.experiments.job.workload import Workload, workload_of
from faultline.simulator.failures.models import FailureModel
from faultline.simulator.job.durations import Durations
from faultline.strategies.interface.recovery import SHRINK
from faultline.strategies.plugins.registry import strategy_class


def resolve(
    scenario: Scenario, known: Durations | None = None, failures: FailureModel | None = None
) -> ResolvedJob:
    """Fill in the open keys of a scenario; the parameters are those of `open_job`.

    Redundancy and intervals are the first of `choices_at`, as in a plan.
    """
    resolved, redundancies = open_job(scenario, known, failures)
    if len(redundancies) == 1 and not wants_best_period(resolved):
        return at_redundancy(resolved, redundancies[0])
    return choices_at(resolved, redundancies)[0].resolved


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
    alike: Protected | None = None,
) -> tuple[ResolvedJob, Sequence[int]]:
    """Return a job without its redundancy and intervals, and the redundancies to choose from.

    The job has the first redundancy and interval 1; `choices.at_redundancy` changes them. `known`
    is the result of `durations_of` for a scenario with equal durations, and `workload` that of
    `workload_of`; they are not measured again. `failures` replace those of the scenario. `alike` is
    the protection of a job that moves the same state beside the same steps.
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
    protected = protect(scenario, durations, workload.compute_s, alike)
    resolved = ResolvedJob(scenario, redundancies[0], 1, workload, durations, protected, failures)
    return resolved, redundancies


def _check_possible(scenario: Scenario, durations: Durations, failures: FailureModel) -> None:
    """Raise a UserError if restarts would never end, or the watchdog fires without a failure."""
    restart_s = durations.restart_s(restart_of(scenario))
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
