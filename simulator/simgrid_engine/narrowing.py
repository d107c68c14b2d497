"""Links that are not as the XML says: slow for a while, or fair to all that meets on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import simgrid
from faultline.platforms import xml_names
from faultline.platforms.outages import links_of_component
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.failures.failure import Failure


def slow_links(path: Path, causes: Iterable[Failure]) -> dict[str, float]:
    """Return the remaining bandwidth share of links with slow components, by their names."""
    shares: dict[str, float] = {}
    for failure in causes:
        for link in _links_of(path, failure.level, failure.number):
            shares[link] = min(shares.get(link, 1.0), 1.0 / failure.factor)
    return shares


@lru_cache(maxsize=1024)
def _links_of(path: Path, level: str, number: int) -> tuple[str, ...]:
    return links_of_component(read_platform(path), level, number)


@contextmanager
def narrowed(shares: Mapping[str, float]) -> Iterator[None]:
    """Leave links a share of their bandwidth, by their names in the XML, until this ends."""
    kept: list[tuple[simgrid.Link, float]] = []
    for link in simgrid.Engine.instance.all_links if shares else ():
        # SimGrid names the directions of nic-000017 with _UP and _DOWN behind.
        share = shares.get(link.name.removesuffix("_UP").removesuffix("_DOWN"))
        if share is not None:
            kept.append((link, link.bandwidth))
            link.set_bandwidth(link.bandwidth * share)
    try:
        yield
    finally:
        for link, bandwidth in kept:
            link.set_bandwidth(bandwidth)


def level_memory_doors(hosts: Sequence[Sequence[str]], door: str) -> None:
    """Let copies to the memory of hosts share links equally with messages of some groups.

    SimGrid shares a link in inverse proportion to the latencies of what meets on it, and a copy,
    of many small requests, would leave a message an eighth. So the way to memory is given the
    latency of a message between groups, which is nothing beside the time of a copy.

    Parameters
    ----------
    hosts : sequence of sequence of str
        The GPU hosts of each group.
    door : str
        That of the first of them.
    """
    here = simgrid.Host.by_name(hosts[0][0])
    message_s = here.route_to(simgrid.Host.by_name(hosts[-1][0]))[1] if len(hosts) > 1 else 0.0
    way_s = here.route_to(simgrid.Host.by_name(door))[1]
    for link in simgrid.Engine.instance.all_links:
        if xml_names.link_class(link.name) == "hostmemory":
            link.set_latency(link.latency + max(0.0, message_s - way_s))
