"""The numbers of a job that follow from its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, isclose
from typing import TYPE_CHECKING, Any, NamedTuple

from faultline.experiments.config.cluster import (
    cluster_file,
    cluster_of,
    gpu_of_cluster,
    platform_at,
    spec_of_cluster,
)
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import value_at
from faultline.experiments.config.tables.job import MOST_STEPS, JobTable, ModelTable, PlatformTable
from faultline.platforms.preset_library import GPU_KINDS
from faultline.simulator.workload.gpu_memory import GpuMemory, Precision, gpu_memory
from faultline.simulator.workload.kernels import KNOWN_KERNELS
from faultline.simulator.workload.known_models import KNOWN_MODELS
from faultline.simulator.workload.transformer import WorkloadError
from faultline.strategies.interface.job_shape import Sharding, shards_weights

if TYPE_CHECKING:
    from faultline.experiments.config.scenario import Scenario
    from faultline.platforms.spec_tables import Gpu
    from faultline.simulator.workload.parallel_job import ParallelJob
    from faultline.simulator.workload.transformer import Transformer
    from faultline.strategies.interface.split_backward import SplitBackward


_PRECISION = Precision(gradient_bytes=2.0)
"""Gradients are reduced in 16 bits; the optimizer keeps its state in 32."""


_MORE_SHARDING: Mapping[Sharding, str] = {
    "none": 'model.sharding = "optimizer" or "full", ',
    "optimizer": 'model.sharding = "full", ',
    "hybrid": 'model.sharding = "full", ',
    "full": "",
}
"""What a job that does not fit into memory may shard, by what it shards."""


def numbers_of_model(
    model: ModelTable, groups: int, platform: PlatformTable, stated: Mapping[str, Any]
) -> dict[tuple[str, str], float]:
    """Return the numbers of a job that trains a model, by their keys.

    `platform` and `stated` are the table of its platform and the stated tables of its scenario.
    `job.step_times` simulates the time of its step.

    Raises UserError if the model does not fit the platform, or if a number is stated otherwise.
    Raises PlatformError if the platform is invalid.
    """
    try:
        hardware = _hardware(model, cluster_of(platform, model), platform.file)
        numbers = _numbers(model, groups, hardware)
    except WorkloadError as error:
        raise UserError(f'model.name = "{model.name}": {error}') from error
    for path, value in numbers.items():
        _check_stated(path, value, stated, "by the model it is", 'set model.name = "stated"')
    return numbers


def tokens_of_step(groups: int, model: ModelTable) -> int:
    """Return the tokens that a step of a job trains on, by the layout of the model."""
    sequences = groups * model.micro_batches * model.micro_batch_sequences
    # A transformer of stated dimensions may be invalid, which has no effect without a model.
    known = KNOWN_MODELS.get(model.name, model)
    return sequences * known.sequence_tokens


def steps_of_tokens(job: JobTable, model: ModelTable, stated: Mapping[str, Any]) -> int:
    """Return the steps for ``job.tokens``, rounded up.

    Raises UserError if the `stated` tables do not state the tokens of a step, if they state another
    number of steps, or if they are more than a job may have.
    """
    assert job.tokens is not None
    open_keys = {"micro_batches", "sequence_tokens"} - model.model_fields_set
    if model.name == "stated" and open_keys:
        raise UserError(
            f"job.tokens = {job.tokens:g}: the tokens of a step are unknown; state "
            f"{' and '.join(f'model.{name}' for name in sorted(open_keys))}, or job.steps instead"
        )
    step_tokens = tokens_of_step(job.groups, model)
    steps = ceil(job.tokens / step_tokens)
    if steps > MOST_STEPS:
        raise UserError(
            f"job.tokens = {job.tokens:g}: at {step_tokens:,} tokens per step, the job needs "
            f"{steps:.3g} steps; a job has at most {MOST_STEPS:,}"
        )
    came = f"{step_tokens:,} tokens per step make it"
    _check_stated(("job", "steps"), steps, stated, came, "leave out job.tokens")
    return steps


def _check_stated(
    path: tuple[str, str], value: float, stated: Mapping[str, Any], came: str, remedy: str
) -> None:
    """Raise UserError if a key is stated, and not with the value that follows from others."""
    given = value_at(stated, path)
    if isinstance(given, int | float) and not isclose(given, value, rel_tol=1e-9):
        raise UserError(
            f"{'.'.join(path)} = {given:g}: {came} {value:g}; leave it out, or {remedy}"
        )


def transformer_of(table: ModelTable) -> Transformer:
    """Return the transformer that a scenario names, or the one with the stated dimensions."""
    if table.name in KNOWN_MODELS:
        return KNOWN_MODELS[table.name]
    from faultline.simulator.workload.transformer import Transformer

    return Transformer(
        table.hidden,
        table.ffn_hidden,
        table.heads,
        table.layers,
        table.sequence_tokens,
        table.vocabulary,
        table.key_value_heads,
        table.ffn_matrices,
        tied_embeddings=False,
        experts=table.experts,
        active_experts=table.active_experts,
        head_size=table.head_size,
    )


def split_of(table: ModelTable) -> SplitBackward | None:
    """Return how a model's pipelines split their backward pass; None for 1F1B."""
    if table.schedule == "1f1b":
        return None
    from faultline.strategies.interface.split_backward import SplitBackward

    return SplitBackward(table.backward_share)


