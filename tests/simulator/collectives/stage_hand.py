"""Puts collectives on a platform in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from faultline.simulator.collectives.schedule import Schedule, ScheduleStage
from faultline.simulator.processes.process import in_own_process

Fidelity = Literal["flow", "chunk"]
"""As the product simulates it: one flow an edge; or every message of the algorithm."""


@dataclass(frozen=True)
class Simulate:
    """A collective on some hosts."""

    schedule: Schedule
    hosts: Sequence[str]
    fidelity: Fidelity = "flow"


class _ByMessages:
    """A schedule without steady flows, so that each message of its rounds is sent."""

    def __init__(self, schedule: Schedule) -> None:
        self.piece_bytes = schedule.piece_bytes
        self._schedule = schedule

    def stages(self, position: int) -> Iterator[ScheduleStage]:
        return (replace(stage, circle=None) for stage in self._schedule.stages(position))


def gpu(index: int) -> str:
    """Return the name of a GPU's host."""
    return f"gpu-{index:06d}"


def one_after_the_other(platform: Path, simulates: Sequence[Simulate]) -> list[float]:
    """Return the time of each collective, alone on the platform."""
    return in_own_process(_in_turn, platform, simulates)


def all_at_once(platform: Path, simulates: Sequence[Simulate]) -> list[float]:
    """Return the time of each collective if all start together."""
    return in_own_process(_together, platform, simulates)


def _in_turn(platform: Path, simulates: Sequence[Simulate]) -> list[float]:
    import simgrid
    from faultline.simulator.simgrid.loading import load_engine

    engine = load_engine(platform)
    times_s: list[float] = []
    for number, each in enumerate(simulates):
        start_s = simgrid.Engine.clock
        _start(each, f"run-{number}", [])
        engine.run()
        times_s.append(simgrid.Engine.clock - start_s)
    return times_s


def _together(platform: Path, simulates: Sequence[Simulate]) -> list[float]:
    from faultline.simulator.simgrid.loading import load_engine

    engine = load_engine(platform)
    ends_s: list[list[float]] = [[] for _ in simulates]
    for number, each in enumerate(simulates):
        _start(each, f"run-{number}", ends_s[number])
    engine.run()
    return list(map(max, ends_s))


def _start(each: Simulate, tag: str, ends_s: list[float]) -> None:
    """Start the members of a collective, which add to the times of its end."""
    import simgrid
    from faultline.simulator.collectives.runner import Collective
    from faultline.simulator.simgrid.loading import actor_on

    schedule = each.schedule if each.fidelity == "flow" else _ByMessages(each.schedule)
    collective = Collective(schedule, each.hosts, tag)  # type: ignore[arg-type]

    def member(position: int) -> None:
        collective.take_part(position)
        ends_s.append(simgrid.Engine.clock)

    for position, host in enumerate(each.hosts):
        actor_on(host, f"{tag}-{position}", partial(member, position))
