"""The job of the study, 480B parameters on 32,768 B200: model, streams, published values.

It includes the formula for the cost of resharding whole replicas for reduced ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from faultline.experiments.studies.ntp.iteration import Hop, Machine, iteration_time
from faultline.simulator.workload.gpu_memory import Precision, gpu_memory, stage_parameters
from faultline.simulator.workload.known_models import NTP_480B
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.transformer import token_flop
from faultline.strategies.schemes.ntp.replica_plan import (
    IterationTime,
    ReplicaPlan,
    ReplicaRules,
    Scheme,
    replica_plans,
    resharding_bytes,
)
from numpy.typing import NDArray

GPUS = 32_768
PIPELINE_STAGES = 8
BATCH_SEQUENCES = 1_024
"""16M tokens in sequences of 16K."""
MEMORY_BYTES = 180e9
"""Memory of a B200 in an HGX board (NVIDIA HGX B200 datasheet: 1.44 TB in eight)."""

B200 = Machine(
    peak_flop_per_s=2.25e15,
    compute_efficiency=0.7,
    scale_up=Hop(1e-6, 900e9),
    scale_out=Hop(5e-6, 100e9),
)
"""Dense BF16 peak of the HGX B200 datasheet; NVLink at 1.8 TB/s, both directions together;
InfiniBand at 800 Gb/s. Efficiency and latencies are assumed to be usual ones."""

SCHEMES = tuple(scheme.value for scheme in Scheme)
_plans = cache(replica_plans)
MACHINES = {
    "1F1B pipeline, collectives in the open": (B200, 1),
    "twelve interleaved parts a stage, collectives hidden": (
        replace(B200, tensor_overlap=1.0, gradient_overlap=1.0),
        12,
    ),
}
"""Machines, and parts of a stage, by name of a pace; the study's jobs use the first."""


@dataclass(frozen=True)
class StudyJob:
    """The job on domains of one size."""

    # GPUs of a scale-up domain, and the number of whole domains.
    domain_gpus: int
    domains: int
    layout: Layout  # Data-parallel replicas of pipelines of domains.
    rules: ReplicaRules  # Inputs of the schemes' decisions.

    @property
    def replicas(self) -> int:
        """Data-parallel replicas."""
        return self.layout.data

    @property
    def replica_gpus(self) -> int:
        """GPUs of a replica."""
        return self.layout.pipeline * self.domain_gpus

    @property
    def gpus(self) -> int:
        """GPUs of all replicas; others of the cluster are idle."""
        return self.replicas * self.replica_gpus

    @property
    def batch(self) -> int:
        """Sequences of an iteration with all replicas healthy."""
        return self.replicas * self.rules.local_batch

    def plans(self, scheme: Scheme) -> tuple[ReplicaPlan, ...]:
        """Return the plan of a replica for 0, 1, ... failed GPUs in its worst domain."""
        return _plans(scheme, self.rules)


@cache
def study_job(domain_gpus: int = 32, stages: int = PIPELINE_STAGES) -> StudyJob:
    """Return the job on domains of a size."""
    domains = GPUS // domain_gpus
    replicas = domains // stages
    local_batch = BATCH_SEQUENCES // replicas
    layout = Layout(replicas, stages, domain_gpus)
    reduced = (replace(layout, tensor=degree) for degree in range(1, domain_gpus))
    least = next((one.tensor for one in reduced if _fits(one, local_batch)), domain_gpus)
    rules = ReplicaRules(domain_gpus, local_batch, _iteration_s(layout), least)
    return StudyJob(domain_gpus, domains, layout, rules)


def job_that_fits(domain_gpus: int) -> StudyJob:
    """Return the job on domains of a size with the fewest stages, 8 or more, that fit a GPU."""
    return next(
        job
        for job in (study_job(domain_gpus, stages=stages) for stages in (8, 16, 32))
        if _fits(job.layout, job.rules.local_batch)
    )


def _fits(layout: Layout, local_batch: int) -> bool:
    return gpu_memory(NTP_480B, layout, 1, local_batch).total <= MEMORY_BYTES


def _iteration_s(layout: Layout) -> IterationTime:
    def seconds(degree: int, sequences: int, speed: float) -> float:
        reduced = replace(layout, tensor=degree)
        return iteration_time(NTP_480B, reduced, B200, 1, sequences, speed=speed).total_s

    return seconds


class StreamPurpose(Enum):
    """Purpose of a stream; the numbers are part of the meaning of a seed and never change."""

    PLACEMENTS = 1
    TRACE = 2
    FAILING_SPARES = 5


_STUDY = 0x4E5450
"""Separates these streams from those of runs, whose keys have two numbers."""


