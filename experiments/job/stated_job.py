"""A resolved job as a scenario: every value is stated."""

from __future__ import annotations

from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.recovery import OPEN_PRICES
from faultline.experiments.job.failure_model import job_layout, stated_mtbf_s
from faultline.experiments.job.hardware import free_machines_of
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.placement import state_bytes
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.simulator.failures.trace import Trace


def filled_in(resolved: ResolvedJob) -> Scenario:
    """Return an equivalent scenario with every value stated."""
    scenario, shape = resolved.scenario, job_shape(resolved.scenario)
    changes: dict[str, object] = {
        "strategy.redundancy": resolved.redundancy,
        "checkpoint.interval_steps": resolved.interval_steps,
        "model.stages_that_fit": shape.stages_that_fit or shape.stages,
        "model.least_stages": shape.least_stages,
        "model.least_tensor": shape.least_tensor,
        "recovery.free_machines": free_machines_of(scenario),
        "protection.state_bytes": state_bytes(scenario),
    }
    changes |= {f"recovery.{name}": scenario.recovery.price(name) for name in OPEN_PRICES}
    if resolved.workload.source == "measured" and resolved.step is None:
        # A stated compute time would lose the parts of a simulated step.
        changes["times.compute_s"] = resolved.compute_s
    if not scenario.measured.all_reduce:
        all_reduce_s = resolved.durations.all_reduce_s(scenario.job.groups)
        changes["times.all_reduce_s"] = all_reduce_s
    if scenario.rejoin.when == "at-checkpoint":
        changes["times.rejoin_s"] = resolved.durations.recovery.stated_s.get("rejoin")
    if resolved.snapshot_interval_steps:
        changes["protection.interval_steps"] = resolved.snapshot_interval_steps
    return scenario.change(changes | _failures_filled_in(resolved))


def _failures_filled_in(resolved: ResolvedJob) -> dict[str, object]:
    """Return the open keys of ``[failures]`` with their values, dotted."""
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
    return {f"failures.{key}": value for key, value in filled.items()}
