"""How long state and gradients take on their way, by who sends: SimGrid plays each once.

What a distinct question takes is remembered, here and in the cache of the platform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from faultline.simulator.collectives.schedule import Fidelity
from faultline.simulator.probe_cache import cached
from faultline.simulator.simgrid_engine.group_state import Flow, GroupState
from faultline.simulator.simgrid_engine.kept_platform import PlayedTime, played_on
from faultline.simulator.simgrid_engine.traffic import Readers, Traffic
from faultline.strategies.recovery import Move, SentMove

if TYPE_CHECKING:
    import simgrid

Arguments = ParamSpec("Arguments")

# Raise one when the same would be played otherwise.
_ALL_REDUCE_VERSION, _STORAGE_VERSION, _MOVES_VERSION = 1, 1, 2


@lru_cache(maxsize=1024)
def cached_all_reduce(
    platform: Path,
    hosts: tuple[tuple[str, ...], ...],
    bytes_per_host: float,
    fidelity: Fidelity,
    shares: tuple[tuple[str, float], ...],
) -> PlayedTime:
    """Return the time of an all-reduce of some groups, from the cache if it is there.

    Parameters
    ----------
    platform : Path
        Platform XML.
    hosts : tuple of tuple of str
        The GPU hosts of each group.
    bytes_per_host : float
        Bytes of gradients that each carries.
    fidelity : {"flow", "chunk"}
        How exactly it is played.
    shares : tuple of (str, float)
        What some links have of their bandwidth.
    """
    asked = [_ALL_REDUCE_VERSION, "all-reduce", hosts, bytes_per_host, fidelity, shares]
    left = dict(shares)
    return _cached(platform, asked, _play_all_reduce, hosts, bytes_per_host, fidelity, left)


@dataclass(frozen=True, slots=True)
class PlayedStorageTimes:
    """Times of checkpoints by who writes and who loads.

    Attributes
    ----------
    platform : Path
        Platform XML.
    traffic : Traffic
        The job's data.
    """

    platform: Path
    traffic: Traffic
    _saves_s: dict[int, float] = field(default_factory=dict, init=False, repr=False, compare=False)
    _loads_s: dict[tuple[int, ...], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def save_s(self, writer: int) -> float:
        """Return the time in which a group writes a checkpoint, in seconds."""
        if writer not in self._saves_s:
            flows = [
                Flow(host, storage, round(size_bytes))
                for host, storage, size_bytes in self.traffic.write_of(writer)
            ]
            asked = [_STORAGE_VERSION, "save", flows]
            self._saves_s[writer] = _cached(self.platform, asked, _play_flows, flows).duration_s
        return self._saves_s[writer]

    def load_s(self, members: Sequence[int]) -> float:
        """Return the time until some groups have loaded one, in seconds."""
        loading = tuple(members)
        if loading not in self._loads_s:
            traffic = self.traffic
            hosts = [list(traffic.hosts[group]) for group in loading]
            given = (hosts, traffic.storage, traffic.checkpoint_bytes_per_rank, traffic.readers)
            asked = [_STORAGE_VERSION, "load", *given]
            self._loads_s[loading] = _cached(self.platform, asked, _play_load, *given).duration_s
        return self._loads_s[loading]


@dataclass(frozen=True, slots=True)
class PlayedMoves:
    """Times in which state moves between groups in a recovery.

    On a platform that is as its spec says, groups are alike that have the same place among the
    scale-up domains: moves are told apart by what they move and whom domains join, and played for
    the first groups. On one that was edited, by whom they are for.

    Attributes
    ----------
    platform : Path
        Platform XML.
    state : GroupState
        Where the state lies.
    block : int or None
        After so many groups a domain begins with a group again: 1 where each has whole domains.
        None where the platform was edited.
    """

    platform: Path
    state: GroupState
    block: int | None
    _known: dict[tuple[SentMove, ...], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def duration_s(self, moves: Sequence[SentMove], *, as_placed: bool = False) -> float:
        """Return the time until the last of some moves has arrived, in seconds."""
        if self.block is not None and not as_placed:
            moves = _in_order(moves, len(self.state.hosts), self.block)
        asked = tuple(moves)
        if asked not in self._known:
            flows = self.state.flows(moves)
            self._known[asked] = self._played_s(flows) if flows else 0.0
        return self._known[asked]

    def size_bytes(self, moves: Sequence[Move]) -> float:
        """Return what arrives at all receivers together, in bytes."""
        return self.state.size_bytes(moves)

    def _played_s(self, flows: Sequence[Flow]) -> float:
        return _cached(self.platform, [_MOVES_VERSION, flows], _play_flows, flows).duration_s


def _in_order(moves: Sequence[SentMove], groups: int, block: int) -> list[SentMove]:
    """Return moves with their groups numbered in the order in which they come, block by block.

    No more than there are on the platform: those of the first stand for the others.
    """
    numbers: dict[int, int] = {}

    def numbered(group: int) -> int:
        number, place = divmod(group, block)
        return numbers.setdefault(number, len(numbers)) * block + place

    renamed = []
    for move, sender in moves:
        group = numbered(move.group)
        away = None if sender is None else numbered(sender)
        if max(group, away or 0) < groups:
            renamed.append(SentMove(move._replace(group=group), away))
    return renamed


def _cached(
    platform: Path,
    asked: Sequence[object],
    play: Callable[Concatenate[simgrid.Engine, Arguments], PlayedTime],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> PlayedTime:
    measure = partial(played_on, platform, play, *args, **kwargs)
    return cached(platform, asked, measure, PlayedTime.believable)


def _play_all_reduce(
    engine: simgrid.Engine,
    hosts: Sequence[Sequence[str]],
    bytes_per_host: float,
    fidelity: Fidelity,
    shares: Mapping[str, float],
) -> PlayedTime:
    from faultline.simulator.simgrid_engine.narrowing import narrowed
    from faultline.simulator.simgrid_engine.probes import all_reduce

    with narrowed(shares):
        return PlayedTime.of(engine, lambda: all_reduce(hosts, bytes_per_host, fidelity))


def _play_flows(engine: simgrid.Engine, flows: Sequence[Flow]) -> PlayedTime:
    from faultline.simulator.simgrid_engine.storage_traffic import transfer

    return PlayedTime.of(engine, lambda: transfer(flows))


def _play_load(
    engine: simgrid.Engine,
    hosts: Sequence[Sequence[str]],
    storage: str,
    size_bytes: float,
    readers: Readers,
) -> PlayedTime:
    from faultline.simulator.simgrid_engine.storage_traffic import load_checkpoint

    return PlayedTime.of(engine, lambda: load_checkpoint(hosts, storage, size_bytes, readers))