def stream(seed: int, purpose: StreamPurpose, index: int = 0) -> np.random.Generator:
    """Return a random stream of the study."""
    key = (_STUDY, purpose.value, index)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def utilisation_table() -> pd.DataFrame:
    """Return the share of compute in a step by GPUs, domain size and pace, at the best layout.

    Tensor parallelism spans a domain. Pipeline and data parallelism share the rest, within the
    memory of a GPU and whole sequences of 8K. Smaller domains need more stages or more replicas:
    longer bubbles, or less compute that hides the all-reduce.
    """
    model = replace(NTP_480B, sequence_tokens=8192)
    sequences = BATCH_SEQUENCES * NTP_480B.sequence_tokens // model.sequence_tokens
    flop = token_flop(model)
    whole_flop = model.layers * flop.layer_total + 3 * flop.vocabulary
    rows = []
    for gpus, pace, domain in product((8192, GPUS), MACHINES, (8, 16, 32, 64)):
        machine, most_parts = MACHINES[pace]
        ideal_s = sequences * model.sequence_tokens * whole_flop / gpus / machine.flop_per_s
        layouts = []
        for stages in (1, 2, 4, 8, 16, 32, 64):
            replicas = gpus // (domain * stages)
            for parts in {1, min(most_parts, model.layers // stages)}:
                layout = Layout(replicas, stages, domain, virtual_stages=parts)
                batch = sequences // replicas
                memory = gpu_memory(model, layout, 1, batch, recompute="selective")
                if memory.total <= MEMORY_BYTES:
                    step_s = iteration_time(model, layout, machine, 1, batch).total_s
                    layouts.append((ideal_s / step_s, stages, replicas, parts))
        rows.append((gpus, pace, domain, *max(layouts)))
    columns = ["gpus", "pace", "domain", "utilisation", "stages", "replicas", "parts"]
    return pd.DataFrame(rows, columns=columns)


class Resharding(NamedTuple):
    """The cost to a healthy replica of resharding to a reduced degree."""

    degree: int  # The reduced degree.
    # Relative increase of the backward pass, and of a step if nothing hides it.
    backward_slowdown: float
    iteration_slowdown: float


@cache
def resharding(job: StudyJob, degree: int) -> Resharding:
    """Return the cost of a replica of a job at a reduced degree."""
    flop = token_flop(NTP_480B)
    tokens = job.rules.local_batch * NTP_480B.sequence_tokens
    backward = NTP_480B.layers * (flop.input_gradient.total + flop.weight_gradient.total)
    backward_flop = tokens * (backward + 2 * flop.vocabulary) / job.replica_gpus
    # Load of the fullest stage, over all its ranks.
    gradient_bytes = Precision().gradient_bytes * max(stage_parameters(NTP_480B, job.layout))
    moved = resharding_bytes(gradient_bytes, job.domain_gpus, degree)
    slowdown = backward_slowdown(
        moved.largest, backward_flop, B200.scale_up.bandwidth_bytes_per_s, B200.flop_per_s
    )
    iteration = slowdown * backward_flop / B200.flop_per_s / job.rules.healthy_s
    return Resharding(degree, slowdown, iteration)


def step_slowdowns(job: StudyJob, scheme: Scheme) -> NDArray[np.float64]:
    """Return the relative increase of a step for 0, 1, ... failed GPUs in the worst domain.

    No resharding is hidden.
    """
    degrees = [plan.degree or job.domain_gpus for plan in job.plans(scheme)]
    return np.array([resharding(job, degree).iteration_slowdown for degree in degrees])


def resharding_table() -> pd.DataFrame:
    """Return the cost of resharding, a row per degree that one to four failed GPUs leave."""
    job = study_job()
    degrees = sorted({plan.degree for plan in job.plans(Scheme.NTP)[1:5]}, reverse=True)
    return pd.DataFrame([resharding(job, degree) for degree in degrees])


def backward_slowdown(
    largest_bytes: float, backward_flop: float, bytes_per_s: float, flop_per_s: float
) -> float:
    """Return the largest relative slowdown of the backward pass by resharding, with no overlap.

    It is linear in the largest resharding bytes of a GPU over its backward FLOP, as published; the
    factor here is the machine's. It counts both ways: to the core ranks and back.

    Parameters
    ----------
    largest_bytes : float
        Most bytes that a GPU sends or receives one way (`ReshardingBytes.largest`).
    backward_flop : float
        FLOP of a GPU in the backward pass of an iteration.
    bytes_per_s, flop_per_s : float
        Speed of its scale-up links each way, and of its compute.
    """
    return 2 * largest_bytes / bytes_per_s / (backward_flop / flop_per_s)
