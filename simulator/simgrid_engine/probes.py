"""What SimGrid measures once on a platform, so that the replay engine need not guess."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simulator.durations import RingTime
from simulator.simgrid_engine.process import in_own_process
from simulator.simgrid_engine.traffic import Traffic


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Times of a job's collective phases on an idle platform, all groups up; in seconds.

    Attributes
    ----------
    all_reduce_s : float
        One all-reduce of all groups.
    empty_all_reduce_s : float
        The same with a single byte a message: latencies alone.
    save_s, load_s : float
        Writing a checkpoint, and loading it into all groups.
    groups : int
        Number of groups.
    unevenness : float
        How much more bandwidth the best placed group has than the worst, to its successor in the
        ring or to the storage: 0.5 for half as much again. Where groups differ, times depend on
        which of them are left.
    """

    all_reduce_s: float
    empty_all_reduce_s: float
    save_s: float
    load_s: float
    groups: int
    unevenness: float = 0.0

    def ring_time(self) -> RingTime:
        """Return the all-reduce time by members that agrees with both measurements."""
        if self.groups < 2:
            return RingTime(0.0, 0.0)
        rounds = 2 * (self.groups - 1)
        transfer_s = (self.all_reduce_s - self.empty_all_reduce_s) * self.groups / rounds
        return RingTime(self.empty_all_reduce_s / rounds, transfer_s)


def probe(platform: Path, traffic: Traffic) -> ProbeResult:
    """Measure a job's collective phases on a platform, in a process of its own.

    Parameters
    ----------
    platform : Path
        Platform XML.
    traffic : Traffic
        Whose bytes, between which hosts.
    """
    return in_own_process(_measure, platform, traffic)


def _measure(platform: Path, traffic: Traffic) -> ProbeResult:
    import simgrid

    from platforms.xml_names import CONTROLLER_HOST
    from simulator.simgrid_engine.loading import actor_on, load_engine, run_to_the_end
    from simulator.simgrid_engine.storage_traffic import load_checkpoint, write_checkpoint

    engine = load_engine(platform)
    measured: list[float] = []

    def timed(act: Callable[[], object]) -> None:
        start_s = simgrid.Engine.clock
        act()
        measured.append(simgrid.Engine.clock - start_s)

    def measure() -> None:
        timed(lambda: _all_reduce(traffic, traffic.bytes_per_rank))
        timed(lambda: _all_reduce(traffic, 0.0))
        saved_bytes = traffic.checkpoint_bytes_per_rank
        timed(lambda: write_checkpoint(traffic.hosts[0], traffic.storage, saved_bytes))
        timed(lambda: load_checkpoint(traffic.hosts, traffic.storage, saved_bytes, traffic.readers))

    actor_on(CONTROLLER_HOST, "probe", measure)
    run_to_the_end(engine)
    all_reduce_s, empty_all_reduce_s, save_s, load_s = measured
    return ProbeResult(
        all_reduce_s,
        empty_all_reduce_s,
        save_s,
        load_s,
        len(traffic.hosts),
        max(_unevenness(_ring_edges(traffic)), _unevenness(_ways_to_storage(traffic))),
    )


def _ring_edges(traffic: Traffic) -> list[tuple[str, str]]:
    ranks = [hosts[0] for hosts in traffic.hosts]
    return list(zip(ranks, [*ranks[1:], ranks[0]], strict=True)) if len(ranks) > 1 else []


def _ways_to_storage(traffic: Traffic) -> list[tuple[str, str]]:
    return [(host, traffic.storage) for hosts in traffic.hosts for host in hosts]


def _unevenness(edges: list[tuple[str, str]]) -> float:
    """Return by how much the narrowest links of some routes differ, relative to the narrowest."""
    import simgrid

    widths = []
    for near, far in edges:
        links, _ = simgrid.Host.by_name(near).route_to(simgrid.Host.by_name(far))
        widths.append(min(link.bandwidth for link in links))
    return max(widths) / min(widths) - 1.0 if widths else 0.0


def _all_reduce(traffic: Traffic, bytes_per_rank: float) -> None:
    """Let the first host of every group take part in an all-reduce, and wait for all."""
    from math import inf

    import simgrid

    from simulator.collectives.player import Collective
    from simulator.collectives.ring import RingAllReduce
    from simulator.simgrid_engine.channel import Channel

    collective = Collective(
        RingAllReduce(len(traffic.hosts), bytes_per_rank),
        [hosts[0] for hosts in traffic.hosts],
        "probe",
        traffic.fidelity,
    )
    done: Channel[int] = Channel()

    def member(position: int) -> Callable[[], None]:
        def body() -> None:
            collective.take_part(position, inf)
            done.put(position)

        return body

    for position, host in enumerate(collective.hosts):
        simgrid.Host.by_name(host).add_actor(f"probe-{position}", member(position))
    for _ in collective.hosts:
        done.get()
