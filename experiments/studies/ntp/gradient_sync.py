"""Replicas of three degrees sync their gradients on SimGrid, as messages that carry them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from faultline.experiments.studies.ntp.setting import stage_gradient_bytes, study_job
from faultline.platforms import ClusterSpec, Platform, load_preset, read_platform, write_xml
from faultline.simulator.collectives.reshard import NonuniformAllReduce
from faultline.simulator.collectives.schedule import Hop
from faultline.simulator.simgrid_engine.carried_arrays import Buffers, carry_arrays
from faultline.simulator.workload.layout import Layout, place_on_platform

DEGREES = (32, 30, 28)
"""Replicas that sync with one another in the simulation: a healthy one and two reduced ones."""
ELEMENTS = 32 * 30 * 28 * 3 // 8
"""Elements of the array that travels; the three degrees and replicas divide it."""


@dataclass(frozen=True, slots=True)
class SyncCheck:
    """A gradient sync as SimGrid played it."""

    # Measured, and by the formula.
    time_s: float
    alpha_beta_s: float
    wrong: int  # Elements, over all ranks, that are not the sum over all replicas.
    elements: int  # Elements over all ranks.
    messages: int  # Messages that carried them.


def cluster() -> ClusterSpec:
    """Return three scale-up domains of 32 GPUs with an 800 Gb/s adapter each."""
    return load_preset(
        "gb200-nvl72",
        **{
            "scale_up.domains": len(DEGREES),
            "scale_up.gpus_per_domain": max(DEGREES),
            "nic.bandwidth": "800Gbps",
            "nic.pcie_bandwidth": "128GB/s",
        },
    )


def check_sync(seed: int) -> SyncCheck:
    """Let ranks sync random gradients on SimGrid, as messages that carry them, and check the sums.

    Whole numbers are added, so that sums are exact.
    """
    schedule = NonuniformAllReduce(
        members=sum(DEGREES),
        size_bytes=stage_gradient_bytes(study_job()),
        degrees=DEGREES,
        elements=ELEMENTS,
    )
    rng = np.random.Generator(np.random.PCG64(seed))
    gradients = rng.integers(-(2**20), 2**20, (len(DEGREES), ELEMENTS)).astype(np.float64)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "domains.xml"
        write_xml(cluster(), path)
        platform = read_platform(path)
        domains = place_on_platform(Layout(len(DEGREES), 1, max(DEGREES)), platform)
        stages = [replica[0] for replica in domains]
        hosts = [gpu for gpus, n in zip(stages, DEGREES, strict=True) for gpu in gpus[:n]]
        outer = _hop(platform, stages[0][0], stages[1][0])
        inner = _hop(platform, stages[0][0], stages[0][1])
        played = carry_arrays(path, schedule, hosts, scattered(schedule, gradients))
    return SyncCheck(
        played.time_s,
        schedule.alpha_beta_s(outer, inner),
        wrong_sums(schedule, played.buffers, gradients),
        len(DEGREES) * ELEMENTS,
        played.messages,
    )


def scattered(schedule: NonuniformAllReduce, gradients: Buffers) -> Buffers:
    """Return what each member has at the start: its shard of its replica's gradients, else NaN."""
    buffers = np.full((schedule.members, schedule.elements), np.nan)
    replicas = np.repeat(np.arange(len(schedule.degrees)), schedule.degrees)
    for position, replica in enumerate(replicas):
        for first, count in schedule.shard(position):
            buffers[position, first : first + count] = gradients[replica, first : first + count]
    return buffers


def wrong_sums(schedule: NonuniformAllReduce, buffers: Buffers, gradients: Buffers) -> int:
    """Return how many elements that members hold are not the sum over the replicas."""
    sums = gradients.sum(axis=0)
    wrong = buffers != sums
    return sum(
        int(np.count_nonzero(wrong[position, first : first + count]))
        for position in range(schedule.members)
        for first, count in schedule.shard(position)
    )


def _hop(platform: Platform, source: str, destination: str) -> Hop:
    route = platform.route(source, destination)
    return Hop(route.latency_s, route.bandwidth_bytes_per_s)
