"""Transfer times of state and gradients, by sender: SimGrid simulates each transfer once.

The result of each distinct request is kept in memory and in the platform's cache. A part of a
platform represents another only if the cables show that both are alike.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.platforms.symmetry import Symmetry
from faultline.simulator.job.durations import RingTime
from faultline.simulator.job.recovery_times import MoveTimes
from faultline.simulator.simgrid.traffic import Flow, Readers, Traffic
from faultline.simulator.timing.probe_cache import cached_simulation
from faultline.strategies.interface.recovery import Move, SentMove

if TYPE_CHECKING:
    import simgrid

# Raise one when the same request would be simulated differently.
_ALL_REDUCE_VERSION, _STORAGE_VERSION, _FLOWS_VERSION, _PHASES_VERSION = 1, 1, 4, 5

_UNEVEN = 0.01
"""Largest difference between groups at which the time of all groups determines that of some."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Times of a job's collective phases on an idle platform, all groups up; in seconds."""

    all_reduce_s: float
    empty_all_reduce_s: float  # With one byte per message: the latencies.
    save_s: float  # Writing a checkpoint.
    load_s: float  # Loading a checkpoint into all groups.
    groups: int
    ring_unevenness: float = 0.0  # From `group_all_reduce.ring_unevenness`.

    @property
    def rings_are_uneven(self) -> bool:
        """Whether the time of an all-reduce depends on which groups remain."""
        return self.ring_unevenness > _UNEVEN

    def ring_time(self) -> RingTime:
        """Return the all-reduce time by number of members that agrees with both measurements."""
        if self.groups < 2:
            return RingTime(0.0, 0.0)
        rounds = 2 * (self.groups - 1)
        transfer_s = (self.all_reduce_s - self.empty_all_reduce_s) * self.groups / rounds
        return RingTime(self.empty_all_reduce_s / rounds, transfer_s)


def probe(platform: Path, traffic: Traffic) -> ProbeResult:
    """Return the measurements of a job on a platform, from the cache if it holds them."""
    return cached_simulation(platform, ProbeResult, _PHASES_VERSION, measure_phases, traffic)


def measure_phases(engine: simgrid.Engine, traffic: Traffic) -> ProbeResult:
    """Measure a job's collective phases, one after the other."""
    from faultline.simulator.simgrid.group_all_reduce import all_reduce, ring_unevenness
    from faultline.simulator.simgrid.loading import lasting_s, run_controller
    from faultline.simulator.simgrid.storage_traffic import load_checkpoint, transfer

    hosts, saved_bytes = traffic.hosts, traffic.checkpoint_bytes_per_rank
    phases: list[Callable[[], object]] = [
        partial(all_reduce, hosts, traffic.bytes_per_rank),
        partial(all_reduce, hosts, 0.0),
    ]
    if traffic.storage:
        phases += [
            partial(transfer, traffic.write_of(0)),
            partial(load_checkpoint, hosts, traffic.storage, saved_bytes, traffic.readers),
        ]
    measured: list[float] = []
    run_controller(engine, "probe", lambda: measured.extend(map(lasting_s, phases)))
    all_reduce_s, empty_all_reduce_s, save_s, load_s = (
        measured if traffic.storage else (*measured, 0.0, 0.0)
    )
    unevenness = ring_unevenness(hosts, traffic.bytes_per_rank)
    return ProbeResult(all_reduce_s, empty_all_reduce_s, save_s, load_s, len(hosts), unevenness)


@lru_cache(maxsize=1024)
def all_reduce_s(
    platform: Path,
    hosts: tuple[tuple[str, ...], ...],
    bytes_per_host: float,
    shares: tuple[tuple[str, float], ...],
) -> float:
    """Return the time of an all-reduce of some groups, by the hosts of each, in seconds.

    `shares` are the remaining shares of the bandwidth of some links.
    """
    arguments = hosts, bytes_per_host, dict(shares)
    return cached_simulation(platform, float, _ALL_REDUCE_VERSION, _all_reduce, *arguments)


