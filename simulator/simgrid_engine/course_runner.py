"""Runs the parts of a course, one after the other, beside copies and while hosts go off."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path

import simgrid
from faultline.simulator.courses import (
    Alone,
    Copy,
    Exchange,
    Fails,
    Part,
    Passes,
    Returns,
    Written,
)
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.simgrid_engine.group_all_reduce import GroupAllReduce
from faultline.simulator.simgrid_engine.rank import Channel
from faultline.simulator.simgrid_engine.simulated_steps import SimulatedSteps
from faultline.simulator.simgrid_engine.storage_traffic import transfer, transfer_beside
from faultline.simulator.simgrid_engine.traffic import Traffic


class CourseRunner:
    """Executes parts from within an actor; the clock is 0 at the start of the course."""

    def __init__(self, platform: Path, traffic: Traffic, layout: JobLayout | None) -> None:
        self._traffic = traffic
        # Built here, before there are actors: within one, each task costs switches of threads.
        self._steps = SimulatedSteps(traffic.step, platform, layout) if traffic.step else None
        self._off_s: dict[int, float] = {}
        self.over_s: list[float] = []
        self.arrived: list[bool] = []

    def fails_s(self, members: Sequence[int]) -> float:
        """Return when the first of some groups fails, in seconds; infinite if none does."""
        return min((self._off_s.get(group, inf) for group in members), default=inf)

    def simulate(self, part: Part) -> None:
        """Run one part; return when it has ended."""
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
            simgrid.this_actor.sleep_until(max(begun_s + part.least_s, simgrid.Engine.clock))
        elif isinstance(part, Written) and not traffic.save:
            simgrid.this_actor.sleep_for(part.stated_s)
        elif isinstance(part, Written):
            transfer(traffic.write_of(part.writer))
        elif not transfer(traffic.state_flows(part.moves)):
            # A missing part goes unnoticed until the transfer should have ended.
            ends_s = max(begun_s + part.alone_s, simgrid.Engine.clock)
            simgrid.this_actor.sleep_until(ends_s)

    def _copy(self, part: Copy) -> None:
        hosts, number = self._traffic.hosts, len(self.over_s)
        parts_down = {host for group in part.off for host in hosts[group]}
        flows = self._traffic.write_of(part.writer)
        self.over_s.append(inf)
        self.arrived.append(False)

        def end(arrived: bool) -> None:
            self.over_s[number], self.arrived[number] = simgrid.Engine.clock, arrived

        transfer_beside([flow for flow in flows if parts_down.isdisjoint(flow[:2])], end)

    def _fail(self, part: Fails) -> None:
        """Turn the hosts of a group off at their time, the first of them last."""
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
        steps = self._steps
        assert steps is not None, "no step is simulated"
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
        steps.meet(part.parts_down, part.slow)
        at_risk = times.keys() if off_s else ()
        steps.passes(shares, times, part.factor, at_risk, off_s)

    def _exchange(self, part: Exchange) -> None:
        traffic, steps, off_s = self._traffic, self._steps, self._at_risk(part.members)
        now_s, broken_s = simgrid.Engine.clock, part.broken_s
        fails_s = self.fails_s(part.members)
        if steps is not None:
            steps.meet(part.parts_down, part.slow)
            shares = steps.shares(part.members, part.pipelines, part.slow)
            shares = shares.exposed() if part.repeated else shares
            if broken_s is not None:
                steps.broken_sync(shares, off_s, now_s + broken_s)
            elif off_s:
                steps.broken_sync(shares, off_s, now_s, fails_s)
            else:
                steps.sync(shares)
            return
        hosts = [traffic.hosts[group] for group in part.members]
        rings = GroupAllReduce(hosts, traffic.bytes_per_rank)
        ended: Channel[bool] = Channel()
        up = (group for group in part.members if self._off_s.get(group, inf) > now_s)
        rings.start([part.members.index(group) for group in up], lambda: ended.put(True))
        if broken_s is None:
            ended.get_before(fails_s)
        else:
            simgrid.this_actor.sleep_for(broken_s)
        rings.stop()
