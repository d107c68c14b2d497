"""Runs the parts of a course, one after the other, while state is copied and hosts go off."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path

import simgrid
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.job.courses import (
    Alone,
    Copy,
    Exchange,
    Fails,
    Part,
    Passes,
    Returns,
    Written,
)
from faultline.simulator.simgrid.group_all_reduce import GroupAllReduce
from faultline.simulator.simgrid.rank import Channel
from faultline.simulator.simgrid.simulated_steps import SimulatedSteps
from faultline.simulator.simgrid.storage_traffic import transfer, transfer_beside
from faultline.simulator.simgrid.traffic import Traffic


class CourseRunner:
    """Executes parts from within an actor; the clock is 0 at the start of the course."""

    def __init__(self, platform: Path, traffic: Traffic, layout: JobLayout | None) -> None:
        self._traffic = traffic
        # Built before any actor starts: within an actor, each task costs thread switches.
        self._steps = SimulatedSteps(traffic.step, platform, layout) if traffic.step else None
        self._off_s: dict[int, float] = {}
        # When each copy ends, in the order of their starts, and whether it is complete then.
        self.ends_s: list[float] = []
        self.arrived: list[bool] = []

    def fails_s(self, members: Sequence[int]) -> float:
        """Return when the first of some groups fails, in seconds; infinite if none does."""
        return min((self._off_s.get(group, inf) for group in members), default=inf)

    def simulate(self, part: Part) -> None:
        """Run one part to its end."""
        begun_s, traffic = simgrid.Engine.clock, self._traffic
        if isinstance(part, Copy):
            self._copy(part)
        elif isinstance(part, Alone):
            simgrid.this_actor.sleep_for(part.duration_s)
        elif isinstance(part, Fails):
            self._fail(part)
        elif isinstance(part, Returns):
            self._return(part.groups)
        elif isinstance(part, Passes | Exchange):
            self._pass(part) if isinstance(part, Passes) else self._exchange(part)
            simgrid.this_actor.sleep_until(begun_s + part.least_s)
        elif isinstance(part, Written) and not traffic.save:
            simgrid.this_actor.sleep_for(part.stated_s)
        elif isinstance(part, Written):
            transfer(traffic.write_of(part.writer))
        elif not transfer(traffic.state_flows(part.moves)):
            # A missing part goes unnoticed until the transfer should have ended.
            simgrid.this_actor.sleep_until(begun_s + part.alone_s)

    def _copy(self, part: Copy) -> None:
        hosts, number = self._traffic.hosts, len(self.ends_s)
        hosts_off = {host for group in part.off for host in hosts[group]}
        flows = self._traffic.write_of(part.writer)
        self.ends_s.append(inf)
        self.arrived.append(False)

        def end(arrived: bool) -> None:
            self.ends_s[number], self.arrived[number] = simgrid.Engine.clock, arrived

        transfer_beside([flow for flow in flows if hosts_off.isdisjoint(flow[:2])], end)

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

    def _off_by_host_s(self, members: Sequence[int]) -> dict[str, float]:
        """Return when hosts go off, by their names; empty if no member is off or will be."""
        if self._off_s.keys().isdisjoint(members):
            return {}
        hosts = self._traffic.hosts
        return {host: at_s for group, at_s in self._off_s.items() for host in hosts[group]}

    def _pass(self, part: Passes) -> None:
        steps, patch = self._steps, part.patch
        assert steps is not None, "no step is simulated"
        shares = steps.shares(
            part.members, part.pipelines, part.slow, part.stack_size, exposed=patch is not None
        )
        stacks = dict.fromkeys(part.members, part.stacks) if patch is None else dict(patch)
        off_s, now_s = self._off_by_host_s(part.members), simgrid.Engine.clock
        times = {
            group: stacks.get(group, 1)
            for group in shares.computing(tuple(stacks))
            if self._off_s.get(group, inf) > now_s
        }
        steps.set_conditions(part.parts_down, part.slow)
        at_risk = times.keys() if off_s else ()
        steps.passes(shares, times, part.factor, at_risk, off_s)

    def _exchange(self, part: Exchange) -> None:
        steps, off_s = self._steps, self._off_by_host_s(part.members)
        now_s, broken_s = simgrid.Engine.clock, part.broken_s
        fails_s = self.fails_s(part.members)
        if steps is not None:
            steps.set_conditions(part.parts_down, part.slow)
            shares = steps.shares(part.members, part.pipelines, part.slow, exposed=part.repeated)
            if broken_s is not None:
                steps.broken_sync(shares, off_s, now_s + broken_s)
            elif off_s:
                steps.broken_sync(shares, off_s, now_s, fails_s)
            else:
                steps.sync(shares)
            return
        hosts = [self._traffic.hosts[group] for group in part.members]
        rings = GroupAllReduce(hosts, self._traffic.bytes_per_rank)
        ended: Channel[bool] = Channel()
        up = (
            place for place, group in enumerate(part.members) if self._off_s.get(group, inf) > now_s
        )
        rings.start([*up], lambda: ended.put(True))
        if broken_s is None:
            ended.get_before(fails_s)
        else:
            simgrid.this_actor.sleep_for(broken_s)
        rings.stop()
