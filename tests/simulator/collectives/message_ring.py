"""Rings that send every message of their algorithm, from an actor per member."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from faultline.simulator.processes.process import in_own_process


def message_rings_s(platform: Path, rings: Sequence[Sequence[str]], size_bytes: float) -> float:
    """Return when all-reduces of `size_bytes` over some rings of hosts, all at once, have ended."""
    return in_own_process(_simulate, platform, rings, size_bytes)


def _simulate(platform: Path, rings: Sequence[Sequence[str]], size_bytes: float) -> float:
    import simgrid
    from faultline.simulator.simgrid.loading import actor_on, load_engine

    engine = load_engine(platform)
    ends_s: list[float] = []

    def member(hosts: Sequence[str], place: int) -> None:
        inbox, outbox = (
            simgrid.Mailbox.by_name(f"{hosts[to]}") for to in (place, (place + 1) % len(hosts))
        )
        for _ in range(2 * (len(hosts) - 1)):
            sent = outbox.put_async(None, round(size_bytes / len(hosts)))
            inbox.get()
            sent.wait()
        ends_s.append(simgrid.Engine.clock)

    for hosts in rings:
        for place, host in enumerate(hosts):
            actor_on(host, "member", partial(member, hosts, place))
    engine.run()
    return max(ends_s)
