"""Courses of a job beside copies of its state, simulated from the beginning of the first copy."""

from __future__ import annotations

from collections.abc import Sequence
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
    Fails,
    Part,
    Passes,
    Returns,
    Written,
)
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.probe_cache import cached
from faultline.simulator.simgrid_engine.kept_platform import played_on
from faultline.simulator.simgrid_engine.traffic import Traffic

if TYPE_CHECKING:
    import simgrid

# Raise it when the same would be played otherwise.
_VERSION = 2
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
            if len(known.ends_s) < at_least or len(known.over_s) != copies:
                raise ValueError("is another course")
            if not all(time_s >= 0.0 for time_s in (*known.ends_s, *known.over_s)):
                raise ValueError("has a time that is none")
            return known

        asked = [_VERSION, "course", repr(self), repr(parts), at_least]
        measure = partial(played_on, self.platform, play_course, self, parts, at_least)
        return cached(self.platform, asked, measure, believable)


def _likely_after(parts: Sequence[Part], most: int) -> list[Part]:
    """Return what comes next if steps go on as the last one; nothing where something fails."""
    passes = [part for part in parts if isinstance(part, Passes)]
    if not passes or any(isinstance(part, Fails) for part in parts):
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

    if job.traffic.snapshot:
        level_memory_doors(job.traffic.hosts, job.traffic.snapshot[0][1])
    player = _Player(job)
    ends_s: list[float] = []

    def go_on() -> None:
        for part in parts:
            if len(ends_s) >= at_least and inf not in player.over_s:
                return
            player.play(part)
            ends_s.append(simgrid.Engine.clock)

    actor_on(CONTROLLER_HOST, "course", go_on)
    run_to_the_end(engine)
    return Course(ends_s, player.over_s, player.arrived)


