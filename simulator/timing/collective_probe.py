"""The time of a collective on an idle platform, and its bottleneck."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.platforms.errors import PlatformError
from faultline.platforms.platform_data import GpuHost
from faultline.platforms.xml_names import link_class
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.collectives.catalogue import Setting, algorithm_of, bus_factor, schedule_of
from faultline.simulator.collectives.hierarchical import HierarchicalAllReduce
from faultline.simulator.collectives.schedule import Hop, Schedule
from faultline.simulator.timing.kept_platform import simulate_on
from faultline.simulator.timing.probe_cache import cached

if TYPE_CHECKING:
    import simgrid

# Raise it when a change to collectives or to this file changes what is measured.
_VERSION = 1


@dataclass(frozen=True, slots=True)
class CollectiveResult:
    """The measurement of a collective on an idle platform."""

    time_s: float  # From its start until the last member has finished.
    # Algorithm bandwidth times the factor of nccl-tests: 2 (n - 1)/n for an all-reduce,
    # (n - 1)/n for reduce-scatter, all-gather, all-to-all.
    bus_bandwidth_bytes_per_s: float
    algorithm_bandwidth_bytes_per_s: float  # Size over time.
    # The class of the links that take most of the time ("nic", "nvlink", "up_leaf", ...), or
    # "latency" if latencies take more than any.
    limited_by: str
    # The algorithm's formula: the time without contention if all edges were like that between the
    # first and the last rank, and all edges in a domain like that between neighbours.
    alpha_beta_s: float
    messages: int  # Messages that were simulated.


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
        Names from `simulator.collectives.catalogue`; None is the collective's first algorithm.
    size_bytes : float
        Size of a member's buffer by the count of nccl-tests: for reduce-scatter, all-gather and
        all-to-all the parts of all members together.
    ranks : int, optional
        Number of ranks, on the first GPUs; all by default.

    Raises
    ------
    CollectiveError
        The algorithm is unknown, or does not work for this number of ranks or bytes.
    PlatformError
        The platform is invalid or too small.
    SimulationError
        SimGrid aborts.
    """
    name = algorithm_of(collective, algorithm)
    platform = read_platform(platform_xml)
    count = len(platform.gpus)
    if ranks is not None and ranks > count:
        raise PlatformError(f"has {count} GPUs: {ranks} ranks are too many", str(platform.path))
    gpus = platform.gpus[:ranks]
    request = ["collective", _VERSION, collective, name, size_bytes, [gpu.name for gpu in gpus]]

    def measure() -> CollectiveResult:
        return simulate_on(platform_xml, _measure, collective, name, size_bytes, gpus)

    return cached(platform_xml, request, measure, CollectiveResult)


def _by_domain(gpus: Iterable[GpuHost]) -> list[list[GpuHost]]:
    """Return GPUs by scale-up domain; a GPU without a domain in the file has its own."""
    domains: dict[object, list[GpuHost]] = {}
    for gpu in gpus:
        domains.setdefault(gpu.domain if gpu.domain >= 0 else gpu.name, []).append(gpu)
    return list(domains.values())


def _measure(
    engine: simgrid.Engine, collective: str, name: str, size_bytes: float, gpus: Sequence[GpuHost]
) -> CollectiveResult:
    """Simulate an algorithm of a collective, in the setting that it adapts to."""
    domains = _by_domain(gpus)
    position = {gpu.name: number for number, gpu in enumerate(gpus)}
    members = [[position[gpu.name] for gpu in domain] for domain in domains]
    schedule = schedule_of(collective, name, Setting(len(gpus), size_bytes, members))
    hop = _farthest(engine, gpus, domains)
    if isinstance(schedule, HierarchicalAllReduce):
        first = domains[0]
        inner = _hop(engine, first[0], first[1]) if len(first) > 1 else None
        alpha_beta_s = schedule.alpha_beta_s(hop, inner)
    else:
        alpha_beta_s = schedule.alpha_beta_s(hop)
    time_s, messages, limited_by = _simulate(engine, schedule, [gpu.name for gpu in gpus])
    bandwidth = size_bytes / time_s if time_s > 0.0 else 0.0
    factor = bus_factor(collective, len(gpus))
    return CollectiveResult(
        time_s, factor * bandwidth, bandwidth, limited_by, alpha_beta_s, messages
    )


def _farthest(
    engine: simgrid.Engine, gpus: Sequence[GpuHost], domains: Sequence[Sequence[GpuHost]]
) -> Hop:
    """Return the edge between the first and the last GPU, or the last domain's on the same rail."""
    if len(domains) > 1 and len(domains) * len(domains[0]) == len(gpus):
        return _hop(engine, domains[0][0], domains[-1][0])
    return _hop(engine, gpus[0], gpus[-1])


def _hop(engine: simgrid.Engine, source: GpuHost, destination: GpuHost) -> Hop:
    ends = (engine.host_by_name(gpu.name) for gpu in (source, destination))
    links, latency_s = next(ends).route_to(next(ends))
    return Hop(latency_s, min(link.bandwidth for link in links))


def _simulate(
    engine: simgrid.Engine, schedule: Schedule, hosts: Sequence[str]
) -> tuple[float, int, str]:
    """Simulate the collective; return its time in s, its messages, and its bottleneck."""
    import simgrid
    from faultline.simulator.collectives.runner import Collective
    from faultline.simulator.simgrid.loading import actor_on

    collective = Collective(schedule, hosts, "probe")
    ends_s: list[float] = []

    def member(position: int) -> None:
        collective.take_part(position)
        ends_s.append(simgrid.Engine.clock)

    for position, host in enumerate(hosts):
        actor_on(host, f"member-{position}", partial(member, position))
    engine.run()
    time_s = max(ends_s)
    return time_s, collective.messages, _bottleneck(schedule, hosts, time_s)


def _bottleneck(schedule: Schedule, hosts: Sequence[str], time_s: float) -> str:
    """Return the class of links that takes most of the time, or "latency".

    Each stage takes at least as long as the link with the most bytes for its bandwidth is busy.
    Stages follow each other, so these times add up, by class; the rest of `time_s` is latencies.
    """
    import simgrid

    nodes = [simgrid.Host.by_name(host) for host in hosts]
    busy_s: list[dict[str, float]] = []
    for position, here in enumerate(nodes):
        for number, stage in enumerate(schedule.stages(position)):
            if number == len(busy_s):
                busy_s.append({})
            for peer, pieces in stage.sends:
                links, _ = here.route_to(nodes[peer])
                for link in links:
                    # A fat pipe limits each flow separately.
                    is_fat_pipe = link.get_sharing_policy() == simgrid.Link.SharingPolicy.FATPIPE
                    seconds = pieces * schedule.piece_bytes / link.bandwidth
                    before_s = busy_s[number].get(link.name, 0.0)
                    busy_s[number][link.name] = (
                        max(before_s, seconds) if is_fat_pipe else before_s + seconds
                    )
    by_class: dict[str, float] = {"latency": time_s}
    for stage_busy_s in busy_s:
        busiest = _largest(stage_busy_s)
        # SimGrid appends _UP and _DOWN to nic-000017 for its directions.
        kind = link_class(busiest.removesuffix("_UP").removesuffix("_DOWN"))
        by_class[kind] = by_class.get(kind, 0.0) + stage_busy_s[busiest]
        by_class["latency"] -= stage_busy_s[busiest]
    return _largest(by_class)


def _largest(seconds: dict[str, float]) -> str:
    """Return the key of the largest value; the first of equal keys, which is next to the sender."""
    largest = max(seconds.values())
    return next(key for key, value in seconds.items() if value >= largest * (1 - 1e-9))
