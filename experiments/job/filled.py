"""A question written down as a scenario that leaves nothing open."""

from __future__ import annotations

from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.recovery import OPEN_PRICES
from faultline.experiments.job.failure_model import job_layout, stated_mtbf_s
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.platform_files import state_bytes
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.simulator.failures.models import SharedFailures
from faultline.simulator.failures.trace import Trace


def filled_in(question: ResolvedJob) -> Scenario:
    """Return the scenario of a question with every value stated: it asks the same."""
    scenario = question.scenario
    tables = scenario.model_dump()
    tables["strategy"]["redundancy"] = question.redundancy
    tables["checkpoint"]["interval_steps"] = question.interval_steps
    if question.step is not None:
        # Its step is played anew: stated, its parts would be lost.
        del tables["times"]["compute_s"]
    tables["job"]["gpus_per_group"] = scenario.job.gpus_of_group
    shape = job_shape(scenario)
    tables["model"] |= {
        "stages_that_fit": shape.stages_that_fit or shape.stages,
        "least_stages": shape.least_stages,
        "least_tensor": shape.least_tensor,
    }
    tables["recovery"] |= {name: scenario.recovery.price(name) for name in OPEN_PRICES}
    if not scenario.measured.all_reduce:
        groups = scenario.job.groups
        tables["times"]["all_reduce_s"] = question.durations.all_reduce_s(groups)
    if scenario.rejoin.when == "at-checkpoint":
        tables["times"]["rejoin_s"] = question.durations.recovery.stated_s.get("rejoin")
    if question.protected.snapshot_interval_steps:
        tables["protection"]["interval_steps"] = question.protected.snapshot_interval_steps
    tables["protection"]["state_bytes"] = state_bytes(scenario)
    tables["failures"] |= _failures_filled_in(question)
    return Scenario.model_validate(tables)


def _failures_filled_in(question: ResolvedJob) -> dict[str, object]:
    """Return what ``[failures]`` leaves open where failures strike components, and not groups."""
    scenario, model = question.scenario, question.failures
    table = scenario.failures
    layout = job_layout(scenario)
    if table.model == "independent":
        return {"gpus_per_host": layout.gpus_per_host, "mtbf_s": stated_mtbf_s(scenario)}
    filled: dict[str, object] = {
        "gpus_per_host": layout.gpus_per_host,
        "gpus_per_domain": layout.gpus_per_domain,
        "gpus_per_switch": layout.gpus_per_switch,
    }
    if table.model == "mix":
        filled["mix"] = table.mix or "llama3"
        if table.rate == "mtbf":
            filled["mtbf_s"] = stated_mtbf_s(scenario)
    if isinstance(model, SharedFailures) and isinstance(model.sequence, Trace):
        filled["trace_span_s"] = model.sequence.span_s
    return filled
