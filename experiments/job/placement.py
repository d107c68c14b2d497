"""The groups of a job on the GPUs of its platform, and the state that they keep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from faultline.experiments.config.cluster import platform_at
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.model_numbers import job_of
from faultline.experiments.config.scenario import Scenario
from faultline.strategies.interface.job_shape import shards_weights

if TYPE_CHECKING:
    # Functions import these on first use: most runs need none of them.
    from faultline.platforms.platform_data import Platform
    from faultline.simulator.simgrid.traffic import Traffic


def traffic_of(scenario: Scenario, path: Path) -> Traffic:
    """Place the job's groups on the platform's GPUs, in order.

    A UserError refuses a platform that is too small for the job, or lacks a part that the scenario
    measures.
    """
    from faultline.simulator.simgrid.traffic import Traffic

    job, platform = scenario.job, platform_at(path)
    hosts_per_group, left_over = divmod(len(platform.gpus), job.groups)
    if hosts_per_group == 0:
        raise UserError(
            f"{scenario.platform.file}: has {len(platform.gpus)} GPU hosts for job.groups = "
            f"{job.groups}; use a larger platform or fewer groups"
        )
    if any(scenario.measured):
        _check_measurable(scenario, platform, hosts_per_group, left_over)
    # A job that is smaller than its platform uses the first GPUs.
    hosts_per_group = min(hosts_per_group, max(1, job.gpus_of_group // platform.gpus_per_rank))
    names = platform.gpu_names
    held_bytes = state_bytes(scenario)
    held_bytes -= shared_bytes(scenario) * (1.0 - 1.0 / shards_of(scenario))
    return Traffic(
        [
            names[group * hosts_per_group : (group + 1) * hosts_per_group]
            for group in range(job.groups)
        ],
        platform.storage or "",
        job.parameter_bytes / job.gpus_of_group,
        *scenario.measured,
        readers=scenario.restart.readers or "one-group",
        checkpoint_bytes=state_bytes(scenario) / job.gpus_of_group,
        gpus_per_group=job.gpus_of_group,
        context=scenario.model.context,
        state_bytes=held_bytes / job.gpus_of_group,
    )


def state_bytes(scenario: Scenario) -> float:
    """Return the state of a replica that checkpoints and snapshots keep, in bytes."""
    stated = scenario.protection.state_bytes
    if stated is not None:
        return stated
    return scenario.protection.state_over_parameters * scenario.job.parameter_bytes


def shared_bytes(scenario: Scenario) -> float:
    """Return the part of `state_bytes` that is sharded over replicas, in bytes."""
    table = scenario.model
    if table.name == "stated" or table.sharding == "none":
        return 0.0
    if shards_weights(table.sharding):
        return state_bytes(scenario)
    return max(0.0, state_bytes(scenario) - scenario.job.parameter_bytes)


def shards_of(scenario: Scenario) -> int:
    """Return the number of replicas over which a job may shard state."""
    table, groups = scenario.model, scenario.job.groups
    if table.name != "stated" and table.sharding == "hybrid":
        return job_of(scenario).shards
    return groups * table.context


def _check_measurable(
    scenario: Scenario, platform: Platform, hosts_per_group: int, left_over: int
) -> None:
    job = scenario.job
    gpus_of_group = hosts_per_group * platform.gpus_per_rank
    # A job may use a part of a cluster, but a rail plane represents the whole job.
    is_whole = job.gpus in (None, job.all_gpus)
    is_part = is_whole and platform.gpus_per_rank == 1 and gpus_of_group >= job.gpus_of_group
    if not is_part and (left_over or gpus_of_group != job.gpus_of_group):
        total = len(platform.gpus) * platform.gpus_per_rank
        raise UserError(
            f"{scenario.platform.file}: represents {total} GPUs, the job has {job.groups} groups "
            f"of {job.gpus_of_group}; set job.gpus = {total} and groups that divide it"
        )
    if platform.storage is None and (scenario.measured.checkpoint or scenario.measured.load):
        raise UserError(
            f"{scenario.platform.file}: has no storage host to write a checkpoint to; add one, or "
            "state times.checkpoint_write_s and leave restart.readers open"
        )
