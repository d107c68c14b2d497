"""The numbers of a job that follow from its model and its platform."""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose
from typing import Any

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.platform_files import gpus_of_platform, spec_of
from faultline.platforms.spec import ClusterSpec
from faultline.simulator.collectives.schedule import Hop
from faultline.simulator.workload.errors import WorkloadError
from faultline.simulator.workload.iteration import Machine, iteration_time
from faultline.simulator.workload.known_models import KNOWN_MODELS
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.memory import Precision, gpu_memory
from faultline.simulator.workload.transformer import Transformer

_PRECISION = Precision(gradient_bytes=2.0)
"""Gradients travel in 16 bits; the optimizer keeps its state in 32."""

MODELLED_KEYS = (
    ("job", "compute_s"),
    ("job", "parameter_bytes"),
    ("job", "gpus"),
    ("job", "gpus_per_group"),
    ("protection", "state_bytes"),
)
"""What follows from a model."""


def modelled(scenario: Scenario, stated: Mapping[str, Any]) -> Scenario:
    """Return a scenario with the numbers of its model, or at least with its GPUs.

    The compute of a step is the whole iteration of a group but for the gradients' all-reduce:
    matrix products, tensor-parallel collectives in the scale-up domain, the bubble and transfers of
    the pipeline (`simulator.workload.iteration`).

    Parameters
    ----------
    scenario : Scenario
        What was asked.
    stated : mapping
        The tables as they were written.

    Raises
    ------
    UserError
        If the model does not fit the platform, or something else is stated than follows from it.
    PlatformError
        If the platform is no good.
    """
    if scenario.model.name == "stated":
        return _with_gpus(scenario)
    try:
        values = _values(scenario, _spec(scenario))
    except WorkloadError as error:
        raise UserError(f'model.name = "{scenario.model.name}": {error}') from error
    tables = scenario.model_dump()
    for path, value in zip(MODELLED_KEYS, values, strict=True):
        _check_agrees(stated, path, value)
        tables[path[0]][path[1]] = value
    return Scenario.model_validate(tables)


def _with_gpus(scenario: Scenario) -> Scenario:
    job = scenario.job
    if job.gpus is not None:
        return scenario
    gpus = gpus_of_platform(scenario) if job.gpus_per_group is None else job.all_gpus
    return scenario.model_copy(update={"job": job.model_copy(update={"gpus": gpus})})


def transformer_of(scenario: Scenario) -> Transformer:
    """Return the model of a scenario that has one.

    Raises
    ------
    WorkloadError
        If its dimensions do not fit together.
    """
    table = scenario.model
    if table.name != "custom":
        return KNOWN_MODELS[table.name]
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
    )


def _values(scenario: Scenario, spec: ClusterSpec) -> tuple[float, ...]:
    table, groups = scenario.model, scenario.job.groups
    model = transformer_of(scenario)
    layout = Layout(groups, table.pipeline, table.tensor, table.virtual_stages)
    domain_gpus = spec.scale_up.gpus_per_domain
    if table.tensor > domain_gpus:
        raise UserError(
            f"model.tensor = {table.tensor}: a scale-up domain of {spec.name} has {domain_gpus} "
            f"GPUs; use at most {domain_gpus}, and more pipeline stages"
        )
    _check_memory(scenario, model, layout, spec)
    machine = _machine(spec, table.compute_efficiency, table.tensor_overlap)
    iteration = iteration_time(
        model, layout, machine, table.micro_batch_sequences, table.micro_batches
    )
    return (
        iteration.total_s - iteration.gradient_sync_s,
        _PRECISION.gradient_bytes * model.parameters,
        layout.gpus,
        layout.gpus_per_replica,
        (_PRECISION.parameter_bytes + _PRECISION.optimizer_bytes) * model.parameters,
    )


def _check_memory(
    scenario: Scenario, model: Transformer, layout: Layout, spec: ClusterSpec
) -> None:
    table = scenario.model
    needed = gpu_memory(
        model,
        layout,
        table.micro_batch_sequences,
        table.micro_batches,
        recompute=table.recompute,
        precision=_PRECISION,
        shard_optimizer=table.shard_optimizer,
    ).total
    if needed > spec.gpu.memory_bytes:
        raise UserError(
            f'model.name = "{table.name}": needs {needed / 1e9:,.0f} GB on the fullest GPU, '
            f"{spec.gpu.name} has {spec.gpu.memory_bytes / 1e9:,.0f} GB; use more pipeline stages "
            "or tensor-parallel ranks, smaller micro-batches, or recompute more"
        )


def _machine(spec: ClusterSpec, efficiency: float, tensor_overlap: float) -> Machine:
    inside, nic = spec.scale_up, spec.nic
    adapters_bytes_per_s = nic.bandwidth_bytes_per_s * nic.per_gpu / nic.gpus_per_nic
    return Machine(
        spec.gpu.speed_flop_per_s,
        efficiency,
        # A domain of one GPU sends nothing inside it.
        Hop(
            2 * inside.latency_s + inside.switch_latency_s,
            inside.bandwidth_bytes_per_s or adapters_bytes_per_s,
        ),
        Hop(2 * nic.latency_s, adapters_bytes_per_s),
        tensor_overlap=tensor_overlap,
    )


def _spec(scenario: Scenario) -> ClusterSpec:
    spec = spec_of(scenario)
    if spec is None or spec.plane is not None:
        raise UserError(
            f'model.name = "{scenario.model.name}": platform.file = "{scenario.platform.file}" '
            "does not say what its domains are like; use one of servers, such as hgx-h100"
        )
    return spec


def _check_agrees(stated: Mapping[str, Any], path: tuple[str, str], value: float) -> None:
    table = stated.get(path[0])
    given = table.get(path[1]) if isinstance(table, Mapping) else None
    if isinstance(given, int | float) and not isclose(given, value, rel_tol=1e-9):
        raise UserError(
            f"{'.'.join(path)} = {given:g}: the model comes to {value:g}; leave it out, or set "
            'model.name = "stated"'
        )
