"""What it costs that replicas reshard for reduced ones: by formula, and on SimGrid.

There replicas of three degrees sync their gradients, as messages that carry them.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from faultline.experiments.studies.ntp.setting import B200, StudyJob, study_job
from faultline.platforms import load_preset, read_platform, write_xml
from faultline.simulator.collectives.reshard import NonuniformAllReduce
from faultline.simulator.collectives.schedule import Hop
from faultline.simulator.simgrid_engine.carried_arrays import carry_arrays
from faultline.simulator.workload.flops import token_flop
from faultline.simulator.workload.known_models import NTP_480B
from faultline.simulator.workload.layout import Layout, place_on_platform
from faultline.simulator.workload.memory import Precision, stage_parameters
from faultline.strategies.nonuniform.replica_plan import Scheme
from faultline.strategies.nonuniform.resharding import backward_slowdown, resharding_bytes
from numpy.typing import NDArray


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
        played = carry_arrays(path, schedule, hosts, start)
    return {
        "time_s": played.time_s,
        "alpha_beta_s": schedule.alpha_beta_s(outer, inner),
        "wrong": int(np.count_nonzero(held & (played.buffers != gradients.sum(axis=0)))),
    }
