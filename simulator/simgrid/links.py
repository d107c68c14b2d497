"""Links and routes of the platform that is loaded in this process.

Links may differ from the XML: they may be slow for a while, or share their bandwidth equally.
Routes are looked up once per process; its forks know the same routes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import NamedTuple

import simgrid
from faultline.platforms import xml_names
from faultline.simulator.simgrid.traffic import Traffic

_ABOUT_A_MESSAGE = 1.1
"""Latency of the way to storage, over that of a message. If they were equal, flows of both kinds
could begin to send at the same moment: SimGrid 4.1 then leaves out links of the second one, if both
have the first link in common (32 flows got 133 GB/s of a link of 50 GB/s)."""


class Way(NamedTuple):
    """The route of a message from one host to another.

    Links that are `shared` divide their bandwidth among the messages on them; `unshared` ones limit
    each message separately.
    """

    shared: tuple[tuple[str, simgrid.Link], ...]
    unshared: tuple[simgrid.Link, ...]
    latency_s: float


@cache
def way_between(here: str, there: str) -> Way:
    """Return the way between two hosts, by their names."""
    links, latency_s = simgrid.Host.by_name(here).route_to(simgrid.Host.by_name(there))
    named = [(link.name, link) for link in links]
    shared = tuple((name, link) for name, link in named if _is_shared(name))
    unshared = tuple(link for name, link in named if not _is_shared(name))
    return Way(shared, unshared, latency_s)


@cache
def _is_shared(name: str) -> bool:
    policy = simgrid.Link.by_name(name).get_sharing_policy()
    return bool(policy != simgrid.Link.SharingPolicy.FATPIPE)


def busy_s_per_byte(messages: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Return how long a byte of each message keeps each link busy, in seconds, by SimGrid's names.

    Messages of equal size that start at once last as long as the busiest link: its messages get the
    smallest share, by max-min fairness, and end last, together.
    """
    busy: dict[str, float] = {}
    for sender, receiver in messages:
        way = way_between(sender, receiver)
        for name, link in way.shared:
            busy[name] = busy.get(name, 0.0) + 1.0 / link.bandwidth
        for link in way.unshared:
            busy[link.name] = 1.0 / link.bandwidth
    return busy


def narrowed(shares: Mapping[str, float]) -> AbstractContextManager[None]:
    """Reduce the bandwidth of links to shares, by their names in the XML, within the context."""
    widths: list[tuple[simgrid.Link, float]] = []
    for link in simgrid.Engine.instance.all_links if shares else ():
        # SimGrid names the two directions of nic-000017 nic-000017_UP and nic-000017_DOWN.
        share = shares.get(link.name.removesuffix("_UP").removesuffix("_DOWN"))
        if share is not None:
            widths.append((link, link.bandwidth * share))
    return at_bandwidths(widths)


@contextmanager
def at_bandwidths(widths: Sequence[tuple[simgrid.Link, float]]) -> Iterator[None]:
    """Set bandwidths of links, in bytes/s, within the context."""
    former = [(link, link.bandwidth) for link, _ in widths]
    for link, bandwidth in widths:
        link.set_bandwidth(bandwidth)
    try:
        yield
    finally:
        for link, bandwidth in former:
            link.set_bandwidth(bandwidth)


def level_memory_doors(traffic: Traffic) -> None:
    """Share links equally between messages and snapshots to host memory, if there are any.

    SimGrid divides a link in inverse proportion to the latencies of its flows, so a copy to memory
    would leave a message an eighth. A real copy consists of many small requests, which share
    equally. So the way to memory gets the latency of a message between groups, which is small
    compared to the time of a copy.
    """
    if not traffic.snapshot:
        return
    message_s = _message_latency_s(traffic)
    copy_s = way_between(traffic.hosts[0][0], traffic.snapshot[0][1]).latency_s
    for link in simgrid.Engine.instance.all_links:
        if xml_names.link_class(link.name) == "hostmemory":
            link.set_latency(link.latency + max(0.0, message_s - copy_s))


@contextmanager
def storage_shared_equally(traffic: Traffic) -> Iterator[None]:
    """Share links equally between messages and flows to storage, within the context.

    It is for flows that go on beside messages. For the same reason as on the way to memory, the
    longest link to storage gets a latency with which the way takes about as long as a message
    between groups. Otherwise messages would leave the flows next to nothing.
    """
    if not traffic.storage:
        yield
        return
    sender = traffic.hosts[0][0]
    links, latency_s = simgrid.Host.by_name(sender).route_to(simgrid.Host.by_name(traffic.storage))
    excess_s = latency_s - _ABOUT_A_MESSAGE * _message_latency_s(traffic)
    if excess_s <= 0.0:
        # SimGrid would stop flows without latency.
        yield
        return
    farthest = max(links, key=lambda link: link.latency)
    former_s = farthest.latency
    farthest.set_latency(max(0.0, former_s - excess_s))
    try:
        yield
    finally:
        farthest.set_latency(former_s)


def _message_latency_s(traffic: Traffic) -> float:
    """Return the latency of a message between the first and the last group; 0 for one group."""
    hosts = traffic.hosts
    return way_between(hosts[0][0], hosts[-1][0]).latency_s if len(hosts) > 1 else 0.0
