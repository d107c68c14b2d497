"""The time of a collective on an idle platform, and its bottleneck."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.platforms.errors import PlatformError
from faultline.platforms.platform_data import Platform
from faultline.platforms.xml_names import link_class
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.collectives.algorithms import (
    Collective,
    LinkShares,
    bus_factor,
    collectives_of,
)
from faultline.simulator.timing.probe_cache import cached_simulation
from faultline.simulator.workload.kernels import A100, GB200, H100

if TYPE_CHECKING:
    import simgrid

# Raise it when a change to collectives or to this file changes what is measured.
_VERSION = 2

SMALLEST_CHECKED_BYTES = 16 * 2**20
"""Below this size times are mostly latencies, which no published measurement of all platforms
confirms."""

_GENERATIONS = {
    **dict.fromkeys(("A100", "A800"), A100),
    **dict.fromkeys(("H100", "H200", "H800"), H100),
    **dict.fromkeys(("B200", "B300", "GB200", "GB300"), GB200),
}
"""The GPU whose published collectives apply, by the first word of a GPU's name."""


@dataclass(frozen=True, slots=True)
class CollectiveResult:
    """The measurement of a collective on an idle platform."""

    algorithm: str
    time_s: float  # From its start until the last rank has finished.
    latency_s: float  # The part of it that is latencies of steps.
    # Algorithm bandwidth times the factor of nccl-tests (`algorithms.bus_factor`).
    bus_bandwidth_bytes_per_s: float
    algorithm_bandwidth_bytes_per_s: float  # Size over time.
    # The class of the busiest link ("nic", "nvlink", "up_leaf", ...), or "latency" if latencies
    # take longer.
    limited_by: str
    flows: int  # Steady flows that were simulated.


def probe_collective(
    platform_xml: Path,
    collective: str,
    algorithm: str | None,
    size_bytes: float,
    ranks: int | None = None,
) -> CollectiveResult:
    """Measure a collective on a platform, or look it up in the cache.

    Parameters
    ----------
    platform_xml : Path
        Platform XML.
    collective, algorithm : str
        Names from `simulator.collectives.algorithms`. None is the algorithm with the least latency
        plus time of its busiest link, as NCCL chooses.
    size_bytes : float
        Size of a rank's buffer by the count of nccl-tests: for reduce-scatter, all-gather and
        all-to-all the parts of all ranks together.
    ranks : int, optional
        Number of ranks, on the first GPUs; all by default.

    Raises
    ------
    CollectiveError
        The algorithm is unknown, or does not work for these ranks.
    PlatformError
        The platform is invalid or too small.
    SimulationError
        SimGrid aborts.
    """
    platform = read_platform(platform_xml)
    count = len(platform.gpus)
    if ranks is not None and ranks > count:
        raise PlatformError(f"has {count} GPUs: {ranks} ranks are too many", str(platform.path))
    # A GPU without a domain in the file is a domain of its own.
    domains: defaultdict[object, list[int]] = defaultdict(list)
    for rank, gpu in enumerate(platform.gpus[:ranks]):
        domains[gpu.domain if gpu.domain >= 0 else gpu.name].append(rank)
    request = collective, algorithm, size_bytes, [*domains.values()], link_shares(platform)
    collectives_of(collective, algorithm, request[3], request[4])  # Refuses a wrong request here.
    hosts = platform.gpu_names[:ranks]
    return cached_simulation(platform_xml, CollectiveResult, _VERSION, _measure, hosts, *request)


def link_shares(platform: Platform) -> LinkShares:
    """Return published shares of links by the kind of GPU; 1 if it is unknown."""
    kernels = _GENERATIONS.get(platform.gpu.name.partition(" ")[0]) if platform.gpu else None
    if kernels is None:
        return LinkShares()
    in_switch = kernels.all_reduce_share
    return LinkShares(
        kernels.scale_up_share.points[-1][1],
        kernels.scale_out_share,
        None if in_switch is None else in_switch.points[-1][1],
    )


def _measure(
    engine: simgrid.Engine,
    hosts: Sequence[str],
    name: str,
    algorithm: str | None,
    size_bytes: float,
    domains: Sequence[Sequence[int]],
    shares: LinkShares,
) -> CollectiveResult:
    """Simulate the fastest of some algorithms by its flows."""
    from faultline.simulator.simgrid.loading import alone_s
    from faultline.simulator.simgrid.storage_traffic import arrivals_s

    def closed_form_s(each: Collective) -> float:
        return _latency_s(each, hosts) + size_bytes * max(_busy_s_per_byte(each, hosts).values())

    fitting = collectives_of(name, algorithm, domains, shares)
    algorithm = min(fitting, key=lambda each: closed_form_s(fitting[each]))
    chosen = fitting[algorithm]
    latency_s, busy_s = _latency_s(chosen, hosts), _busy_s_per_byte(chosen, hosts)
    # Latencies are those of the steps. Without them, SimGrid's flows share links equally.
    for link in engine.all_links:
        link.set_latency(0.0)
    # SimGrid counts whole bytes, and loses messages of 0 bytes.
    flows = [
        (hosts[near], hosts[far], max(1.0, size_bytes * sent))
        for (near, far, _), sent in chosen.sent.items()
    ]
    transfer_s = alone_s(engine, lambda: arrivals_s(flows))
    bandwidth = size_bytes / (latency_s + transfer_s)
    # The first of equally busy links, which is next to the sender. SimGrid appends _UP and _DOWN
    # to nic-000017 for its directions.
    busiest = next(link for link, s in busy_s.items() if s >= max(busy_s.values()) * (1 - 1e-9))
    limit = link_class(busiest.removesuffix("_UP").removesuffix("_DOWN"))
    return CollectiveResult(
        algorithm,
        latency_s + transfer_s,
        latency_s,
        bus_factor(name, len(hosts)) * bandwidth,
        bandwidth,
        "latency" if latency_s > transfer_s else limit,
        len(flows),
    )


def _latency_s(collective: Collective, hosts: Sequence[str]) -> float:
    """Return the latency of all steps on the longest routes of a platform, in seconds."""
    from faultline.simulator.simgrid.links import way_between

    longest_s = {True: 0.0, False: 0.0}
    for near, far, _ in collective.sent:
        is_inside = collective.place[near][0] is collective.place[far][0]
        route_s = way_between(hosts[near], hosts[far]).latency_s
        longest_s[is_inside] = max(longest_s[is_inside], route_s)
    return collective.latency.seconds(longest_s[True], longest_s[False])


def _busy_s_per_byte(collective: Collective, hosts: Sequence[str]) -> Mapping[str, float]:
    """Return how long each link is busy per byte of the buffer, in seconds, by SimGrid's names."""
    from faultline.simulator.simgrid.links import way_between

    busy_s: defaultdict[str, float] = defaultdict(float)
    for (near, far, _), sent in collective.sent.items():
        way = way_between(hosts[near], hosts[far])
        for name, link in way.shared:
            busy_s[name] += sent / link.bandwidth
        for link in way.unshared:
            busy_s[link.name] = max(busy_s[link.name], sent / link.bandwidth)
    return busy_s
