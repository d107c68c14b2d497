"""Which links limit the phases of a job, and how far others are from limiting them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from faultline.simulator.simgrid.traffic import Traffic
from faultline.simulator.timing.kept_platform import simulate_on

if TYPE_CHECKING:
    import simgrid


class LinkUse(NamedTuple):
    """The links of one phase, whose messages are sent at once and have equal sizes."""

    limiting: str  # The link that is busy longest, by its name in the XML.
    # Busy times of the asked links that carry messages, as shares of the limiting link's.
    shares: Mapping[str, float]


def link_use(platform: Path, traffic: Traffic, links: Collection[str]) -> dict[str, LinkUse]:
    """Return how the phases that send messages use some links, by the names of the phases.

    A phase lasts at least as long as the link with the most bytes for its bandwidth is busy.
    """
    return simulate_on(platform, _link_use, traffic, frozenset(links))


def _link_use(
    _engine: simgrid.Engine, traffic: Traffic, links: Collection[str]
) -> dict[str, LinkUse]:
    found = {}
    for phase, messages in _phases(traffic):
        busy_s = _busy_s_per_byte(messages)
        if busy_s:
            # Of links that are equally busy, the one next to the first sender.
            longest_s = max(busy_s.values())
            limiting = next(link for link, s in busy_s.items() if s >= longest_s * (1 - 1e-9))
            shares = {link: busy_s[link] / busy_s[limiting] for link in links if link in busy_s}
            found[phase] = LinkUse(limiting, shares)
    return found


def _phases(traffic: Traffic) -> Iterator[tuple[str, Iterable[tuple[str, str]]]]:
    """Yield the name of each phase with its messages: their senders and receivers."""
    from faultline.simulator.simgrid.placed_job import MESSAGES, PlacedJob

    hosts = traffic.hosts
    if traffic.step is not None:
        job = PlacedJob(traffic.step.hosts, traffic.step.pattern)
        for kind in MESSAGES:
            yield kind, job.messages(kind)
    elif traffic.all_reduce:
        rings = zip(hosts, [*hosts[1:], hosts[0]], strict=True)
        edges = (edge for near, far in rings for edge in zip(near, far, strict=True))
        yield "all-reduce", edges if len(hosts) > 1 else ()
    if traffic.save:
        yield "checkpoint", ((host, traffic.storage) for host in hosts[0])
    if traffic.load:
        reading = hosts[:1] if traffic.readers == "one-group" else hosts
        yield "load", ((traffic.storage, host) for group in reading for host in group)


def _busy_s_per_byte(messages: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Return how long a byte of each message keeps each link busy, by links of the XML."""
    from faultline.simulator.simgrid.links import busy_s_per_byte

    busy: dict[str, float] = {}
    for name, seconds in busy_s_per_byte(messages).items():
        # SimGrid names the two directions of nic-000017 nic-000017_UP and nic-000017_DOWN.
        link_name = name.removesuffix("_UP").removesuffix("_DOWN")
        busy[link_name] = max(busy.get(link_name, 0.0), seconds)
    return busy
