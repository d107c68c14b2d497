"""The shape of a scenario's job for schemes: its partition, and the memory of a GPU."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.model_numbers import (
    domain_gpus_of,
    memory_of,
    parallel_job,
    split_of,
)
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.job import ModelTable
from faultline.experiments.job.platform_files import gpu_of
from faultline.simulator.workload.known_models import KNOWN_MODELS
from faultline.simulator.workload.transformer import WorkloadError
from faultline.strategies.interface.job_shape import JobShape, Sharding, shards_weights
from faultline.strategies.interface.scheme import Strategy
from faultline.strategies.plugins.registry import build_strategy, strategy_class

if TYPE_CHECKING:
    from faultline.simulator.workload.parallel_job import ParallelJob


def scheme_of(scenario: Scenario, redundancy: int) -> Strategy:
    """Return a scenario's scheme in its first state; a StrategyError if the job cannot use it."""
    table = scenario.strategy
    return build_strategy(
        table.name, scenario.job.groups, redundancy, table.options(), job_shape(scenario)
    )


NEEDS_LAYOUT = "needs the layout of a group: set model.pipeline and model.tensor"


def lacks_layout(model: ModelTable, scheme: str) -> bool:
    """Return whether a scheme needs the stages or domains of a group, and the job states none."""
    is_stated = model.name != "stated" or not {"pipeline", "tensor"}.isdisjoint(
        model.model_fields_set
    )
    return not is_stated and "layout" in strategy_class(scheme).needs


def check_layout(scenario: Scenario) -> None:
    """Refuse a scheme without the layout that it needs: it would be simulated as another one."""
    if lacks_layout(scenario.model, scenario.strategy.name):
        raise UserError(f"strategy.name = {scenario.strategy.name!r}: {NEEDS_LAYOUT}")


def job_shape(scenario: Scenario) -> JobShape:
    """Return the partition of a scenario's job, and the limits set by the memory of its GPUs.

    The limits are stated, or follow from the platform's GPUs if a model is named. Otherwise there
    are none.
    """
    is_named = scenario.model.name != "stated"
    gpu = gpu_of(scenario) if is_named else None
    memory_bytes = None if gpu is None else gpu.memory_bytes
    domain_gpus = None
    if is_named and shards_weights(scenario.model.sharding):
        domain_gpus = domain_gpus_of(scenario.platform, scenario.model)
    return _shape_of(scenario.model, scenario.job.groups, memory_bytes, domain_gpus)


@lru_cache(maxsize=256)
def _shape_of(
    table: ModelTable, groups: int, memory_bytes: float | None, domain_gpus: int | None
) -> JobShape:
    """Return the shape of jobs with a model and a number of groups: each run asks for it."""
    # An unnamed model contributes only its dimensions, even if they are inconsistent.
    model = KNOWN_MODELS.get(table.name, table)
    # Without sharding, each replica has the whole state.
    sharding: Sharding = "none" if table.name == "stated" else table.sharding
    domain_groups = None
    if sharding == "hybrid":
        domain_groups = parallel_job(table, groups, domain_gpus).shards // table.context
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
        sharding=sharding,
        optimizer_backup=None if sharding == "none" else table.optimizer_backup,
        # A single domain has all shares only together.
        domain_groups=None if domain_groups == groups else domain_groups,
        backward_share=table.backward_share,
        split=split_of(table),
    )
    if memory_bytes is None:
        return shape
    job = parallel_job(table, groups, domain_gpus)
    whole = table.pipeline, table.tensor

    def fits(stages: int, tensor: int, held: int = 1, data: int = groups) -> bool:
        return _needed_bytes(job, stages, tensor, data * job.context, held) <= memory_bytes

    # With hybrid sharding a domain has all state, however many there are.
    few = (data for data in range(domain_groups or 1, groups) if fits(*whole, data=data))
    shape = replace(shape, least_groups=next(few, groups))

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
