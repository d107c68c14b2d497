"""The effect on a collective's members of a failure in the middle of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from faultline.simulator.collectives.schedule import Fidelity, Schedule
from faultline.simulator.simgrid_engine.process import in_own_process


@dataclass(frozen=True, slots=True)
class Failure:
    """A component fails.

    Attributes
    ----------
    at_s : float
        Seconds after the start of the collective.
    hosts, links : sequence of str
        Hosts and links that are turned off.
    """

    at_s: float
    hosts: Sequence[str]
    links: Sequence[str]


@dataclass(frozen=True, slots=True)
class Aftermath:
    """How the members left a collective; their numbers are their positions in it.

    Attributes
    ----------
    died : tuple of int
        Members that failed with their hosts.
    hung : tuple of int
        Members that waited until their watchdog fired.
    through : tuple of int
        Members that had finished before.
    end_s : float
        When the last surviving member left, in seconds after the start.
    """

    died: tuple[int, ...]
    hung: tuple[int, ...]
    through: tuple[int, ...]
    end_s: float


def break_collective(
    platform_xml: Path,
    schedule: Schedule,
    hosts: Sequence[str],
    fidelity: Fidelity,
    failure: Failure,
    watchdog_s: float,
) -> Aftermath:
    """Simulate a collective in a process of its own while a component fails.

    Parameters
    ----------
    platform_xml : Path
        Platform XML.
    schedule : Schedule
        The collective.
    hosts : sequence of str
        Hosts of its members, in order.
    fidelity : {"flow", "chunk"}
        A flow an edge, or every message.
    failure : Failure
        The component that fails, and when.
    watchdog_s : float
        Seconds after the start at which every member gives up.
    """
    return in_own_process(_simulate, platform_xml, schedule, hosts, fidelity, failure, watchdog_s)


def _simulate(
    platform_xml: Path,
    schedule: Schedule,
    hosts: Sequence[str],
    fidelity: Fidelity,
    failure: Failure,
    watchdog_s: float,
) -> Aftermath:
    import simgrid
    from faultline.simulator.collectives.runner import Collective
    from faultline.simulator.simgrid_engine.loading import (
        load_engine,
        run_controller,
        start_members,
    )

    engine = load_engine(platform_xml)
    collective = Collective(schedule, hosts, "collective", fidelity)
    out: dict[int, tuple[bool, float]] = {}

    def member(position: int) -> None:
        through = collective.take_part(position, watchdog_s)
        out[position] = (through, simgrid.Engine.clock)

    def strike() -> None:
        simgrid.this_actor.sleep_until(failure.at_s)
        for name in failure.links:
            _turn_off(name)
        for name in failure.hosts:
            simgrid.Host.by_name(name).turn_off()

    start_members(hosts, member)
    run_controller(engine, "failure", strike)
    return Aftermath(
        died=tuple(position for position in range(len(hosts)) if position not in out),
        hung=tuple(position for position, (through, _) in sorted(out.items()) if not through),
        through=tuple(position for position, (through, _) in sorted(out.items()) if through),
        end_s=max((time_s for _, time_s in out.values()), default=0.0),
    )


def _turn_off(name: str) -> None:
    """Turn off a link in both directions; SimGrid names the directions of a split link."""
    import simgrid

    for suffix in ("", "_UP", "_DOWN"):
        link = simgrid.Link.by_name_or_null(name + suffix)
        if link is not None:
            link.turn_off()
