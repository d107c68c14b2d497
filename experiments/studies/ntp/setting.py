"""The job of the study, 480B parameters on 32,768 B200, and its random streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache

import numpy as np
from faultline.simulator.collectives.schedule import Hop
from faultline.simulator.workload.iteration import Machine, iteration_time
from faultline.simulator.workload.known_models import NTP_480B
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.memory import gpu_memory
from faultline.strategies.nonuniform.degrees import ReductionRule
from faultline.strategies.nonuniform.replica_plan import (
    IterationTime,
    ReplicaPlan,
    ReplicaRules,
    Scheme,
    proportional_time,
    replica_plans,
)

GPUS = 32_768
PIPELINE_STAGES = 8
BATCH_SEQUENCES = 1_024
"""16M tokens in sequences of 16K."""
MEMORY_BYTES = 180e9
"""Of a B200 in an HGX board (NVIDIA HGX B200 datasheet: 1.44 TB in eight)."""

B200 = Machine(
    peak_flop_per_s=2.25e15,
    compute_efficiency=0.7,
    scale_up=Hop(1e-6, 900e9),
    scale_out=Hop(5e-6, 100e9),
)
"""Dense BF16 peak of the HGX B200 datasheet; NVLink at 1.8 TB/s both ways together; InfiniBand at
800 Gb/s. Efficiency and latencies are assumptions of a usual size."""

PACES: Mapping[str, str] = {
    "1f1b": "1F1B pipeline, collectives in the open",
    "interleaved": "twelve interleaved parts a stage, collectives hidden",
    "whole-heads": "1F1B, attention heads stay whole",
    "proportional": "in proportion to a GPU's share of the work",
}
"""Models of how long an iteration takes, by name; the study uses the first."""


@dataclass(frozen=True)
class StudyJob:
    """The job on domains of one size.

    Attributes
    ----------
    domain_gpus, domains : int
        GPUs of a scale-up domain, and how many whole domains there are.
    replicas : int
        Data-parallel replicas of `PIPELINE_STAGES` domains.
    rules : ReplicaRules
        What the schemes decide by.
    """

    domain_gpus: int
    domains: int
    replicas: int
    rules: ReplicaRules

    @property
    def batch(self) -> int:
        """Sequences of an iteration with all replicas healthy."""
        return self.replicas * self.rules.local_batch

    def plans(self, scheme: Scheme) -> tuple[ReplicaPlan, ...]:
        """Return what a replica does for 0, 1, ... failed GPUs in its worst domain."""
        return _plans(self, scheme)


@cache
def study_job(domain_gpus: int = 32, pace: str = "1f1b") -> StudyJob:
    """Return the job on domains of a size, under one of the `PACES`."""
    domains = GPUS // domain_gpus
    replicas = domains // PIPELINE_STAGES
    local_batch = BATCH_SEQUENCES // replicas
    layout = Layout(replicas, PIPELINE_STAGES, domain_gpus)
    rules = ReplicaRules(
        domain_gpus,
        local_batch,
        _iteration_s(pace)(layout),
        ReductionRule(_least_degree(layout, local_batch)),
    )
    return StudyJob(domain_gpus, domains, replicas, rules)


def _iteration_s(pace: str) -> Callable[[Layout], IterationTime]:
    machines = {
        "1f1b": (B200, 1),
        "interleaved": (replace(B200, tensor_overlap=1.0, gradient_overlap=1.0), 12),
        "whole-heads": (replace(B200, whole_heads=True), 1),
    }
    if pace == "proportional":
        return lambda _: proportional_time
    machine, virtual_stages = machines[pace]

    def of_layout(layout: Layout) -> IterationTime:
        whole = replace(layout, virtual_stages=virtual_stages)

        def seconds(degree: int, sequences: int, speed: float) -> float:
            reduced = replace(whole, tensor=degree)
            return iteration_time(NTP_480B, reduced, machine, 1, sequences, speed=speed).total_s

        return seconds

    return of_layout


def _least_degree(layout: Layout, local_batch: int) -> int:
    """Return the lowest degree at which a stage still fits the memory of its GPUs."""
    return next(
        (
            degree
            for degree in range(1, layout.tensor)
            if gpu_memory(NTP_480B, replace(layout, tensor=degree), 1, local_batch).total
            <= MEMORY_BYTES
        ),
        layout.tensor,
    )


@cache
def _plans(job: StudyJob, scheme: Scheme) -> tuple[ReplicaPlan, ...]:
    return replica_plans(scheme, job.rules)


class Purpose(Enum):
    """What a stream is for; the numbers are part of what a seed means and never change."""

    PLACEMENTS = 1
    TRACE = 2
    AVAILABILITY = 3
    BLASTS = 4
    FAILING_SPARES = 5


_STUDY = 0x4E5450
"""Keeps these streams apart from those of runs, which have keys of two numbers."""


def stream(seed: int, purpose: Purpose, index: int = 0) -> np.random.Generator:
    """Return a random stream of the study."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_STUDY, purpose.value, index))
    return np.random.Generator(np.random.PCG64(sequence))
