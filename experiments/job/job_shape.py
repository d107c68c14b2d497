"""The shape of a scenario's job for schemes: its partition, and the memory of a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from faultline.experiments.config.model_numbers import memory_of, parallel_job, split_of
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.platform_files import gpu_of
from faultline.simulator.workload.known_models import KNOWN_MODELS
from faultline.simulator.workload.transformer import WorkloadError
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Strategy
from faultline.strategies.plugins.registry import build_strategy

if TYPE_CHECKING:
    from faultline.simulator.workload.parallel_job import ParallelJob


def scheme_of(scenario: Scenario, redundancy: int) -> Strategy:
    """Return a scenario's scheme in its first state; a StrategyError if the job cannot use it."""
    table = scenario.strategy
    return build_strategy(
        table.name, scenario.job.groups, redundancy, table.options(), job_shape(scenario)
    )


def job_shape(scenario: Scenario) -> JobShape:
    """Return the partition of a scenario's job, and the limits set by the memory of its GPUs.

    The limits are stated, or follow from the platform's GPUs if a model is named. Otherwise there
    are none.
    """
    table = scenario.model
    # An unnamed model contributes only its dimensions, even if they are inconsistent.
    model = KNOWN_MODELS.get(table.name, table)
    # Without sharding, each replica has the whole state of the optimizer.
    is_sharded = table.name != "stated" and table.shard_optimizer
    shape = JobShape(
        stages=table.pipeline,
        tensor=table.tensor,
        context=table.context,
        virtual_stages=table.virtual_stages,
        micro_batches=table.micro_batches,
        micro_batch_sequences=table.micro_batch_sequences,
        layers=model.layers,
        hidden=model.hidden,
        ffn_hidden=model.ffn_hidden,
        sequence_tokens=model.sequence_tokens,
        stages_that_fit=table.stages_that_fit,
        least_stages=table.least_stages or 1,
        least_tensor=table.least_tensor or 1,
        optimizer_backup=table.optimizer_backup if is_sharded else None,
        backward_share=table.backward_share,
        split=split_of(table),
    )
    gpu = gpu_of(scenario) if table.name != "stated" else None
    if gpu is None:
        return shape
    job, memory_bytes = parallel_job(table, scenario.job.groups), gpu.memory_bytes
    whole = table.pipeline, table.tensor

    def fits(stages: int, tensor: int, held: int = 1, groups: int = scenario.job.groups) -> bool:
        return _needed_bytes(job, stages, tensor, groups * job.context, held) <= memory_bytes

    few = (groups for groups in range(1, scenario.job.groups) if fits(*whole, groups=groups))
    shape = replace(shape, least_groups=next(few, scenario.job.groups))

    # Schemes do not interleave the pipelines that they change.
    job = replace(job, layout=replace(job.layout, virtual_stages=1))
    alone = memory_of(replace(job, micro_batches=1))
    room_bytes = memory_bytes - alone.total + alone.activations
    shape = replace(shape, micro_batches_that_fit=room_bytes / alone.activations)

    if table.least_stages is None:
        short = (stages for stages in range(1, table.pipeline) if fits(stages, table.tensor))
        shape = replace(shape, least_stages=next(short, table.pipeline))
    if table.least_tensor is None:
        low = (tensor for tensor in range(1, table.tensor) if fits(table.pipeline, tensor))
        shape = replace(shape, least_tensor=next(low, table.tensor))
    if table.stages_that_fit is None:
        held = range(table.pipeline, 1, -1)
        most = next((n for n in held if fits(*whole, n)), 1)
        shape = replace(shape, stages_that_fit=most)
    return shape


def _needed_bytes(job: ParallelJob, stages: int, tensor: int, data: int, held: int) -> float:
    """Return the bytes on the fullest GPU of a pipeline, if it holds the state of `held` stages."""
    layout = replace(job.layout, data=data, pipeline=stages, tensor=tensor)
    try:
        needed = memory_of(replace(job, layout=layout)).total
    except WorkloadError:
        return float("inf")
    return held * needed
