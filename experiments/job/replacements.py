"""The machines that replace failed ones: where they come from, and how many are under repair."""

from __future__ import annotations

import math

from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.durations import free_machines_of, gpus_per_machine, standbys_of
from faultline.experiments.job.failure_model import mean_repair_s, mean_under_repair
from faultline.experiments.job.resolved_job import awaits_repairs
from faultline.simulator.failures.models import FailureModel

_LONG_HOURS = 48.0


def machines_text(scenario: Scenario, failures: FailureModel) -> str:
    """Return the source of replacement machines, and how many are under repair on average."""
    if scenario.recovery.price("hardware") == "in-place":
        return "the same machines are used after a failure (recovery.hardware)"
    repaired = mean_under_repair(scenario, failures)
    return f"{_source(scenario, failures)}; {repaired:,.3g} under repair on average"


def _source(scenario: Scenario, failures: FailureModel) -> str:
    """Return the source of replacement machines, their number, and what follows after these."""
    standbys, free = standbys_of(scenario), free_machines_of(scenario)
    repair = f"for repairs ({_lasting_text(scenario, mean_repair_s(scenario, failures))})"
    if awaits_repairs(scenario):
        return f"no machine is on standby and none is free: a restart waits {repair}"
    size = f"of {gpus_per_machine(scenario)} GPUs"
    first = f"{standbys:,} machines {size} on standby, paid for; then " if standbys else ""
    if free == 0:
        return f"{first}the job waits {repair}"
    if free is not None:
        return f"{first}{free:,} free machines {size} of the platform; then the job waits {repair}"
    if scenario.times.restart_s is not None and not standbys:
        return "failed machines are replaced within the restart (times.restart_s)"
    shortage = scenario.recovery.shortage
    shared = scenario.recovery.price("hardware") if shortage == "wait" else shortage
    return f"{first}a shared cluster replaces failed machines (recovery.shortage = {shared!r})"


def _lasting_text(scenario: Scenario, repair_s: float) -> str:
    """Return how long a repair takes, and the key that says so, if it is the same for all."""
    hours = repair_s / 3600.0
    lasting = f"{hours:,.2f} hours" if hours < _LONG_HOURS else f"{hours / 24:,.2f} days"
    is_of_key = math.isclose(repair_s, scenario.rejoin.repair_s)
    return f"{lasting} each, {'rejoin.repair_s' if is_of_key else 'on average'}"