@dataclass(frozen=True, slots=True)
class SimulatedStorageTimes:
    """Times of checkpoints by the groups that write or load them.

    `symmetry` returns which parts of the platform are alike. The times in which the first group
    writes and all groups load are known; they apply to all groups if the phase is not simulated.
    """

    platform: Path
    traffic: Traffic
    symmetry: Callable[[], Symmetry] = field(repr=False, compare=False)
    save_by_first_s: float
    load_by_all_s: float
    _saves_s: dict[int, float] = field(default_factory=dict, init=False, repr=False, compare=False)
    _loads_s: dict[tuple[int, ...], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def save_s(self, writer: int) -> float:
        """Return the time in which a group writes a checkpoint, in seconds."""
        if writer == 0 or not self.traffic.save:
            return self.save_by_first_s
        if writer not in self._saves_s:
            flows = self._write_of(writer)
            self._saves_s[writer] = (
                self.save_by_first_s
                if flows == self._write_of(0)
                else max(_arrivals_s(self.platform, flows))
            )
        return self._saves_s[writer]

    def _write_of(self, writer: int) -> list[Flow]:
        flows = [(near, far, round(size)) for near, far, size in self.traffic.write_of(writer)]
        return _by_stand_ins(flows, self.symmetry())

    def load_s(self, members: Sequence[int]) -> float:
        """Return the time until some groups have loaded a checkpoint, in seconds."""
        if len(members) == len(self.traffic.hosts) or not self.traffic.load:
            return self.load_by_all_s
        loading = tuple(members)
        if loading not in self._loads_s:
            traffic = self.traffic
            hosts = [traffic.hosts[group] for group in loading]
            stand_ins = self.symmetry().stand_ins(name for names in hosts for name in names)
            hosts = [[stand_ins[name] for name in names] for names in hosts]
            arguments = hosts, traffic.storage, traffic.checkpoint_bytes_per_rank, traffic.readers
            self._loads_s[loading] = cached_simulation(
                self.platform, float, _STORAGE_VERSION, _load, *arguments
            )
        return self._loads_s[loading]


class _KnownMoves(dict[tuple[SentMove, ...], dict[int, float]]):
    """Known times of moves, pickled once although thousands of runs are sent the same."""

    _pickled: tuple[int, bytes] = (0, b"")

    def __reduce__(self) -> tuple[Callable[[bytes], _KnownMoves], tuple[bytes]]:
        """Send the content as bytes, which each process unpickles only once.

        Entries are added and never changed, so a larger number means new entries.
        """
        if self._pickled[0] != len(self):
            self._pickled = len(self), pickle.dumps(dict(self))
        return _known_moves, (self._pickled[1],)


@lru_cache(maxsize=4)
def _known_moves(content: bytes) -> _KnownMoves:
    return _KnownMoves(pickle.loads(content) if content else {})


@dataclass(frozen=True)
class SimulatedMoves(MoveTimes):
    """Times in which state moves between groups."""

    # Returns the platform XML and the traffic of all groups; called on first use.
    place: Callable[[], tuple[Path, Traffic]] = field(repr=False)
    # Returns the symmetry of a platform.
    symmetry: Callable[[Path], Symmetry] = field(repr=False, compare=False)
    _known: _KnownMoves = field(default_factory=_KnownMoves, init=False, repr=False, compare=False)

    @cached_property
    def _placed(self) -> tuple[Path, Traffic]:
        return self.place()

    @cached_property
    def _group_of(self) -> Mapping[str, int]:
        hosts_of = enumerate(self._placed[1].hosts)
        return {host: group for group, hosts in hosts_of for host in hosts}

    def busy_s(self, moves: Sequence[SentMove]) -> Mapping[int, float]:
        """Return how long each group sends or receives, in seconds."""
        request = tuple(moves)
        if request not in self._known:
            flows = self._placed[1].state_flows(moves)
            self._known[request] = self._of_groups(flows) if flows else {}
        return self._known[request]

    def _of_groups(self, flows: Sequence[Flow]) -> dict[int, float]:
        platform, _ = self._placed
        arrivals_s = _arrivals_s(platform, _by_stand_ins(flows, self.symmetry(platform)))
        busy_s: dict[int, float] = {}
        for (sender, receiver, _), arrival_s in zip(flows, arrivals_s, strict=True):
            for group in (self._group_of.get(sender), self._group_of.get(receiver)):
                if group is not None:
                    busy_s[group] = max(arrival_s, busy_s.get(group, 0.0))
        return busy_s

    def size_bytes(self, moves: Sequence[Move]) -> float:
        """Return the bytes that arrive at all receivers together."""
        return self._placed[1].state_bytes_of(moves)


def _by_stand_ins(flows: Sequence[Flow], symmetry: Symmetry) -> list[Flow]:
    """Return equally long flows on the first of the platform's parts that are alike."""
    stand_ins = symmetry.stand_ins(host for near, far, _ in flows for host in (near, far))
    return [(stand_ins[near], stand_ins[far], size_bytes) for near, far, size_bytes in flows]


def _arrivals_s(platform: Path, flows: Sequence[Flow]) -> list[float]:
    """Return when each of some flows that begin at once has arrived, in seconds."""
    return cached_simulation(platform, list, _FLOWS_VERSION, _arrivals, flows)


def _all_reduce(
    engine: simgrid.Engine,
    hosts: Sequence[Sequence[str]],
    bytes_per_host: float,
    shares: Mapping[str, float],
) -> float:
    from faultline.simulator.simgrid.group_all_reduce import all_reduce
    from faultline.simulator.simgrid.links import narrowed
    from faultline.simulator.simgrid.loading import alone_s

    with narrowed(shares):
        return alone_s(engine, lambda: all_reduce(hosts, bytes_per_host))


def _arrivals(engine: simgrid.Engine, flows: Sequence[Flow]) -> list[float]:
    from faultline.simulator.simgrid.loading import alone_s
    from faultline.simulator.simgrid.storage_traffic import arrivals_s

    arrived_s: list[float] = []
    alone_s(engine, lambda: arrived_s.extend(arrivals_s(flows)))
    return arrived_s


def _load(
    engine: simgrid.Engine,
    hosts: Sequence[Sequence[str]],
    storage: str,
    size_bytes: float,
    readers: Readers,
) -> float:
    from faultline.simulator.simgrid.loading import alone_s
    from faultline.simulator.simgrid.storage_traffic import load_checkpoint

    return alone_s(engine, lambda: load_checkpoint(hosts, storage, size_bytes, readers))
