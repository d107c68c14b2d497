"""The machines of a scenario's job: where replacements come from, and how long repairs take."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.recovery import SourceOfMachines
from faultline.experiments.job.failure_model import job_layout
from faultline.experiments.job.platform_files import gpus_on_platform
from faultline.simulator.failures.failure import STOPPING, stops_machine
from faultline.simulator.failures.mix import CauseMix
from faultline.simulator.failures.models import FailureModel
from faultline.simulator.failures.trace import Trace

_LONG_HOURS = 48.0


class Breakage(NamedTuple):
    """How often machines of a job fail, and how long their repairs take."""

    machines_per_s: float  # Failing machines of the whole job.
    mean_repair_s: float
    mean_life_s: float  # Mean time until a machine fails; infinite if none does.

    @property
    def under_repair(self) -> float:
        """Mean number of machines under repair, if all failed ones are replaced at once.

        It is the rate of failures times the mean repair time (Little's law).
        """
        return self.machines_per_s * self.mean_repair_s


def source_of_machines(scenario: Scenario) -> SourceOfMachines:
    """Return the source of replacement machines in a restart; not standbys if there are none."""
    table = scenario.recovery
    source: SourceOfMachines = table.price("hardware")
    return "reschedule" if source == "standby" and not table.price("standbys") else source


def free_machines_of(scenario: Scenario) -> int | None:
    """Return the number of free machines, without standbys; None if it is unlimited.

    A stated time of a whole restart implies that replacements are available.
    """
    table, source = scenario.recovery, scenario.recovery.price("hardware")
    is_stated = source != "standby" and scenario.times.restart_s is not None
    if table.shortage != "wait" or source in ("in-place", "repaired") or is_stated:
        return None
    if table.free_machines is not None:
        return table.free_machines
    return max(0, gpus_on_platform(scenario) - scenario.job.all_gpus) // gpus_per_machine(scenario)


def gpus_per_machine(scenario: Scenario) -> int:
    """Return the GPUs of a standby or free machine."""
    return job_layout(scenario).gpus_per_host


def paid_gpus(scenario: Scenario) -> int:
    """Return the GPUs of the job, of its spare groups, and of standbys."""
    job, rejoin = scenario.job, scenario.rejoin
    spare = rejoin.spare_groups if rejoin.when == "at-checkpoint" else 0
    standbys = standbys_of(scenario) * gpus_per_machine(scenario)
    return job.gpus_of_group * (job.groups + spare) + standbys


def standbys_of(scenario: Scenario) -> int:
    """Return the number of standby machines."""
    table = scenario.recovery
    return int(table.price("standbys")) if table.price("hardware") == "standby" else 0


def awaits_repairs(scenario: Scenario) -> bool:
    """Return whether a failed machine has no replacement, so that the job waits for its repair."""
    has_others = standbys_of(scenario) or free_machines_of(scenario) != 0
    return scenario.recovery.price("hardware") == "repaired" or not has_others


def breakage_of(scenario: Scenario, model: FailureModel) -> Breakage:
    """Return how often machines of a job fail. If a group fails, one of its machines has."""
    usual_s, transient = scenario.rejoin.repair_s, scenario.recovery.transient
    layout, rows = job_layout(scenario), list[tuple[float, float]]()
    if isinstance(model, CauseMix):
        for cause in model.mixed:
            if cause.kind in STOPPING and stops_machine(cause.kind, cause.level, transient):
                gpus = 0 if cause.level == "group" else layout.gpus_per_component(cause.level)
                hosts = max(1.0, gpus / layout.gpus_per_host)
                per_s = cause.rate_per_gpu_s * cause.at_once * model.dependence.correlated_excess
                repair_s = usual_s if cause.repair is None else cause.repair.mean_s
                rows.append((per_s * layout.gpus * hosts, repair_s))
    elif isinstance(model, Trace):
        for failure in model.recorded:
            if stops_machine(failure.kind, failure.level, transient):
                repair_s = usual_s if failure.repair_s is None else failure.repair_s
                hosts = 1 if failure.level == "group" else len(layout.hosts_of(failure))
                rows.append((hosts / model.span_s, repair_s))
    else:
        share = 1.0 if transient == "replaced" else scenario.failures.hardware_share
        rows.append((share / model.mtbf_s, usual_s))
    rates_per_s, repairs_s = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    per_s = float(rates_per_s.sum())
    if not per_s:
        return Breakage(0.0, usual_s, math.inf)
    repair_s = float(np.average(repairs_s, weights=rates_per_s))
    return Breakage(per_s, repair_s, layout.components("host") / per_s)


def machines_text(scenario: Scenario, model: FailureModel) -> str:
    """Return the source of replacement machines, and how many are under repair on average."""
    if scenario.recovery.price("hardware") == "in-place":
        return "the same machines are used after a failure (recovery.hardware)"
    broken = breakage_of(scenario, model)
    source = _source_text(scenario, broken.mean_repair_s)
    count = broken.under_repair
    number = f"{count:,.0f}" if count >= 1000.0 else f"{count:.3g}"
    return f"{source}; {number} under repair on average"


def _source_text(scenario: Scenario, repair_s: float) -> str:
    """Return the source of replacement machines, their number, and what follows after these."""
    standbys, free = standbys_of(scenario), free_machines_of(scenario)
    repair = f"for repairs ({_lasting_text(scenario, repair_s)})"
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
