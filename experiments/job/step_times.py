"""The step time of a job that trains a model: SimGrid simulates it on the platform."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.experiments.config.cluster import platform_at
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.model_numbers import job_of, parallel_job
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.placement import traffic_of
from faultline.experiments.job.platform_files import (
    edited_platform,
    explaining_aborts,
    is_plane,
    once_per_file,
    platform_file,
    reduces_on_network,
    spec_of,
    symmetry_of,
)
from faultline.platforms.cache_folder import platform_in_cache
from faultline.simulator.job.durations import StepTime, StepTimes
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.strategies.interface.job_shape import shards_weights
from faultline.strategies.theory.prediction import largest_of_normals

if TYPE_CHECKING:
    # Functions import these on first use: most runs simulate no steps.
    from faultline.simulator.pattern.placed_step import PlacedStep
    from faultline.simulator.simgrid.traffic import Flow, Traffic
    from faultline.simulator.timing.step_times import SimulatedStepTimes


def is_simulated(scenario: Scenario) -> bool:
    """Return whether a scenario's step is simulated: it names a model and states no compute time.

    Steps on a rail plane are not simulated; see `compute_beside_plane_s`.
    """
    return _lacks_compute(scenario) and not is_plane(spec_of(scenario))


def measures_compute(scenario: Scenario) -> bool:
    """Return whether compute is measured on another platform, since a rail plane cannot time it."""
    return _lacks_compute(scenario) and is_plane(spec_of(scenario))


def _lacks_compute(scenario: Scenario) -> bool:
    return scenario.model.name != "stated" and scenario.times.compute_s is None


_GROUPS_BESIDE = 2
"""Groups whose passes are simulated for a rail plane, on a separate platform of servers."""


def compute_beside_plane_s(scenario: Scenario) -> float:
    """Measure the compute time of a step on a rail plane, in seconds.

    A plane lacks scale-up domains. So the passes of two groups, with their messages between tensor
    ranks and between stages, are simulated on servers of the same spec. The plane itself times the
    all-reduce of gradients. A UserError refuses gradients that hide behind the passes, and an
    edited XML: the servers follow from the spec in it.
    """
    from faultline.platforms.topology import servers_of
    from faultline.platforms.xml_writer import xml_text
    from faultline.simulator.pattern.placed_step import PlacedStep
    from faultline.simulator.timing.step_times import step_time

    table, spec = scenario.model, spec_of(scenario)
    assert spec is not None
    assert spec.plane is not None
    assert spec.plane.domain_gpus is not None
    if edited_platform(scenario) is not None:
        raise UserError(
            f"{scenario.platform.file}: an edited rail plane cannot time the steps of a model; "
            "generate one (faultline platform generate, with --set), or state times.compute_s"
        )
    if shards_weights(table.sharding):
        raise UserError(
            f'model.sharding = "{table.sharding}": a rail plane cannot gather weights while it '
            'computes; use "optimizer" or "none", or a platform of servers'
        )
    if table.gradient_overlap:
        raise UserError(
            f"model.gradient_overlap = {table.gradient_overlap:g}: a rail plane cannot overlap its "
            "all-reduce with compute; use 0, or a platform of servers"
        )
    job = parallel_job(table, _GROUPS_BESIDE)
    domains = -(-job.layout.gpus // (_GROUPS_BESIDE * spec.plane.domain_gpus))
    path = platform_in_cache(xml_text(servers_of(spec, _GROUPS_BESIDE, domains)).encode())
    step = step_time(path, PlacedStep.in_order(job.pattern(), platform_at(path).gpu_names))
    optimizer_s = step.optimizer_s
    if table.sharding == "optimizer":
        optimizer_s *= min(1.0, _GROUPS_BESIDE / scenario.job.groups)
    return step.passes_s + optimizer_s


def placed_step(scenario: Scenario, path: Path) -> PlacedStep:
    """Return the step of a scenario that names a model, on the GPUs of its platform in order."""
    from faultline.simulator.pattern.placed_step import PlacedStep

    job, gpus = job_of(scenario), platform_at(path).gpus
    if len(gpus) < job.layout.gpus:
        raise UserError(
            f"{path}: has {len(gpus):,} GPUs, the job needs {job.layout.gpus:,}; lower job.groups, "
            "model.pipeline or model.tensor, or name a larger platform"
        )
    tensor = job.layout.tensor
    for first in range(0, job.layout.gpus, tensor):
        ranks = gpus[first : first + tensor]
        if len({gpu.domain for gpu in ranks}) > 1:
            domain, size = ranks[0].domain, sum(gpu.domain == ranks[0].domain for gpu in gpus)
            raise UserError(
                f"{path}: scale-up domain {domain} has {size} GPUs, no multiple of model.tensor = "
                f"{tensor}, so a stage would be on {ranks[0].name} to {ranks[-1].name}, in domains "
                f"{domain} and {ranks[-1].domain}; add or remove GPUs, or lower model.tensor"
            )
    return PlacedStep.in_order(job.pattern(), [gpu.name for gpu in gpus])


def simulated_traffic(scenario: Scenario, path: Path, snapshot: tuple[Flow, ...] = ()) -> Traffic:
    """Return the messages of a job on its platform, with its step if that is simulated."""
    traffic = replace(traffic_of(scenario, path), snapshot=snapshot)
    return replace(traffic, step=placed_step(scenario, path)) if is_simulated(scenario) else traffic


def step_time_of(scenario: Scenario) -> StepTime | None:
    """Return the time of an undisturbed step; None if no step is simulated."""
    if not is_simulated(scenario):
        return None
    from faultline.simulator.timing.step_times import step_time

    path = platform_file(scenario)
    with explaining_aborts(path):
        return step_time(path, placed_step(scenario, path))


def step_times(
    scenario: Scenario, step: StepTime | None, compute_s: float, *, rings_are_uneven: bool
) -> StepTimes | None:
    """Return measured times of steps; None if no message of a step is simulated on the platform.

    `step` is the undisturbed step, if steps are simulated. Otherwise a shard type takes `compute_s`
    seconds.
    """
    if step is not None:
        return simulated_step_times(scenario, is_even=step.is_even)
    if reduces_on_network(scenario) or rings_are_uneven:
        from faultline.simulator.timing.step_times import MeasuredExchanges

        path = platform_file(scenario)
        return MeasuredExchanges(path, traffic_of(scenario, path), compute_s, rings_are_uneven)
    return None


def simulated_step_times(scenario: Scenario, *, is_even: bool) -> SimulatedStepTimes:
    """Return the times of simulated steps, on a platform that may treat all members alike."""
    path = platform_file(scenario)
    return _simulated_step_times(path, placed_step(scenario, path), is_even)


@partial(once_per_file, kept=2)
def _simulated_step_times(path: Path, step: PlacedStep, is_even: bool) -> SimulatedStepTimes:
    """Return the times of a step; runs of one process share those that are known."""
    from faultline.simulator.timing.step_times import SimulatedStepTimes

    return SimulatedStepTimes(path, step, is_even, partial(symmetry_of, path))


def jitter_of_passes(scenario: Scenario) -> float:
    """Return the standard deviation of the time of passes, as a share of it.

    Messages have no jitter. So passes vary less than computations in simulated steps.
    The ratio is the slope of the time of passes, up to the usual delay of the slowest group.
    """
    job = scenario.job
    jitter = job.compute_jitter
    if not (jitter and is_simulated(scenario)):
        return jitter
    # With all groups it makes no difference whether they are alike.
    times = simulated_step_times(scenario, is_even=False)
    all_groups = StepShares(tuple(range(job.groups)))
    delay = jitter * max(1.0, float(largest_of_normals([job.groups])[0]))
    slow_s = times.passes_s(all_groups, factor=1.0 + delay)
    return jitter * (slow_s / times.passes_s(all_groups) - 1.0) / delay
