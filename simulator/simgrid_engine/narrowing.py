"""Links that carry less for a while: adapters of servers whose network has lost a switch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import simgrid


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
