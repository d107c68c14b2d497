"""The controller: executes a job's phases by sending orders to ranks and awaiting reports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf, sqrt
from pathlib import Path
from typing import Any

import simgrid
from faultline.simulator.background import Write
from faultline.simulator.compute_times import NEVER_SIGMAS, SimulatedFactors
from faultline.simulator.job import Job
from faultline.simulator.pattern.step_shares import StepShares
from faultline.simulator.phases import (
    AllReduce,
    Background,
    Compute,
    Inquiry,
    Load,
    Outcome,
    Phase,
    QuietSteps,
    Reconfigure,
    Rejoin,
    Restart,
    Save,
    Send,
    Stall,
)
from faultline.simulator.recovery_times import RecoveryTimes, sent_moves
from faultline.simulator.simgrid_engine.failure_injector import FailureInjector
from faultline.simulator.simgrid_engine.group_all_reduce import GroupAllReduce
from faultline.simulator.simgrid_engine.links import narrowed, remaining_shares
from faultline.simulator.simgrid_engine.rank import (
    Channel,
    ComputeOrder,
    Failed,
    News,
    Order,
    Pace,
    Rank,
    Ready,
    Reduced,
    Report,
)
from faultline.simulator.simgrid_engine.simulated_steps import SimulatedSteps
from faultline.simulator.simgrid_engine.storage_traffic import (
    load_checkpoint,
    transfer,
    transfer_beside,
)
from faultline.simulator.simgrid_engine.traffic import Traffic
from faultline.strategies.recovery import Recovery

_MOST_BESIDE = 4.0


class SimgridEngine:
    """Executes phases on a loaded platform; its `execute` is called from within an actor.

    Parameters
    ----------
    job : Job
        The job. Its `durations` apply to phases that are not simulated as messages, and define when
        an all-reduce with a missing member fails.
    traffic : Traffic
        The traffic that is simulated as messages, with its hosts.
    platform : Path
        The platform XML that is loaded.
    """

    def __init__(self, job: Job, traffic: Traffic, platform: Path) -> None:
        work = job.work
        self._job = job
        self._traffic = traffic
        self._platform = platform
        self._news: Channel[News] = Channel()
        self._jitter = 0.0 if work.simulates_steps else work.compute_jitter
        self._paces = paces = [
            Pace(group, self._jitter, work.minimum_factor, job.seed) for group in range(work.groups)
        ]
        self._factors = SimulatedFactors.of(work, job.seed)
        self.clocks = job.failures.clocks(job.seed, job.rules.clock)
        self._simulated_steps = (
            SimulatedSteps(traffic.step, platform, work.layout) if traffic.step else None
        )
        steps = self._simulated_steps
        self.failure_injector = FailureInjector(
            [[simgrid.Host.by_name(name) for name in hosts] for hosts in traffic.hosts],
            self.clocks,
            job.rules,
            self._news,
            lambda group: Rank(group, work.compute_s, paces[group], self._news),
            steps.interrupted_by if steps else lambda _: False,
        )
        self._recovery_times = RecoveryTimes(job.durations.recovery, job.seed)
        self._arrived: set[int] = set()
        self._writing_until_s = 0.0
        self._hung_s = inf
        self._late_s = 0.0
        self._exchange_follows = True
        self._writing: dict[int, Order] = {}
        self._writes: list[Write] = []
        self._simulate: dict[type, Callable[[Any], Outcome]] = {
            Compute: self._compute,
            AllReduce: self._all_reduce,
            QuietSteps: self._quiet_steps,
            Inquiry: self._inquire,
            Reconfigure: self._reconfigure,
            Save: self._save,
            Background: self._begin_write,
            Stall: self._stall,
            Send: self._send,
            Restart: self._restart,
            Load: self._load,
            Rejoin: self._rejoin,
        }

    def execute(self, phase: Phase) -> Outcome:
        """Execute one phase and return its outcome."""
        self._writes = [write for write in self._writes if not write.is_over]
        if self._factors and isinstance(phase, Compute):
            phase = self._factors.draw(phase)
        if not self._writes:
            return self._simulate[type(phase)](phase)
        start_s, alone_s = simgrid.Engine.clock, inf
        if isinstance(phase, AllReduce):
            alone_s = self._job.all_reduce_s(phase)
        elif (
            isinstance(phase, Compute)
            and self._simulated_steps
            and self._job.work.is_regular(phase)
        ):
            alone_s = self._nominal_s(phase) * phase.slow.slowest
        outcome = self._simulate[type(phase)](phase)
        if not outcome.missing:
            return outcome._replace(disturbed_s=max(0.0, outcome.now_s - start_s - alone_s))
        return outcome

    def _begin_write(self, phase: Background) -> Outcome:
        """Start a snapshot to storage or to host memories, beside all other traffic."""
        write = phase.write
        self._writes.append(write)
        flows = [
            flow
            for flow in self._traffic.write_of(write.writer)
            if write.writer is not None or all(simgrid.Host.by_name(end).is_on for end in flow[:2])
        ]
        transfer_beside(flows, lambda arrived: write.end(simgrid.Engine.clock if arrived else inf))
        return Outcome(simgrid.Engine.clock)

    def _beside_write(self, duration_s: float) -> float:
        """Return the longest time of a phase that may share links with writes, in seconds."""
        going_on = [write.times.slowdown for write in self._writes if not write.is_over]
        if not going_on:
            return duration_s
        # On slow links, or links with more traffic, it may take longer than at these rates.
        return _MOST_BESIDE * duration_s * (1.0 + sum(slowdown - 1.0 for slowdown in going_on))

    def _nominal_s(self, phase: Compute) -> float:
        stacks = phase.stacks if phase.patch is None else max(phase.patch.values())
        return stacks * phase.stack_size * phase.pace * self._job.work.compute_s

    def _quiet_steps(self, phase: QuietSteps) -> Outcome:
        """Leave all steps to their phases, which this engine simulates in detail."""
        return Outcome(simgrid.Engine.clock)

    def _compute(self, phase: Compute) -> Outcome:
        began_s, down = simgrid.Engine.clock, self.failure_injector.down
        whole = dict.fromkeys(phase.members, phase.stacks)
        stacks = whole if phase.patch is None else self._job.work.occupied(phase, phase.patch)
        mine: Mapping[int, int] = stacks
        simulated, spared, breakable = set[int](), set[int](), set[int]()
        is_regular = self._job.work.is_regular(phase)
        # Then replay follows the simulated step, wherever it breaks.
        in_course = bool(self._writes) or self._job.work.simulates_failing_steps
        self._exchange_follows = is_regular and not 0.0 < phase.pace <= phase.least_pace
        if self._simulated_steps and is_regular:
            shares = self._shares(phase)
            mine = {
                group: stacks.get(group, 1) for group in shares.computing(phase.patch or stacks)
            }
            longest_s = self._nominal_s(phase) * phase.slow.slowest
            if self._simulated_steps.hide(shares):
                # Gradients that should hide behind the last pass may last longer than it.
                longest_s += self._job.all_reduce_s(phase)
            unharmed = self._unharmed(phase.members, self._beside_write(longest_s))
            simulated, waiting = self._simulated_steps.within(shares, unharmed)
            if not simulated | waiting >= mine.keys() and self._simulated_steps.hide(shares):
                # Gradients still in flight when the failure is noticed can stay in flight.
                simulated = set()
            # A rank that waits for a group at risk gets its data, or waits for ever.
            spared = (simulated | waiting | (stacks.keys() - mine.keys())) & unharmed
            if began_s >= self._writing_until_s and (in_course or not _shares_nodes(phase)):
                breakable = mine.keys() - simulated - down
        slow, size = phase.slow.compute, phase.stack_size * phase.pace
        orders = {
            group: ComputeOrder(number, size * slow.get(group, 1.0), bool(breakable))
            for group, number in stacks.items()
            if group not in spared
        }
        idle = {group for group in phase.members if group not in stacks and group not in down}
        # Rank actors compute for groups that may fail or are not free yet; this actor for the rest.
        at_risk = self._at_risk(orders)
        computations = simgrid.ActivitySet()
        for group, order in orders.items():
            if group not in at_risk and not breakable:
                computations.push(self._computation(group, order))

        def simulate() -> None:
            if self._simulated_steps and (simulated or breakable):
                times = {group: mine[group] for group in (simulated | breakable) & mine.keys()}
                self._simulated_steps.meet(phase.parts_down, phase.slow)
                off_s = self._off_s() if breakable else {}
                self._simulated_steps.passes(
                    shares, times, phase.factor, breakable, off_s, alone=not self._writes
                )

        done = self._carry_out({group: orders[group] for group in at_risk}, simulate)
        self._arrived = idle | done | (stacks.keys() - at_risk)
        if not computations.empty():
            computations.wait_all()
        lacking = [group for group in phase.members if group not in self._arrived]
        if lacking and self._simulated_steps:
            # From then on the rest of the group waits for its failed ranks.
            failed_s = min(self.clocks.next_failure_s[group] for group in lacking)
            self._hung_s = max(began_s, failed_s)
        if breakable and not in_course:
            at_work = stacks.keys() - set(lacking)
            ends_s = self._passes_end_s(phase, began_s, at_work, lacking)
            # Gradients hide behind passes; an all-reduce of known time includes the rest of them.
            self._late_s = max(0.0, simgrid.Engine.clock - ends_s)
            # Ranks wait for weights of a lost group; the others notice its absence at the end.
            self._sleep_until(ends_s)
        if not lacking and phase.least_pace:
            types = phase.stacks * phase.stack_size
            self._sleep_until(began_s + types * phase.least_pace * self._job.work.compute_s)
        return Outcome(simgrid.Engine.clock)

    def _passes_end_s(
        self, phase: Compute, began_s: float, at_work: Collection[int], lacking: Collection[int]
    ) -> float:
        """Return when the working groups should have ended, and missing groups have failed."""
        left = phase._replace(pace=self._job.work.pace_with_parts_down(phase, lacking))
        slowest = max((phase.slow.compute.get(group, 1.0) for group in at_work), default=0.0)
        ends_s = began_s + self._nominal_s(left) * slowest
        return max(ends_s, *(self.clocks.next_failure_s[group] for group in lacking), 0.0)

    def _at_risk(self, orders: Mapping[int, ComputeOrder]) -> set[int]:
        """Return the groups whose ranks may be down or busy when an order comes."""
        work, now_s = self._job.work, simgrid.Engine.clock
        next_failure_s, down = self.clocks.next_failure_s, self.failure_injector.down

        def longest_s(order: ComputeOrder) -> float:
            variates = NEVER_SIGMAS * self._jitter * sqrt(order.stacks)
            return work.compute_s * order.stack_size * (order.stacks + variates)

        return {
            group
            for group, order in orders.items()
            if group in down
            or group in self._writing
            or next_failure_s[group] <= now_s + longest_s(order) * (1 + 1e-9)
        }

    def _computation(self, group: int, order: ComputeOrder) -> simgrid.Exec:
        """Start a group's computation on its rank's host."""
        host = simgrid.Host.by_name(self._traffic.hosts[group][0])
        pace = self._paces[group]
        stacks = sum(pace.factor() for _ in range(order.stacks))
        seconds = self._job.work.compute_s * order.stack_size * stacks
        computation = simgrid.this_actor.exec_init(seconds * host.speed)
        computation.host = host
        computation.start()
        return computation

    def _off_s(self, absent: Collection[int] = ()) -> dict[str, float]:
        """Return when hosts fail, by name; hosts of absent groups are off by now."""
        gone, next_failure_s = self.failure_injector.down.union(absent), self.clocks.next_failure_s
        return {
            host: -inf if group in gone else next_failure_s[group]
            for group, hosts in enumerate(self._traffic.hosts)
            for host in hosts
        }

    def _unharmed(self, members: Sequence[int], duration_s: float) -> set[int]:
        """Return the members that no failure or write disturbs for `duration_s`."""
        start_s, next_failure_s = simgrid.Engine.clock, self.clocks.next_failure_s
        if start_s < self._writing_until_s:
            return set()
        until_s, down = start_s + duration_s * (1 + 1e-6), self.failure_injector.down
        return {group for group in members if next_failure_s[group] > until_s and group not in down}

    def _carry_out(
        self, orders: Mapping[int, Order], meanwhile: Callable[[], None] = lambda: None
    ) -> set[int]:
        """Send orders; return the groups that executed them once all have, or are down."""
        waiting = set()
        for group, order in orders.items():
            if group not in self.failure_injector.down:
                self.failure_injector.ranks[group].orders.put(order)
                waiting.add(group)
        meanwhile()
        done: set[int] = set()
        while waiting:
            news = self._news.get()
            if isinstance(news, Failed):
                # A group that has been brought up since then counts as up.
                self._writing.pop(news.group, None)
                if news.group in self.failure_injector.down:
                    waiting.discard(news.group)
            elif isinstance(news, Report) and news.order is self._writing.get(news.group):
                del self._writing[news.group]
            elif isinstance(news, Report) and news.order is orders.get(news.group):
                waiting.discard(news.group)
                # A group that fails at the time of its report has not arrived.
                down = news.group in self.failure_injector.down
                if news.done and not (down and self._fails_until(news.group, news.time_s)):
                    done.add(news.group)
        return done

    def _fails_until(self, group: int, time_s: float) -> bool:
        """Return whether a group has failed by some time; clocks differ by rounding."""
        return self.clocks.next_failure_s[group] <= time_s * (1.0 + 1e-12)

    def _all_reduce(self, phase: AllReduce) -> Outcome:
        rules, members = self._job.rules, phase.members
        fails_within = rules.failure_in_all_reduce == "fails-it"
        start_s, self._late_s = simgrid.Engine.clock - self._late_s, 0.0
        whole_s = self._job.all_reduce_s(phase)
        absent = self._absent(members, fails_within)
        hung_s, self._hung_s = min(start_s, self._hung_s), inf
        quiet = self._unharmed(members, self._beside_write(whole_s)).issuperset(members)
        if self._simulated_steps and not absent and quiet:
            self._simulated_steps.meet(phase.parts_down, phase.slow)
            self._simulated_steps.sync(self._shares(phase))
            self._exchange_hidden(start_s + whole_s)
            return Outcome(simgrid.Engine.clock)
        if rules.detection == "watchdog" and (absent or fails_within):
            shows_s = max(start_s, hung_s + rules.watchdog_s)
        elif absent:
            shows_s = start_s + whole_s * rules.failed_all_reduce_fraction
        else:
            shows_s = start_s + whole_s
        if self._traffic.all_reduce and not self._simulated_steps:
            with narrowed(remaining_shares(self._platform, phase.parts_down, phase.slow.causes)):
                whole = self._reduce_by_messages(members, bool(absent), shows_s)
            if not whole:
                return Outcome(simgrid.Engine.clock, tuple(members))
        elif self._simulated_steps:
            self._break_sync(phase, absent, shows_s if absent else start_s + whole_s, shows_s)
            if not absent:
                self._exchange_hidden(start_s + whole_s)
        else:
            self._sleep_until(shows_s if absent else start_s + whole_s)
        if fails_within:
            absent = self._absent(members, fails_within)
        if absent:
            self._sleep_until(shows_s)
            absent = self._absent(members, fails_within)
        return Outcome(simgrid.Engine.clock, tuple(absent))

    def _exchange_hidden(self, ends_s: float) -> None:
        """Wait for hidden gradients; waits and passes of stated time send none."""
        if not self._exchange_follows:
            self._sleep_until(ends_s)

    def _break_sync(
        self, phase: AllReduce, absent: Collection[int], ends_s: float, shows_s: float
    ) -> None:
        """Exchange as much as possible until `ends_s`; beside writes, exchange everything.

        `shows_s` is when the failure of a member meanwhile is noticed.
        """
        steps, fails_s = self._simulated_steps, None
        assert steps is not None, "no step is simulated"
        if not absent:
            first_s = min(self.clocks.next_failure_s[group] for group in phase.members)
            if self._writes:
                fails_s, ends_s = first_s, shows_s
            elif first_s <= ends_s:
                ends_s = max(shows_s, first_s)
        steps.meet(phase.parts_down, phase.slow)
        steps.broken_sync(self._shares(phase), self._off_s(absent), ends_s, fails_s)

    def _shares(self, phase: Compute | AllReduce) -> StepShares:
        """Return the shares of a phase whose step is simulated."""
        assert self._simulated_steps is not None, "no step is simulated"
        if isinstance(phase, Compute):
            stack_size, hides = phase.stack_size, phase.patch is None
        else:
            stack_size, hides = 1, not phase.repeated
        whole = self._simulated_steps.shares(phase.members, phase.pipelines, phase.slow, stack_size)
        return whole if hides else whole.exposed()

    def _absent(self, members: Iterable[int], fails_within: bool) -> list[int]:
        """Return the members missing in a running all-reduce, in ascending order."""
        down, now_s = self.failure_injector.down, simgrid.Engine.clock
        # A group whose failure is due now is turned off after this.
        return [
            group
            for group in members
            if group not in self._arrived
            or (fails_within and (group in down or self._fails_until(group, now_s)))
        ]

    def _reduce_by_messages(
        self, members: Sequence[int], lacks_one: bool, failure_shows_s: float
    ) -> bool:
        """Let all hosts of the members send and receive until the all-reduce ends.

        With all members it takes as long as its messages. If one is missing from the start, or
        fails, it ends when that is noticed. Returns False if no member is missing, but the watchdog
        fires before the end.
        """
        down, rules, hosts = self.failure_injector.down, self._job.rules, self._traffic.hosts
        watched = rules.detection == "watchdog"
        fires_s = simgrid.Engine.clock + rules.watchdog_s if watched else inf
        reduced = Reduced()
        all_reduce = GroupAllReduce(
            [hosts[group] for group in members], self._traffic.bytes_per_rank
        )
        all_reduce.start(
            [place for place, group in enumerate(members) if group not in down],
            lambda: self._news.put(reduced),
            self._off_s(),
        )
        lacks_one |= any(group in down for group in members)
        ended = fired = False
        while not (lacks_one or ended or fired):
            news = self._news.get_before(fires_s)
            fired = news is None
            ended = news is reduced
            # A group that has been brought up since then counts as up.
            lacks_one = isinstance(news, Failed) and news.group in down and news.group in members
        if lacks_one:
            self._sleep_until(failure_shows_s)
        if not ended:
            all_reduce.stop()
        return not fired

    def _inquire(self, phase: Inquiry) -> Outcome:
        due_s, now_s = self.clocks.next_failure_s, simgrid.Engine.clock
        struck = [self.clocks.due(group) for group in phase.groups if due_s[group] <= now_s]
        known = [failure for failure in struck if failure is not None]
        return Outcome(simgrid.Engine.clock, struck=known)

    def _reconfigure(self, phase: Reconfigure) -> Outcome:
        failed = [self.clocks.due(group) for group in (*phase.dropped, *phase.carried_on)]
        for group in phase.dropped:
            self.failure_injector.notice(group)
        self._arrived.difference_update(phase.dropped)
        self.failure_injector.carry_on(phase.carried_on)
        # Their remaining computation, if any, is ordered next.
        self._arrived.update(phase.carried_on)
        duration_s = self._recovery_times.duration_s(phase.recovery, failed)
        simgrid.this_actor.sleep_for(duration_s)
        self._move(phase.recovery, phase.members)
        struck = self.clocks.collect(phase.reports_failures)
        phases = self._recovery_times.last_phases()
        return Outcome(simgrid.Engine.clock, struck=struck, phases=phases)

    def _stall(self, phase: Stall) -> Outcome:
        start_s = simgrid.Engine.clock
        if self._simulated_steps:
            # Gradients of a discarded step are still in flight.
            self._simulated_steps.settle()
        self._sleep_until(start_s + phase.duration_s)
        return Outcome(simgrid.Engine.clock)

    def _send(self, phase: Send) -> Outcome:
        start_s, flows = simgrid.Engine.clock, self._traffic.state_flows(phase.moves)
        if not transfer(flows):
            self._sleep_until(start_s + self._job.sent_s(phase.moves))
        return Outcome(simgrid.Engine.clock)

    def _save(self, phase: Save) -> Outcome:
        writer, start_s = phase.writer, simgrid.Engine.clock
        if writer in self.failure_injector.down:
            return Outcome(start_s, (writer,))
        traffic, save_s = self._traffic, self._job.save_s(writer)

        def order() -> bool:
            if traffic.save:
                return transfer(traffic.write_of(writer))
            simgrid.this_actor.sleep_for(save_s)
            return True

        if not phase.waits:
            self.failure_injector.ranks[writer].orders.put(order)
            self._writing[writer] = order
            # Beside other messages it may take longer than alone.
            self._writing_until_s = start_s + 2 * save_s
            return Outcome(start_s)
        if not self._carry_out({writer: order}):
            # The writer is up but has not finished, whatever the rule for failed writers.
            broken = writer not in self.failure_injector.down
            if broken or self._job.rules.failed_writer == "replaced":
                return Outcome(simgrid.Engine.clock, (writer,))
            self._sleep_until(start_s + save_s)
        return Outcome(simgrid.Engine.clock)

    def _restart(self, phase: Restart) -> Outcome:
        failed = self.failure_injector.unnoticed()
        restart_s = self._recovery_times.duration_s(phase.recovery, failed)
        restart_s += self._recovery_times.repair_s(failed)
        if self._simulated_steps:
            self._simulated_steps.settle()
        self.failure_injector.begin_restart(phase.absent, restart_s)
        up: set[int] = set()
        while len(up) < phase.groups - len(phase.absent):
            news = self._news.get()
            if isinstance(news, Ready):
                up.add(news.group)
        self._arrived.clear()
        self._writing.clear()
        failures = self.failure_injector.end_restart()
        struck = self.clocks.collect(phase.reports_failures)
        phases = self._recovery_times.last_phases()
        return Outcome(simgrid.Engine.clock, (), failures, struck, phases=phases)

    def _load(self, phase: Load) -> Outcome:
        traffic, down = self._traffic, self.failure_injector.down
        loading, left = 0, [group for group in phase.members if group not in down]
        while left and len(left) != loading:
            loading, start_s = len(left), simgrid.Engine.clock
            load_s = phase.duration_s
            if not (traffic.load and load_s is None) or not load_checkpoint(
                [traffic.hosts[group] for group in left],
                traffic.storage,
                traffic.checkpoint_bytes_per_rank,
                traffic.readers,
            ):
                load_s = self._job.load_s(left) if load_s is None else load_s
                self._sleep_until(start_s + load_s)
            left = [group for group in left if group not in down]
        return Outcome(simgrid.Engine.clock)

    def _rejoin(self, phase: Rejoin) -> Outcome:
        joining_s = self._recovery_times.duration_s(phase.recovery)
        up_at_s = simgrid.Engine.clock + joining_s
        self.failure_injector.readmit(phase.groups, up_at_s)
        self._sleep_until(up_at_s)
        self._move(phase.recovery, phase.members)
        return Outcome(simgrid.Engine.clock, phases=self._recovery_times.last_phases())

    def _move(self, recovery: Recovery | None, members: Sequence[int]) -> None:
        """Move state; start again from other groups whenever a sender or receiver fails."""
        if recovery is None or not self._job.moves(recovery):
            return
        down = self.failure_injector.down
        able = [group for group in members if group not in down]
        moves = recovery.moves
        while moves := tuple(move for move in moves if move.group not in down):
            start_s = simgrid.Engine.clock
            sent = sent_moves(moves, able)
            if transfer(self._traffic.state_flows(sent)):
                return
            # A missing part goes unnoticed until the transfer should have ended.
            self._sleep_until(start_s + self._job.sent_s(sent))
            able = [group for group in able if group not in down]

    @staticmethod
    def _sleep_until(time_s: float) -> None:
        if time_s > simgrid.Engine.clock:
            simgrid.this_actor.sleep_until(time_s)


def _shares_nodes(phase: Compute) -> bool:
    """Return whether a pipeline has stages on nodes of other groups, which never wait for it."""
    nodes = ((one.group, stage.group) for one in phase.pipelines for stage in one.stages)
    return any(own != at for own, at in nodes)
