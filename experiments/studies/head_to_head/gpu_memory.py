"""What a GPU of the head-to-head's job has to hold, and whether it has the memory for it."""

from __future__ import annotations

from functools import cache

from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.platform_files import spec_of
from faultline.experiments.studies.head_to_head.candidates import JOB_OPTIONS
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.memory import GpuMemory, gpu_memory
from faultline.simulator.workload.transformer import Transformer

_HEADS = 400
_VOCABULARY = 1
"""Embeddings are left out: they are 0.2 % of the parameters at either end."""


def held_bytes(stages: float) -> float:
    """Return the bytes on a GPU that holds the state of so many stages.

    16-bit weights, 32-bit gradients and Adam's 12 bytes a parameter on every replica, and
    activations under selective recomputation (`simulator.workload.memory`): the time of a step
    counts no FLOP for more. Activations are those of one stage: a pipeline of fewer, longer stages
    has as many micro-batches fewer in flight.

    Parameters
    ----------
    stages : float
        Stages of the job's pipeline whose state it holds; 1 where nothing has failed.
    """
    whole = _stage()
    return stages * (whole.parameters + whole.gradients + whole.optimizer) + whole.activations


def fits(memory_bytes: float) -> bool:
    """Return whether a GPU of the platform has that much memory."""
    return memory_bytes <= _capacity_bytes()


@cache
def _stage() -> GpuMemory:
    model = Transformer(
        hidden=JOB_OPTIONS["hidden"],
        ffn_hidden=JOB_OPTIONS["ffn_hidden"],
        heads=_HEADS,
        layers=JOB_OPTIONS["layers"],
        sequence_tokens=JOB_OPTIONS["sequence_tokens"],
        vocabulary=_VOCABULARY,
    )
    layout = Layout(data=1, pipeline=JOB_OPTIONS["stages"], tensor=JOB_OPTIONS["domain_gpus"])
    return gpu_memory(model, layout, 1, JOB_OPTIONS["micro_batches"], recompute="selective")


@cache
def _capacity_bytes() -> float:
    spec = spec_of(load_scenario("head-to-head"))
    assert spec is not None
    return float(spec.gpu.memory_bytes)
