"""Links that carry less for a while: adapters that are slow, or whose network has lost a part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import simgrid
from faultline.platforms.outages import links_of_component
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.failures.failure import Failure


def slow_links(path: Path, causes: Iterable[Failure]) -> dict[str, float]:
    """Return what is left of the bandwidth of links whose component is slow, by their names."""
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
