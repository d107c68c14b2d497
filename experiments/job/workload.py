"""The work of a group in an undisturbed step: how long it computes, and how that is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from faultline.experiments.config.cluster import cluster_file, cluster_of, platform_at
from faultline.experiments.config.model_numbers import job_of
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.phases import ASSUMED_COMPUTE_S
from faultline.experiments.job.step_times import (
    compute_beside_plane_s,
    measures_compute,
    step_time_of,
)
from faultline.platforms.preset_library import load_preset, preset_names

if TYPE_CHECKING:
    from faultline.simulator.job.durations import StepTime

Source = Literal["stated", "derived", "measured"]
"""How a number is known: the user states it, it follows from others, or SimGrid measures it."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The work of a group in an undisturbed step."""

    compute_s: float  # Time in which a group computes one shard type.
    source: Source  # Of that time.
    step: StepTime | None = None  # The parts of the step, if it is simulated on the platform.


def workload_of(scenario: Scenario) -> Workload:
    """Return the work of a scenario's groups; a model's is measured unless it is stated."""
    stated_s = scenario.times.compute_s
    if stated_s is not None:
        return Workload(stated_s, "stated")
    if measures_compute(scenario):
        return Workload(compute_beside_plane_s(scenario), "measured")
    step = step_time_of(scenario)
    if step is not None:
        return Workload(step.passes_s, "measured", step)
    return Workload(ASSUMED_COMPUTE_S, "derived")


def assumed_of_step(scenario: Scenario) -> dict[str, int]:
    """Return unstated keys that decide the step time of a pipeline, with their defaults."""
    model = scenario.model
    if model.name == "stated" or scenario.times.compute_s is not None or model.pipeline == 1:
        return {}
    keys = ("virtual_stages", "micro_batch_sequences")
    return {
        f"model.{key}": getattr(model, key) for key in keys if key not in model.model_fields_set
    }


def model_flop_utilisation(scenario: Scenario, step_s: float) -> float | None:
    """Return the MFU of a step: its model FLOP over those of the GPUs at their dense peaks.

    The job has the first GPUs of a platform XML, which may differ. Recomputed activations do not
    count (Chowdhery et al. 2022, PaLM, appendix B). None if the scenario names no model.
    """
    table = scenario.model
    if table.name == "stated" or step_s <= 0.0:
        return None
    from faultline.simulator.workload.transformer import training_flop_per_token

    job = job_of(scenario)
    sequences = job.micro_batches * job.micro_batch_sequences * scenario.job.groups
    flop = training_flop_per_token(job.model) * job.model.sequence_tokens * sequences
    return flop / (step_s * _mean_peak_flop_per_s(scenario, job.layout.gpus) * job.layout.gpus)


def _mean_peak_flop_per_s(scenario: Scenario, gpus: int) -> float:
    """Return the mean dense peak of the first GPUs of a scenario's platform."""
    name = cluster_of(scenario.platform, scenario.model)
    if name in preset_names():
        return load_preset(name).gpu.speed_flop_per_s
    peaks = [gpu.speed_flop_per_s for gpu in platform_at(cluster_file(name)).gpus[:gpus]]
    return sum(peaks) / len(peaks)
