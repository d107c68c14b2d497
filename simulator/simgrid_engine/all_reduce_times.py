"""What an all-reduce of some groups takes while some links carry less: SimGrid plays it once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.simulator.collectives.schedule import Fidelity
from faultline.simulator.probe_cache import cached
from faultline.simulator.simgrid_engine.kept_platform import PlayedTime, played_on

if TYPE_CHECKING:
    import simgrid

# Raise it when the same all-reduce would be played otherwise.
_PLAY_VERSION = 1


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

    def measure() -> PlayedTime:
        return played_on(platform, _play, hosts, bytes_per_host, fidelity, dict(shares))

    asked = [_PLAY_VERSION, "all-reduce", hosts, bytes_per_host, fidelity, shares]
    return cached(platform, asked, measure, PlayedTime.believable)


def _play(
    engine: simgrid.Engine,
    hosts: Sequence[Sequence[str]],
    bytes_per_host: float,
    fidelity: Fidelity,
    shares: Mapping[str, float],
) -> PlayedTime:
    """Play an all-reduce of some groups, with a share of the bandwidth of some links."""
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.loading import actor_on, run_to_the_end
    from faultline.simulator.simgrid_engine.narrowing import narrowed
    from faultline.simulator.simgrid_engine.probes import all_reduce

    with narrowed(shares):
        actor_on(CONTROLLER_HOST, "reduce", lambda: all_reduce(hosts, bytes_per_host, fidelity))
        run_to_the_end(engine)
    return PlayedTime(engine.clock)
