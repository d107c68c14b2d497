"""How long groups take to write to the storage and to load from it: SimGrid plays their flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.simulator.probe_cache import cached
from faultline.simulator.simgrid_engine.group_state import Flow
from faultline.simulator.simgrid_engine.kept_platform import PlayedTime, played_on
from faultline.simulator.simgrid_engine.recovery_moves import time_flows
from faultline.simulator.simgrid_engine.traffic import Readers, Traffic

if TYPE_CHECKING:
    import simgrid

# Raise it when the same would be played otherwise.
_PLAY_VERSION = 1


@dataclass(frozen=True, slots=True)
class PlayedStorageTimes:
    """Times of checkpoints by who writes and who loads: each is played once, and remembered.

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
            play = partial(played_on, self.platform, time_flows, flows)
            self._saves_s[writer] = self._of(["save", flows], play)
        return self._saves_s[writer]

    def load_s(self, members: Sequence[int]) -> float:
        """Return the time until some groups have loaded one, in seconds."""
        loading = tuple(members)
        if loading not in self._loads_s:
            traffic = self.traffic
            hosts = [list(traffic.hosts[group]) for group in loading]
            asked = (hosts, traffic.storage, traffic.checkpoint_bytes_per_rank, traffic.readers)
            play = partial(played_on, self.platform, _time_load, *asked)
            self._loads_s[loading] = self._of(["load", *asked], play)
        return self._loads_s[loading]

    def _of(self, asked: Sequence[object], play: partial[PlayedTime]) -> float:
        key = [_PLAY_VERSION, *asked]
        return cached(self.platform, key, play, PlayedTime.believable).duration_s


def _time_load(
    engine: simgrid.Engine,
    hosts: Sequence[Sequence[str]],
    storage: str,
    size_bytes: float,
    readers: Readers,
) -> PlayedTime:
    """Play loading on an engine's platform that is idle otherwise."""
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.loading import actor_on, run_to_the_end
    from faultline.simulator.simgrid_engine.storage_traffic import load_checkpoint

    def load() -> None:
        load_checkpoint(hosts, storage, size_bytes, readers)

    actor_on(CONTROLLER_HOST, "load", load)
    run_to_the_end(engine)
    return PlayedTime(engine.clock)
