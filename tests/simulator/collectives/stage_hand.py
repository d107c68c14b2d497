"""Puts collectives on a platform in a process of its own, and breaks things while they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from faultline.simulator.collectives.schedule import Fidelity, Schedule
from faultline.simulator.simgrid_engine.process import in_own_process


@dataclass(frozen=True)
class Simulate:
    """A collective on some hosts."""

    schedule: Schedule
    hosts: Sequence[str]
    fidelity: Fidelity = "flow"


@dataclass(frozen=True)
class Victim:
    """What is turned off at a time (s): a host by its name, or all links that begin with one."""

    at_s: float
    host: str = ""
    links: str = ""


@dataclass(frozen=True)
class Exit:
    """How a member left a collective, and when, in s after its start."""

    through: bool
    time_s: float


def gpu(index: int) -> str:
    """Return the name of a GPU's host."""
    return f"gpu-{index:06d}"


def one_after_the_other(platform: Path, simulates: Sequence[Simulate]) -> list[float]:
    """Return the time of each collective, alone on the platform."""
    return in_own_process(_in_turn, platform, simulates)


def all_at_once(
    platform: Path,
    simulates: Sequence[Simulate],
    deadline_s: float = inf,
    victims: Sequence[Victim] = (),
) -> list[dict[int, Exit]]:
    """Start all collectives together; return how their members left. Who died has not left."""
    return in_own_process(_together, platform, simulates, deadline_s, victims)


def _in_turn(platform: Path, simulates: Sequence[Simulate]) -> list[float]:
    import simgrid
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.loading import actor_on, load_engine
    from faultline.simulator.simgrid_engine.rank import Channel

    engine = load_engine(platform)
    times_s: list[float] = []

    def direct() -> None:
        for number, each in enumerate(simulates):
            start_s = simgrid.Engine.clock
            left: Channel[int] = Channel()
            _start(each, f"run-{number}", inf, {}, left)
            for _ in each.hosts:
                left.get()
            times_s.append(simgrid.Engine.clock - start_s)

    actor_on(CONTROLLER_HOST, "director", direct)
    engine.run()
    return times_s


def _together(
    platform: Path, simulates: Sequence[Simulate], deadline_s: float, victims: Sequence[Victim]
) -> list[dict[int, Exit]]:
    import simgrid
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.loading import actor_on, load_engine

    engine = load_engine(platform)
    exits: list[dict[int, Exit]] = [{} for _ in simulates]
    for number, each in enumerate(simulates):
        _start(each, f"run-{number}", deadline_s, exits[number], None)

    def strike() -> None:
        for victim in sorted(victims, key=lambda each: each.at_s):
            simgrid.this_actor.sleep_until(victim.at_s)
            if victim.host:
                simgrid.Host.by_name(victim.host).turn_off()
            struck = [
                link
                for link in engine.all_links
                if victim.links and link.name.startswith(victim.links)
            ]
            assert victim.host or struck, f"no link begins with {victim.links!r}"
            for link in struck:
                link.turn_off()

    actor_on(CONTROLLER_HOST, "victims", strike)
    engine.run()
    return exits


def _start(
    each: Simulate, tag: str, deadline_s: float, exits: dict[int, Exit], left: object
) -> None:
    import simgrid
    from faultline.simulator.collectives.runner import Collective

    collective = Collective(each.schedule, each.hosts, tag, each.fidelity)

    def member(position: int) -> None:
        through = collective.take_part(position, deadline_s)
        exits[position] = Exit(through, simgrid.Engine.clock)
        if left is not None:
            left.put(position)  # type: ignore[attr-defined]

    for position, host in enumerate(each.hosts):
        simgrid.Host.by_name(host).add_actor(f"{tag}-{position}", member, position)
