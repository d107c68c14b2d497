"""The failure injector: turns hosts off at failures and on at restarts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

import simgrid
from faultline.simulator.failures.clocks import FailureClocks
from faultline.simulator.failures.failure import Failure
from faultline.simulator.job.job import Rules
from faultline.simulator.simgrid.rank import Channel, Failed, News, RankActor


@dataclass(slots=True)
class _Restart:
    """A restart in progress: when groups come up, and groups with the failures it deals with."""

    end_s: dict[int, float] = field(default_factory=dict)
    failures: list[tuple[int, Failure]] = field(default_factory=list)


class FailureInjector:
    """Turns hosts of groups off and on, and starts the ranks on them.

    The hosts of a group fail and come up together; its rank is on the first. `interrupts` returns
    whether tasks of a step are on a group's hosts: these stay on, because SimGrid would abort.
    """

    def __init__(
        self,
        hosts: list[list[simgrid.Host]],
        clocks: FailureClocks,
        rules: Rules,
        news: Channel[News],
        new_rank: Callable[[int], RankActor],
        interrupts: Callable[[int], bool],
    ) -> None:
        self._hosts = hosts
        self._clocks = clocks
        self._rules = rules
        self._restart_s = 0.0
        self._news = news
        self._new_rank = new_rank
        self._interrupts = interrupts
        self._wake: Channel[bool] = Channel()
        # Hosts are turned on and off one by one, and other actors run in between.
        self._power = simgrid.Mutex()
        self._restart: _Restart | None = None
        self.ranks: dict[int, RankActor] = {}
        self.down: set[int] = set()
        self._unnoticed: set[int] = set()

    @property
    def next_failure_s(self) -> Sequence[float]:
        """When each group fails next, in simulated seconds."""
        return self._clocks.next_failure_s

    def off_s(self, absent: Collection[int] = ()) -> dict[str, float]:
        """Return when hosts fail, by name; -inf for the hosts of groups that are down or absent."""
        off = self.down.union(absent)
        return {
            host.name: -inf if group in off else self.next_failure_s[group]
            for group, hosts in enumerate(self._hosts)
            for host in hosts
        }

    def fails_by(self, group: int, time_s: float) -> bool:
        """Return whether a group fails at a time or before; clocks differ by rounding."""
        return self.next_failure_s[group] <= time_s * (1.0 + 1e-12)

    def power_on(self) -> None:
        """Start the rank of every group."""
        for group in range(len(self._hosts)):
            self._start(group, 0.0, announce=False)

    def notice(self, group: int) -> None:
        """Take the failure that the job has noticed; some clock rules start an interval now."""
        self._clocks.take(group, simgrid.Engine.clock)
        self._unnoticed.discard(group)

    def carry_on(self, groups: Iterable[int]) -> None:
        """Turn on the remaining hosts of failed groups at once."""
        with self._power:
            for group in groups:
                self.notice(group)
                self._clocks.resume(group, simgrid.Engine.clock)
                self._start(group, 0.0, announce=False)
        self._wake.put(True)

    def unnoticed(self) -> list[Failure]:
        """Return the failures that the job has not noticed yet, one per group."""
        return [self._clocks.peek(group) for group in sorted(self._failed_unnoticed())]

    def _failed_unnoticed(self) -> set[int]:
        """Return the groups that have failed unnoticed; some may not have been turned off yet."""
        now_s, next_failure_s = simgrid.Engine.clock, self._clocks.next_failure_s
        due = {group for group, at_s in enumerate(next_failure_s) if at_s <= now_s}
        return self._unnoticed | (due - self.down)

    def begin_restart(self, absent: Collection[int], restart_s: float) -> None:
        """Restart every group within `restart_s` seconds, except absent ones."""
        now_s, self._restart_s = simgrid.Engine.clock, restart_s
        failed, self._restart = self._failed_unnoticed(), _Restart()
        with self._power:
            for group in range(len(self._hosts)):
                if group in failed:
                    self._restart.failures.append((group, self._clocks.take(group, now_s)))
                self._clocks.take_while_down(group, now_s)
                self._turn_off(group)
                if group in absent:
                    self.down.add(group)
                else:
                    self._boot(group, now_s)
        self._unnoticed.clear()
        self._wake.put(True)

    def readmit(self, groups: Iterable[int], up_at_s: float) -> None:
        """Turn on groups that the job had dropped."""
        with self._power:
            for group in groups:
                self._clocks.take_while_down(group, simgrid.Engine.clock)
                self._clocks.resume(group, simgrid.Engine.clock)
                self._start(group, up_at_s, announce=False)
        self._wake.put(True)

    def end_restart(self) -> list[tuple[int, Failure]]:
        """End the restart; return groups with the failures unnoticed before and during it."""
        assert self._restart is not None
        failures, self._restart = self._restart.failures, None
        for group in range(len(self._hosts)):
            if group not in self.down:
                self._clocks.resume(group, simgrid.Engine.clock)
        self._wake.put(True)
        return failures

    def inject(self) -> None:
        """Turn hosts off at the times of their clocks; the body of an actor."""
        while True:
            due_s = min((at_s for at_s, _ in self._next_failures()), default=inf)
            if self._wake.get_before(due_s) is None:
                with self._power:
                    self._fail(due_s)

    def _next_failures(self) -> list[tuple[float, int]]:
        """Return time and group of the next failure of each group that is up."""
        next_failure_s = self._clocks.next_failure_s
        groups = range(len(self._hosts))
        return [(next_failure_s[group], group) for group in groups if group not in self.down]

    def _fail(self, due_s: float) -> None:
        """Turn off the groups whose clocks are due, unless they have been restarted meanwhile."""
        failing = [group for at_s, group in self._next_failures() if at_s == due_s]
        if self._restart is None:
            self._take_down(failing)
            for group in failing:
                self._news.put(Failed(group))
        else:
            for group in failing:
                self._fail_in_restart(self._restart, group, due_s)

    def _fail_in_restart(self, restart: _Restart, group: int, due_s: float) -> None:
        in_own_restart = due_s <= restart.end_s[group]
        if in_own_restart and self._rules.failure_in_restart == "begins-anew":
            self._record_and_turn_off(group)
            self._boot(group, due_s)
        elif in_own_restart or self._rules.failure_while_waiting == "absorbed":
            self._record_and_turn_off(group)
            self._start(group, restart.end_s[group], announce=in_own_restart)
        else:
            self._take_down([group])

    def _take_down(self, groups: list[int]) -> None:
        # Other actors run while a host is turned off. All groups are marked as down before, so that
        # no actor sees a part of a failure of several groups.
        self.down.update(groups)
        self._unnoticed.update(groups)
        for group in groups:
            self._turn_off(group)

    def _record_and_turn_off(self, group: int) -> None:
        assert self._restart is not None
        self._restart.failures.append((group, self._clocks.take(group)))
        self._turn_off(group)

    def _boot(self, group: int, from_s: float) -> None:
        assert self._restart is not None
        self._restart.end_s[group] = from_s + self._restart_s
        self._start(group, from_s + self._restart_s, announce=True)

    def _start(self, group: int, up_at_s: float, *, announce: bool) -> None:
        for host in self._hosts[group]:
            if not host.is_on:
                host.turn_on()
        self.down.discard(group)
        rank = self._new_rank(group)
        rank.boot_until_s, rank.announce = up_at_s, announce
        self.ranks[group] = rank
        self._hosts[group][0].add_actor(f"rank-{group}", rank).daemonize()

    def _turn_off(self, group: int) -> None:
        if self._interrupts(group):
            return
        # The rank's host goes off last: transfers of other hosts then end before the rank does.
        for host in reversed(self._hosts[group]):
            if host.is_on:
                host.turn_off()