def job_of(scenario: Scenario) -> ParallelJob:
    """Return the job of a scenario that names a model, on its platform.

    Raises WorkloadError if its parts do not fit together, UserError or PlatformError if sharded
    weights need the platform's domains, and it is invalid.
    """
    table, domain_gpus = scenario.model, None
    if shards_weights(table.sharding):
        domain_gpus = domain_gpus_of(scenario.platform, table)
    return parallel_job(table, scenario.job.groups, domain_gpus)


def domain_gpus_of(platform: PlatformTable, model: ModelTable) -> int:
    """Return the GPUs of a scale-up domain of a platform.

    Raises UserError or PlatformError if the platform is invalid.
    """
    return _hardware(model, cluster_of(platform, model), platform.file).domain_gpus


def parallel_job(table: ModelTable, groups: int, domain_gpus: int | None = None) -> ParallelJob:
    """Return a job of some groups that trains a model.

    `domain_gpus` are the GPUs of a scale-up domain, which matter if weights are sharded.

    Raises WorkloadError if its parts do not fit together.
    """
    from faultline.simulator.workload.layout import Layout
    from faultline.simulator.workload.parallel_job import ParallelJob

    layout = Layout(groups * table.context, table.pipeline, table.tensor, table.virtual_stages)
    return ParallelJob(
        transformer_of(table),
        layout,
        table.micro_batch_sequences,
        table.micro_batches,
        KNOWN_KERNELS[table.kernels],
        compute_efficiency=table.compute_efficiency,
        recompute=table.recompute,
        attention=table.attention,
        sharding=table.sharding,
        reshard_after_forward=table.reshard_after_forward,
        backward_prefetch=table.backward_prefetch,
        domain_replicas=domain_gpus and domain_gpus // layout.gpus_per_replica,
        context=table.context,
        balanced_context=table.balanced_context,
        tensor_overlap=table.tensor_overlap,
        pipeline_overlap=table.pipeline_overlap,
        gradient_overlap=table.gradient_overlap,
        matmul_precision=table.matmul_precision,
        split=split_of(table),
    )


class _Hardware(NamedTuple):
    """What limits a model on a platform: its scale-up domains and its GPUs."""

    name: str
    domain_gpus: int
    gpu: Gpu


def _numbers(table: ModelTable, groups: int, hardware: _Hardware) -> dict[tuple[str, str], float]:
    job, gpu = parallel_job(table, groups, hardware.domain_gpus), hardware.gpu
    if hardware.domain_gpus % table.tensor:
        size = f"{hardware.domain_gpus} GPU" + ("s" if hardware.domain_gpus > 1 else "")
        raise UserError(
            f"model.tensor = {table.tensor}: a scale-up domain of {hardware.name} has {size}; use "
            "a divisor of that, and more pipeline stages"
        )
    needed = memory_of(job).total
    if needed > gpu.memory_bytes:
        raise UserError(
            f'model.name = "{table.name}": needs {needed / 1e9:,.0f} GB on the fullest GPU, '
            f"{gpu.name} has {gpu.memory_bytes / 1e9:,.0f} GB; use more pipeline stages "
            f"or tensor-parallel ranks, {_MORE_SHARDING[table.sharding]}smaller micro-batches, or "
            "recompute more"
        )
    state_bytes = _PRECISION.parameter_bytes + _PRECISION.optimizer_bytes
    return {
        ("job", "parameter_bytes"): _PRECISION.gradient_bytes * job.model.parameters,
        ("job", "gpus"): job.layout.gpus,
        ("protection", "state_bytes"): state_bytes * job.model.parameters,
    }


def memory_of(job: ParallelJob) -> GpuMemory:
    """Return the memory of the fullest GPU of a job.

    Raises WorkloadError if the layers do not fill the stages.
    """
    share = replace(job.model, sequence_tokens=job.model.sequence_tokens // job.context)
    sound = job.split.healthy(job.layout.pipeline, job.micro_batches) if job.split else None
    return gpu_memory(
        share,
        job.layout,
        job.micro_batch_sequences,
        job.micro_batches,
        recompute=job.recompute,
        fused_attention=job.attention != "unfused",
        precision=_PRECISION,
        sharding=job.sharding,
        shards=job.shards,
        keeps_gathered=not job.reshard_after_forward,
        in_flight=sound.most_held if sound else None,
    )


def _hardware(model: ModelTable, cluster: str, stated: str) -> _Hardware:
    """Return the GPUs of a cluster and its domains; `stated` is its name in the scenario."""
    place = f'model.name = "{model.name}": platform.file = "{stated}"'
    gpu, spec = gpu_of_cluster(cluster), spec_of_cluster(cluster)
    if gpu is None:
        raise UserError(
            f"{place} does not describe its GPUs; name them by model.gpu ({', '.join(GPU_KINDS)}), "
            "or state the numbers of [job] and [times] instead of a model"
        )
    if spec is None:
        domains = platform_at(cluster_file(cluster)).domains
        return _Hardware(stated, max(map(len, domains.values())), gpu)
    domain_gpus = spec.plane.domain_gpus if spec.plane else spec.scale_up.gpus_per_domain
    if domain_gpus is None:
        raise UserError(
            f"{place} has no scale-up domains; use a cluster of servers, such as hgx-h100, or "
            "state plane.domain_gpus"
        )
    return _Hardware(spec.name, domain_gpus, gpu)