class _Player:
    """Plays parts from within an actor, with the clock at 0 where the course begins."""

    def __init__(self, job: PlayedCourses) -> None:
        from faultline.simulator.simgrid_engine.played_steps import PlayedSteps

        self._traffic = traffic = job.traffic
        # Built here, before there are actors: within one, each task costs switches of threads.
        self._steps = PlayedSteps(traffic.step, job.platform, job.layout) if traffic.step else None
        self._off_s: dict[int, float] = {}
        self.over_s: list[float] = []
        self.arrived: list[bool] = []

    def play(self, part: Part) -> None:
        """Play one part; return when it has ended."""
        import simgrid
        from faultline.simulator.simgrid_engine.storage_traffic import transfer

        begun_s, traffic = simgrid.Engine.clock, self._traffic
        if isinstance(part, Copy):
            self._copy(part)
        elif isinstance(part, Alone):
            simgrid.this_actor.sleep_for(part.duration_s)
        elif isinstance(part, Fails):
            self._fail(part)
        elif isinstance(part, Returns):
            self._return(part.groups)
        elif isinstance(part, Passes):
            self._pass(part)
            simgrid.this_actor.sleep_until(max(begun_s + part.least_s, simgrid.Engine.clock))
        elif isinstance(part, Exchange):
            self._exchange(part)
        elif isinstance(part, Written) and not traffic.save:
            simgrid.this_actor.sleep_for(part.stated_s)
        elif isinstance(part, Written):
            transfer(traffic.write_of(part.writer))
        elif not transfer(traffic.state.flows(part.moves)):
            # Nobody knows that something is lacking before all of it should be there.
            ends_s = max(begun_s + part.alone_s, simgrid.Engine.clock)
            simgrid.this_actor.sleep_until(ends_s)

    def _copy(self, part: Copy) -> None:
        import simgrid
        from faultline.simulator.simgrid_engine.storage_traffic import transfer_beside

        hosts, number = self._traffic.hosts, len(self.over_s)
        without = {host for group in part.off for host in hosts[group]}
        flows = self._traffic.write_of(part.writer)
        self.over_s.append(inf)
        self.arrived.append(False)

        def end(arrived: bool) -> None:
            self.over_s[number], self.arrived[number] = simgrid.Engine.clock, arrived

        transfer_beside([flow for flow in flows if without.isdisjoint(flow[:2])], end)

    def _fail(self, part: Fails) -> None:
        """Turn the hosts of a group off at their time, the first of them last."""
        import simgrid

        hosts = [simgrid.Host.by_name(name) for name in self._traffic.hosts[part.group]]
        self._off_s[part.group] = part.at_s

        def turn_off() -> None:
            simgrid.this_actor.sleep_until(part.at_s)
            for host in reversed(hosts):
                if host.is_on:
                    host.turn_off()

        if part.at_s <= simgrid.Engine.clock:
            turn_off()
        else:
            simgrid.this_actor.get_host().add_actor("failure", turn_off).daemonize()

    def _return(self, groups: Sequence[int]) -> None:
        import simgrid

        for group in groups:
            self._off_s.pop(group, None)
            for name in self._traffic.hosts[group]:
                host = simgrid.Host.by_name(name)
                if not host.is_on:
                    host.turn_on()

    def _at_risk(self, members: Sequence[int]) -> dict[str, float]:
        """Return when hosts go off, by their names, if any of a member is off or will be."""
        if self._off_s.keys().isdisjoint(members):
            return {}
        hosts = self._traffic.hosts
        return {host: at_s for group, at_s in self._off_s.items() for host in hosts[group]}

    def _pass(self, part: Passes) -> None:
        import simgrid

        steps = self._steps
        assert steps is not None, "passes are played where steps are"
        shares = steps.shares(part.members, part.pipelines, part.slow, part.stack_size)
        stacks = dict.fromkeys(part.members, part.stacks)
        if part.patch is not None:
            shares, stacks = shares.exposed(), dict(part.patch)
        off_s, now_s = self._at_risk(part.members), simgrid.Engine.clock
        times = {
            group: stacks.get(group, 1)
            for group in shares.computing(tuple(stacks))
            if self._off_s.get(group, inf) > now_s
        }
        steps.meet(part.without, part.slow)
        steps.passes(shares, times, at_risk=times.keys() if off_s else (), off_s=off_s)

    def _exchange(self, part: Exchange) -> None:
        import simgrid
        from faultline.simulator.simgrid_engine.group_all_reduce import GroupAllReduce
        from faultline.simulator.simgrid_engine.probes import all_reduce

        traffic, steps, off_s = self._traffic, self._steps, self._at_risk(part.members)
        now_s, broken_s = simgrid.Engine.clock, part.broken_s
        if steps is not None:
            steps.meet(part.without, part.slow)
            shares = steps.shares(part.members, part.pipelines, part.slow)
            shares = shares.exposed() if part.repeated else shares
            if off_s or broken_s is not None:
                ends_s = None if broken_s is None else now_s + broken_s
                steps.broken_sync(shares, off_s, ends_s)
            else:
                steps.sync(shares)
            return
        hosts = [traffic.hosts[group] for group in part.members]
        if broken_s is None:
            all_reduce(hosts, traffic.bytes_per_rank, traffic.fidelity)
            return
        rings = GroupAllReduce(hosts, traffic.bytes_per_rank, traffic.fidelity)
        up = (group for group in part.members if self._off_s.get(group, inf) > now_s)
        rings.start([part.members.index(group) for group in up], lambda: None)
        simgrid.this_actor.sleep_for(broken_s)
        rings.stop()


def courses_of(platform: Path, traffic: Traffic, layout: JobLayout | None) -> PlayedCourses | None:
    """Return the courses of a job; None for one that is too large to simulate each rank."""
    gpus = sum(map(len, traffic.hosts)) if traffic.step is None else len(traffic.step.names)
    return PlayedCourses(platform, traffic, layout) if gpus <= _MOST_GPUS else None
