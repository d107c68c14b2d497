"""Routes of the loaded platform, each looked up once per process.

A process has one platform, and its forks know the routes that it has looked up.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import simgrid


class Way(NamedTuple):
    """The route of a message from one host to another.

    Attributes
    ----------
    shared : tuple of (str, simgrid.Link)
        Links that divide their bandwidth among the messages on them, with their names.
    unshared : tuple of simgrid.Link
        Links that limit each message separately.
    latency_s : float
        Latency, in seconds.
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
