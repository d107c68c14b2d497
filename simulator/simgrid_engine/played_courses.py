"""Courses of a job beside copies of its state, simulated from the beginning of the first copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultline.simulator.courses import (
    MOST_PARTS,
    Alone,
    Copy,
    Course,
    Exchange,
    Part,
    Passes,
    Written,
)
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.probe_cache import cached
from faultline.simulator.simgrid_engine.kept_platform import played_on
from faultline.simulator.simgrid_engine.traffic import Traffic

if TYPE_CHECKING:
    import simgrid

# Raise it when the same would be played otherwise.
_VERSION = 1
_MOST_GPUS = 256
"""Of a job whose courses are simulated: all ranks take part, a second and more for each step."""


@dataclass(frozen=True, slots=True)
class PlayedCourses:
    """Courses of a job, each simulated once.

    Attributes
    ----------
    platform : Path
        Platform XML, with host memories where snapshots go there.
    traffic : Traffic
        Of the job, with its step where that is simulated.
    layout : JobLayout or None
        Which GPUs share which components; needed where some are slow.
    """

    platform: Path
    traffic: Traffic
    layout: JobLayout | None
    _known: dict[tuple[Part, ...], Course] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def of(self, parts: tuple[Part, ...]) -> Course:
        """Return a course that begins with some parts."""
        if parts not in self._known:
            whole = (*parts, *_likely_after(parts, MOST_PARTS - len(parts)))
            found = self._played(whole, len(parts))
            for end in range(len(parts), len(found.ends_s) + 1):
                self._known.setdefault(whole[:end], found)
        return self._known[parts]

    def _played(self, parts: tuple[Part, ...], at_least: int) -> Course:
        copies = sum(isinstance(part, Copy) for part in parts)

        def believable(stored: dict[str, Any]) -> Course:
            known = Course(**stored)
            if len(known.ends_s) < at_least or len(known.whole_s) != copies:
                raise ValueError("is another course")
            if not all(time_s >= 0.0 for time_s in (*known.ends_s, *known.whole_s)):
                raise ValueError("has a time that is none")
            return known

        asked = [_VERSION, "course", repr(self), repr(parts), at_least]
        measure = partial(played_on, self.platform, play_course, self, parts, at_least)
        return cached(self.platform, asked, measure, believable)


def _likely_after(parts: Sequence[Part], most: int) -> list[Part]:
    """Return what comes next if steps go on as the last one."""
    passes = [part for part in parts if isinstance(part, Passes)]
    if not passes:
        return []
    last = passes[-1]
    step: list[Part] = [Exchange(last.members, last.pipelines, last.without, last.slow), last]
    if not isinstance(parts[-1], Passes):
        step.reverse()
    return list(islice(cycle(step), max(0, most)))


def play_course(
    engine: simgrid.Engine, job: PlayedCourses, parts: Sequence[Part], at_least: int
) -> Course:
    """Play parts beside copies, at least so many of them, and on until all copies have arrived."""
    import simgrid
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.loading import actor_on, run_to_the_end
    from faultline.simulator.simgrid_engine.narrowing import level_memory_doors
    from faultline.simulator.simgrid_engine.storage_traffic import transfer_beside

    traffic = job.traffic
    if traffic.snapshot:
        level_memory_doors(traffic.hosts, traffic.snapshot[0][1])
    act = _player(job)
    ends_s: list[float] = []
    whole_s: list[float] = []

    def copy(writer: int | None, off: Sequence[int]) -> None:
        without = {host for group in off for host in traffic.hosts[group]}
        flows = [flow for flow in traffic.write_of(writer) if without.isdisjoint(flow[:2])]
        number = len(whole_s)
        whole_s.append(inf)

        def end(_arrived: bool) -> None:
            whole_s[number] = simgrid.Engine.clock

        transfer_beside(flows, end)

    def go_on() -> None:
        for part in parts:
            if len(ends_s) >= at_least and inf not in whole_s:
                return
            if isinstance(part, Copy):
                copy(part.writer, part.off)
            else:
                act(part)
            ends_s.append(simgrid.Engine.clock)

    actor_on(CONTROLLER_HOST, "course", go_on)
    run_to_the_end(engine)
    return Course(ends_s, whole_s)


def _player(job: PlayedCourses) -> Callable[[Part], None]:
    """Return what plays a part from within an actor."""
    import simgrid
    from faultline.simulator.simgrid_engine.played_steps import PlayedSteps
    from faultline.simulator.simgrid_engine.probes import all_reduce
    from faultline.simulator.simgrid_engine.storage_traffic import transfer

    traffic = job.traffic
    # Built here, before there are actors: within one, each task costs switches of threads.
    steps = PlayedSteps(traffic.step, job.platform, job.layout) if traffic.step else None

    def act(part: Part) -> None:
        begun_s = simgrid.Engine.clock
        if isinstance(part, Alone):
            simgrid.this_actor.sleep_for(part.duration_s)
        elif isinstance(part, Passes):
            assert steps is not None, "passes are played where steps are"
            shares = steps.shares(part.members, part.pipelines, part.slow, part.stack_size)
            steps.meet(part.without, part.slow)
            steps.passes(shares, dict.fromkeys(shares.computing(part.members), part.stacks))
            simgrid.this_actor.sleep_until(max(begun_s + part.least_s, simgrid.Engine.clock))
        elif isinstance(part, Exchange) and steps is not None:
            steps.meet(part.without, part.slow)
            shares = steps.shares(part.members, part.pipelines, part.slow)
            steps.sync(shares.exposed() if part.repeated else shares)
        elif isinstance(part, Exchange):
            hosts = [traffic.hosts[group] for group in part.members]
            all_reduce(hosts, traffic.bytes_per_rank, traffic.fidelity)
        elif isinstance(part, Written) and traffic.save:
            transfer(traffic.write_of(part.writer))
        elif isinstance(part, Written):
            simgrid.this_actor.sleep_for(part.stated_s)
        elif not isinstance(part, Copy):
            transfer(traffic.state.flows(part.moves))

    return act


def courses_of(platform: Path, traffic: Traffic, layout: JobLayout | None) -> PlayedCourses | None:
    """Return the courses of a job; None for one that is too large to simulate each rank."""
    gpus = sum(map(len, traffic.hosts)) if traffic.step is None else len(traffic.step.names)
    return PlayedCourses(platform, traffic, layout) if gpus <= _MOST_GPUS else None
