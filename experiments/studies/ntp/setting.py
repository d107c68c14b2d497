"""The job of the study, 480B parameters on 32,768 B200: its model, streams, and what is published.

What it costs that replicas reshard for reduced ones: by formula, and on SimGrid.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from faultline.platforms import load_preset, read_platform, write_xml
from faultline.simulator.collectives.reshard import NonuniformAllReduce
from faultline.simulator.collectives.schedule import Hop
from faultline.simulator.simgrid_engine.carried_arrays import carry_arrays
from faultline.simulator.workload.flops import token_flop
from faultline.simulator.workload.iteration import Machine, iteration_time
from faultline.simulator.workload.known_models import NTP_480B
from faultline.simulator.workload.layout import Layout, place_on_platform
from faultline.simulator.workload.memory import Precision, gpu_memory, stage_parameters
from faultline.strategies.nonuniform.replica_plan import (
    IterationTime,
    ReplicaPlan,
    ReplicaRules,
    Scheme,
    backward_slowdown,
    proportional_time,
    replica_plans,
    resharding_bytes,
)
from numpy.typing import NDArray

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

SCHEMES = tuple(scheme.value for scheme in Scheme)
_plans = cache(replica_plans)
MACHINES = {
    "1f1b": (B200, 1),
    "interleaved": (replace(B200, tensor_overlap=1.0, gradient_overlap=1.0), 12),
    "whole-heads": (replace(B200, whole_heads=True), 1),
}
"""Machines by `PACES`, and parts of a stage."""


@dataclass(frozen=True)
class StudyJob:
    """The job on domains of one size."""

    # GPUs of a scale-up domain, and how many whole domains there are.
    domain_gpus: int
    domains: int
    layout: Layout  # Data-parallel replicas of pipelines of domains.
    rules: ReplicaRules  # What the schemes decide by.

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
        """Return what a replica does for 0, 1, ... failed GPUs in its worst domain."""
        return _plans(scheme, self.rules)


@cache
def study_job(domain_gpus: int = 32, pace: str = "1f1b", stages: int = PIPELINE_STAGES) -> StudyJob:
    """Return the job on domains of a size, under one of the `PACES`."""
    domains = GPUS // domain_gpus
    replicas = domains // stages
    local_batch = BATCH_SEQUENCES // replicas
    layout = Layout(replicas, stages, domain_gpus)
    reduced = (replace(layout, tensor=degree) for degree in range(1, domain_gpus))
    least = next((one.tensor for one in reduced if _fits(one, local_batch)), domain_gpus)
    rules = ReplicaRules(domain_gpus, local_batch, _iteration_s(pace, layout), least)
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


def _iteration_s(pace: str, layout: Layout) -> IterationTime:
    if pace == "proportional":
        return proportional_time
    machine, parts = MACHINES[pace]

    def seconds(degree: int, sequences: int, speed: float) -> float:
        reduced = replace(layout, tensor=degree, virtual_stages=parts)
        return iteration_time(NTP_480B, reduced, machine, 1, sequences, speed=speed).total_s

    return seconds


class Purpose(Enum):
    """What a stream is for; the numbers are part of what a seed means and never change."""

    PLACEMENTS = 1
    TRACE = 2
    AVAILABILITY = 3
    BLASTS = 4
    FAILING_SPARES = 5
    PODS = 6


_STUDY = 0x4E5450
"""Keeps these streams apart from those of runs, which have keys of two numbers."""


def stream(seed: int, purpose: Purpose, index: int = 0) -> np.random.Generator:
    """Return a random stream of the study."""
    key = (_STUDY, purpose.value, index)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def utilisation_table() -> pd.DataFrame:
    """Return the share of compute in a step by GPUs, domain size and pace, at the best layout.

    Tensor parallelism spans a domain; pipeline and data parallelism share the rest, as the memory
    of a GPU and whole sequences of 8K allow. Smaller domains need more stages or more replicas:
    bubbles, or less to hide the all-reduce behind.
    """
    model = replace(NTP_480B, sequence_tokens=8192)
    sequences = BATCH_SEQUENCES * NTP_480B.sequence_tokens // model.sequence_tokens
    flop = token_flop(model)
    whole_flop = model.layers * flop.layer_total + 3 * flop.vocabulary
    rows = []
    for gpus, pace, domain in product((8192, GPUS), ("1f1b", "interleaved"), (8, 16, 32, 64)):
        machine, most_parts = MACHINES[pace]
        ideal_s = sequences * model.sequence_tokens * whole_flop / gpus / machine.flop_per_s
        found = []
        for stages in (1, 2, 4, 8, 16, 32, 64):
            replicas = gpus // (domain * stages)
            for parts in {1, min(most_parts, model.layers // stages)}:
                layout = Layout(replicas, stages, domain, virtual_stages=parts)
                batch = sequences // replicas
                held = gpu_memory(model, layout, 1, batch, recompute="selective")
                if held.total <= MEMORY_BYTES:
                    taken = iteration_time(model, layout, machine, 1, batch).total_s
                    found.append((ideal_s / taken, stages, replicas, parts))
        rows.append((gpus, pace, domain, *max(found)))
    columns = ["gpus", "pace", "domain", "utilisation", "stages", "replicas", "parts"]
    return pd.DataFrame(rows, columns=columns)


class Resharding(NamedTuple):
    """What resharding from a healthy degree to a reduced one costs a healthy replica."""

    degree: int  # The reduced one.
    # Bytes of a rank, one way (`ReshardingBytes`).
    spare_sends_bytes: float
    core_receives_bytes: float
    core_syncs_bytes: float
    # By which share the backward pass is longer, and a step, if nothing hides it.
    backward_slowdown: float
    iteration_slowdown: float


@cache
def resharding(job: StudyJob, degree: int) -> Resharding:
    """Return what it costs that some replica of a job is at a degree."""
    flop = token_flop(NTP_480B)
    tokens = job.rules.local_batch * NTP_480B.sequence_tokens
    backward = NTP_480B.layers * (flop.input_gradient.total + flop.weight_gradient.total)
    backward_flop = tokens * (backward + 2 * flop.vocabulary) / job.replica_gpus
    moved = resharding_bytes(stage_gradient_bytes(job), job.domain_gpus, degree)
    slowdown = backward_slowdown(
        moved.largest, backward_flop, B200.scale_up.bandwidth_bytes_per_s, B200.flop_per_s
    )
    iteration = slowdown * backward_flop / B200.flop_per_s / job.rules.healthy_s
    of_bytes = moved.spare_sends, moved.core_receives, moved.core_syncs
    return Resharding(degree, *of_bytes, slowdown, iteration)


def step_slowdowns(job: StudyJob, scheme: Scheme) -> NDArray[np.float64]:
    """Return by which share a step is longer, by failed GPUs in the worst domain of any replica.

    For 0, 1, ... failed GPUs, with nothing hidden.
    """
    degrees = [plan.degree or job.domain_gpus for plan in job.plans(scheme)]
    return np.array([resharding(job, degree).iteration_slowdown for degree in degrees])


def resharding_table() -> pd.DataFrame:
    """Return what resharding costs, a row a degree that one to four failed GPUs leave."""
    job = study_job()
    degrees = sorted({plan.degree for plan in job.plans(Scheme.NTP)[1:5]}, reverse=True)
    return pd.DataFrame([resharding(job, degree) for degree in degrees])


def stage_gradient_bytes(job: StudyJob) -> float:
    """Return the bytes of the gradients of the fullest stage, over all its ranks."""
    return Precision().gradient_bytes * max(stage_parameters(NTP_480B, job.layout))


_DEGREES = (32, 30, 28)
"""Replicas that sync with one another in the simulation: a healthy one and two reduced ones."""
_ELEMENTS = 32 * 30 * 28 * 3 // 8
"""Elements of the array that travels; the three degrees and replicas divide it."""


def check_sync(seed: int) -> dict[str, float]:
    """Let ranks sync random gradients on SimGrid, as messages that carry them, and check the sums.

    Three scale-up domains of 32 GPUs have an 800 Gb/s adapter each. Whole numbers are added, so
    that sums are exact. Returned are ``time_s``; ``alpha_beta_s``, that of the formula; ``wrong``,
    the elements over all ranks that are not the sum over all replicas.
    """
    members = sum(_DEGREES)
    size_bytes = stage_gradient_bytes(study_job())
    schedule = NonuniformAllReduce(members, size_bytes, degrees=_DEGREES, elements=_ELEMENTS)
    spec = load_preset(
        "gb200-nvl72",
        **{
            "scale_up.domains": len(_DEGREES),
            "scale_up.gpus_per_domain": max(_DEGREES),
            "nic.bandwidth": "800Gbps",
            "nic.pcie_bandwidth": "128GB/s",
        },
    )
    rng = np.random.default_rng(seed)
    gradients = rng.integers(-(2**20), 2**20, (len(_DEGREES), _ELEMENTS)).astype(np.float64)
    held = np.zeros((members, _ELEMENTS), dtype=np.bool_)
    for position, elements in enumerate(held):
        for first, count in schedule.shard(position):
            elements[first : first + count] = True
    start = np.where(held, np.repeat(gradients, _DEGREES, axis=0), np.nan)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "domains.xml"
        write_xml(spec, path)
        platform = read_platform(path)
        domains = place_on_platform(Layout(len(_DEGREES), 1, max(_DEGREES)), platform)
        stages = [replica[0] for replica in domains]
        hosts = [gpu for gpus, n in zip(stages, _DEGREES, strict=True) for gpu in gpus[:n]]
        routes = (platform.route(stages[0][0], other) for other in (stages[1][0], stages[0][1]))
        outer, inner = (Hop(route.latency_s, route.bandwidth_bytes_per_s) for route in routes)
        simulated = carry_arrays(path, schedule, hosts, start)
    return {
        "time_s": simulated.time_s,
        "alpha_beta_s": schedule.alpha_beta_s(outer, inner),
        "wrong": int(np.count_nonzero(held & (simulated.buffers != gradients.sum(axis=0)))),
    }
