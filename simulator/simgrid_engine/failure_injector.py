"""The failure injector: turns hosts off at failures and on at restarts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from math import inf

import simgrid
from faultline.simulator.failures.clocks import FailureClocks
from faultline.simulator.failures.failure import Failure
from faultline.simulator.job import Rules
from faultline.simulator.simgrid_engine.rank import Channel, Failed, News, Rank


@dataclass(slots=True)
class Booting:
    """A restart in progress: when groups come up, and (time, group) of failures since it began."""

    end_s: dict[int, float] = field(default_factory=dict)
    failures: list[tuple[float, int]] = field(default_factory=list)


class FailureInjector:
    """Turns hosts of groups off and on, and starts the ranks on them.

    The hosts of a group fail and come up together; its rank is on the first. `interrupts` returns
    whether tasks of a step are on a group's hosts: such hosts stay on, as SimGrid would abort.
    """

    def __init__(
        self,
        hosts: list[list[simgrid.Host]],
        clocks: FailureClocks,
        rules: Rules,
        news: Channel[News],
        new_rank: Callable[[int], Rank],
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
        # Hosts are turned on and off one by one, and other actors run between them.
        self._power = simgrid.Mutex()
        self._booting: Booting | None = None
        self.ranks: dict[int, Rank] = {}
        self.down: set[int] = set()
        self._unnoticed: set[int] = set()

    def power_on(self) -> None:
        """Start the rank of every group."""
        for group in range(len(self._hosts)):
            self._start(group, 0.0, announce=False)

    def notice(self, group: int) -> None:
        """Note that the job has noticed a failure; some clock rules start the next interval now."""
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

    def unnoticed(self) -> list[Failure | None]:
        """Return the failures that the job has not noticed yet, one per group."""
        return [self._clocks.due(group) for group in sorted(self._lacking())]

    def _lacking(self) -> set[int]:
        """Return the groups that have failed unnoticed by now.

        Groups that fail at this moment may not have been turned off yet.
        """
        now_s, next_failure_s = simgrid.Engine.clock, self._clocks.next_failure_s
        due = {group for group, at_s in enumerate(next_failure_s) if at_s <= now_s}
        return self._unnoticed | (due - self.down)

    def begin_restart(self, absent: Collection[int], restart_s: float) -> None:
        """Restart every group within `restart_s` seconds, except absent ones."""
        now_s, self._restart_s = simgrid.Engine.clock, restart_s
        lacking, self._booting = self._lacking(), Booting()
        with self._power:
            for group in range(len(self._hosts)):
                if group in lacking:
                    self._clocks.take(group, now_s)
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

    def end_restart(self) -> tuple[tuple[float, int], ...]:
        """End the restart; return time and group of the failures since its start."""
        assert self._booting is not None
        failures = tuple(sorted(self._booting.failures))
        self._booting = None
        for group in range(len(self._hosts)):
            if group not in self.down:
                self._clocks.resume(group, simgrid.Engine.clock)
        self._wake.put(True)
        return failures

    def inject(self) -> None:
        """Turn hosts off at the times of their clocks; the body of an actor."""
        while True:
            next_failure_s = self._clocks.next_failure_s
            up = [group for group in range(len(self._hosts)) if group not in self.down]
            due_s = min((next_failure_s[group] for group in up), default=inf)
            if self._wake.get_before(due_s) is None:
                with self._power:
                    self._strike(due_s)

    def _strike(self, due_s: float) -> None:
        """Let groups fail whose clocks are due, unless they have been restarted meanwhile."""
        next_failure_s = self._clocks.next_failure_s
        up = (group for group in range(len(self._hosts)) if group not in self.down)
        struck = [group for group in up if next_failure_s[group] == due_s]
        if self._booting is None:
            self._take_down(struck)
            for group in struck:
                self._news.put(Failed(group))
        else:
            for group in struck:
                self._strike_in_restart(self._booting, group, due_s)

    def _strike_in_restart(self, booting: Booting, group: int, due_s: float) -> None:
        in_own_restart = due_s <= booting.end_s[group]
        if in_own_restart and self._rules.failure_in_restart == "begins-anew":
            self._record_and_clear(group)
            self._boot(group, due_s)
        elif in_own_restart or self._rules.failure_while_waiting == "absorbed":
            self._record_and_clear(group)
            self._start(group, booting.end_s[group], announce=in_own_restart)
        else:
            self._take_down([group])

    def _take_down(self, groups: list[int]) -> None:
        # All groups are marked as down before the first host is turned off, which lets other actors
        # run: none may see half of a failure that hits several groups at once.
        self.down.update(groups)
        self._unnoticed.update(groups)
        for group in groups:
            self._turn_off(group)

    def _record_and_clear(self, group: int) -> None:
        assert self._booting is not None
        self._booting.failures.append((self._clocks.take_at_occurrence(group), group))
        self._turn_off(group)

    def _boot(self, group: int, from_s: float) -> None:
        assert self._booting is not None
        self._booting.end_s[group] = from_s + self._restart_s
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
        # The rank's host last: its other hosts' transfers then end before the rank drops them.
        for host in reversed(self._hosts[group]):
            if host.is_on:
                host.turn_off()
