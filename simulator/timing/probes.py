"""Times of a job's collective phases, which SimGrid measures once for the replay engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.simulator.job.durations import RingTime
from faultline.simulator.simgrid.traffic import Traffic
from faultline.simulator.timing.kept_platform import cached_simulation

if TYPE_CHECKING:
    import simgrid

# Raise it when a change to the probes changes what they measure.
_VERSION = 5

_UNEVEN = 0.01
"""Largest difference between groups at which the time of all groups determines that of some."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Times of a job's collective phases on an idle platform, all groups up; in seconds."""

    all_reduce_s: float
    empty_all_reduce_s: float  # With one byte per message: the latencies.
    save_s: float  # Writing a checkpoint.
    load_s: float  # Loading a checkpoint into all groups.
    groups: int
    ring_unevenness: float = 0.0  # From `group_all_reduce.ring_unevenness`.

    @property
    def rings_are_uneven(self) -> bool:
        """Whether the time of an all-reduce depends on which groups remain."""
        return self.ring_unevenness > _UNEVEN

    def ring_time(self) -> RingTime:
        """Return the all-reduce time by number of members that agrees with both measurements."""
        if self.groups < 2:
            return RingTime(0.0, 0.0)
        rounds = 2 * (self.groups - 1)
        transfer_s = (self.all_reduce_s - self.empty_all_reduce_s) * self.groups / rounds
        return RingTime(self.empty_all_reduce_s / rounds, transfer_s)


def probe(platform: Path, traffic: Traffic) -> ProbeResult:
    """Return the measurements of a job on a platform, from the cache if it holds them."""
    return cached_simulation(platform, ProbeResult, _VERSION, measure_phases, traffic)


def measure_phases(engine: simgrid.Engine, traffic: Traffic) -> ProbeResult:
    """Measure a job's collective phases, one after the other."""
    from faultline.simulator.simgrid.group_all_reduce import all_reduce, ring_unevenness
    from faultline.simulator.simgrid.loading import lasting_s, run_controller
    from faultline.simulator.simgrid.storage_traffic import load_checkpoint, transfer

    hosts, saved_bytes = traffic.hosts, traffic.checkpoint_bytes_per_rank
    phases: list[Callable[[], object]] = [
        partial(all_reduce, hosts, traffic.bytes_per_rank),
        partial(all_reduce, hosts, 0.0),
    ]
    if traffic.storage:
        phases += [
            partial(transfer, traffic.write_of(0)),
            partial(load_checkpoint, hosts, traffic.storage, saved_bytes, traffic.readers),
        ]
    measured: list[float] = []
    run_controller(engine, "probe", lambda: measured.extend(map(lasting_s, phases)))
    all_reduce_s, empty_all_reduce_s, save_s, load_s = (
        measured if traffic.storage else (*measured, 0.0, 0.0)
    )
    unevenness = ring_unevenness(hosts, traffic.bytes_per_rank)
    return ProbeResult(all_reduce_s, empty_all_reduce_s, save_s, load_s, len(hosts), unevenness)
