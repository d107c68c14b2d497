"""The controller: executes a job's phases by sending orders to ranks and awaiting reports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf, sqrt
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import simgrid
from faultline.simulator.job.background import Write
from faultline.simulator.job.compute_times import NEVER_SIGMAS, SimulatedFactors
from faultline.simulator.job.job import Job
from faultline.simulator.job.phases import (
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
from faultline.simulator.job.recovery_times import RecoveryTimes, sent_moves
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.simgrid.failure_injector import FailureInjector
from faultline.simulator.simgrid.group_all_reduce import GroupAllReduce
from faultline.simulator.simgrid.links import narrowed, remaining_shares
from faultline.simulator.simgrid.rank import (
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
from faultline.simulator.simgrid.simulated_steps import SimulatedSteps
from faultline.simulator.simgrid.storage_traffic import (
    load_checkpoint,
    transfer,
    transfer_beside,
)
from faultline.simulator.simgrid.traffic import Traffic
from faultline.strategies.interface.recovery import Recovery, SentMove

_LONGEST_BESIDE_WRITES = 4.0
"""Factor by which a phase lasts longer beside writes, at most, than at the known rates."""


class _Passes(NamedTuple):
    """The passes that are simulated: their shares, and how often each group computes.

    Groups `at_risk` may fail meanwhile. Ranks of groups `without_order` have nothing to compute.
    """

    shares: StepShares = StepShares(())
    times: Mapping[int, int] = MappingProxyType({})
    at_risk: Collection[int] = ()
    without_order: Collection[int] = ()


class SimgridEngine:
    """Executes phases on the loaded platform XML; an actor calls `execute`.

    The job's `durations` apply to phases that are not simulated as messages, and define when an
    all-reduce with a missing member fails.
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
        self._factors = SimulatedFactors.of(job.timer, job.seed)
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
            lambda group: Rank(group, paces[group], self._news),
            steps.interrupted_by if steps else lambda _: False,
        )
        self._recovery_times = RecoveryTimes(job.durations.recovery, job.seed)
        self._arrived: set[int] = set()
        # Checkpoints that training does not wait for: their orders by group, and their latest end.
        self._saving: dict[int, Order] = {}
        self._saving_until_s = 0.0
        self._writes: list[Write] = []
        # The latest passes: when a group stopped, and whether their hidden gradients are simulated.
        self._hung_s = inf
        self._gradients_follow = True
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
        start_s, alone_s, is_simulated = simgrid.Engine.clock, inf, bool(self._simulated_steps)
        if isinstance(phase, AllReduce):
            alone_s = self._job.timer.exchange_s(phase)
        elif isinstance(phase, Compute) and is_simulated and phase.has_whole_passes:
            alone_s = self._nominal_s(phase) * phase.slow.slowest
        outcome = self._simulate[type(phase)](phase)
        if not outcome.missing:
            return outcome._replace(disturbed_s=max(0.0, outcome.now_s - start_s - alone_s))
        return outcome

    def _begin_write(self, phase: Background) -> Outcome:
        """Start a snapshot to storage or to host memories; it shares links with other traffic."""
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
        slowdowns = [write.times.slowdown for write in self._writes if not write.is_over]
        if not slowdowns:
            return duration_s
        # On slow links, or links with more traffic, it may take longer than at these rates.
        at_these_rates_s = duration_s * (1.0 + sum(slowdown - 1.0 for slowdown in slowdowns))
        return _LONGEST_BESIDE_WRITES * at_these_rates_s

    def _nominal_s(self, phase: Compute) -> float:
        stacks = phase.stacks if phase.patch is None else max(phase.patch.values())
        return stacks * phase.stack_s

    def _quiet_steps(self, phase: QuietSteps) -> Outcome:
        """Skip no step: this engine simulates each phase in detail."""
        return Outcome(simgrid.Engine.clock)

    def _compute(self, phase: Compute) -> Outcome:
        work, steps = self._job.work, self._simulated_steps
        began_s, down = simgrid.Engine.clock, self.failure_injector.down
        stacks: Mapping[int, int] = dict.fromkeys(phase.members, phase.stacks)
        if phase.patch is not None:
            stacks = work.occupied(phase, phase.patch)
        waits = 0.0 < phase.stack_s <= phase.least_stack_s
        self._gradients_follow = phase.has_whole_passes and not waits
        passes = _Passes()
        if steps and phase.has_whole_passes and not self._are_passes_known(steps, phase):
            passes = self._simulated_passes(steps, phase, stacks)
        slow = phase.slow.compute
        orders = {
            group: ComputeOrder(count, phase.stack_s * slow.get(group, 1.0), bool(passes.at_risk))
            for group, count in stacks.items()
            if group not in passes.without_order
        }
        idle = {group for group in phase.members if group not in stacks and group not in down}
        # Rank actors compute for groups that may fail or are not free yet; this actor for the rest.
        at_risk = self._at_risk(orders)
        computations = simgrid.ActivitySet()
        for group, order in orders.items():
            if group not in at_risk and not passes.at_risk:
                computations.push(self._computation(group, order))

        def simulate() -> None:
            if steps and passes.times:
                steps.set_conditions(phase.parts_down, phase.slow)
                off_s = self._off_s() if passes.at_risk else {}
                steps.passes(passes.shares, passes.times, phase.factor, passes.at_risk, off_s)

        done = self._carry_out({group: orders[group] for group in at_risk}, simulate)
        self._arrived = idle | done | (stacks.keys() - at_risk)
        if not computations.empty():
            computations.wait_all()
        missing = [group for group in phase.members if group not in self._arrived]
        if missing and steps:
            # The rest of a group waits for its failed ranks from their failure on.
            failed_s = min(self.clocks.next_failure_s[group] for group in missing)
            self._hung_s = max(began_s, failed_s)
        if not missing and phase.least_stack_s:
            simgrid.this_actor.sleep_until(began_s + phase.stacks * phase.least_stack_s)
        return Outcome(simgrid.Engine.clock)

    def _are_passes_known(self, steps: SimulatedSteps, phase: Compute) -> bool:
        """Return whether passes last as long as the timer says: nothing disturbs a large job."""
        is_disturbed = phase.parts_down or phase.slow.causes or phase.pipelines or self._writes
        return steps.passes_are_known and not is_disturbed

    def _simulated_passes(
        self, steps: SimulatedSteps, phase: Compute, stacks: Mapping[int, int]
    ) -> _Passes:
        """Return which groups' passes are simulated; GPUs of each are busy for some `stacks`."""
        shares, now_s = self._shares(phase), simgrid.Engine.clock
        computing = shares.computing(phase.patch or stacks)
        longest_s = self._nominal_s(phase) * phase.slow.slowest
        may_outlast = steps.may_outlast_passes(shares)
        if may_outlast:
            # Gradients that should hide behind the last pass may last longer than it.
            longest_s += self._job.timer.exchange_s(phase)
        unharmed = self._unharmed(phase.members, self._beside_write(longest_s))
        simulated, waiting = steps.split_by_hosts(shares, unharmed)
        if may_outlast and not (simulated | waiting).issuperset(computing):
            # Gradients still in flight when the failure is noticed can stay in flight.
            simulated = set()
        at_risk = set[int]()
        if now_s >= self._saving_until_s:
            at_risk = set(computing) - simulated - self.failure_injector.down
        times = {
            group: stacks.get(group, 1)
            for group in computing
            if group in simulated or group in at_risk
        }
        # A rank that waits for a group at risk gets its data, or waits for ever.
        without_order = unharmed & (simulated | waiting | (stacks.keys() - set(computing)))
        return _Passes(shares, times, at_risk, without_order)

    def _at_risk(self, orders: Mapping[int, ComputeOrder]) -> set[int]:
        """Return the groups whose ranks may be down or busy when an order comes."""
        now_s, next_failure_s = simgrid.Engine.clock, self.clocks.next_failure_s
        down = self.failure_injector.down

        def longest_s(order: ComputeOrder) -> float:
            variates = NEVER_SIGMAS * self._jitter * sqrt(order.stacks)
            return order.stack_s * (order.stacks + variates)

        return {
            group
            for group, order in orders.items()
            if group in down
            or group in self._saving
            or next_failure_s[group] <= now_s + longest_s(order) * (1 + 1e-9)
        }

    def _computation(self, group: int, order: ComputeOrder) -> simgrid.Exec:
        """Start a group's computation on its rank's host."""
        host = simgrid.Host.by_name(self._traffic.hosts[group][0])
        pace = self._paces[group]
        stacks = sum(pace.factor() for _ in range(order.stacks))
        seconds = order.stack_s * stacks
        computation = simgrid.this_actor.exec_init(seconds * host.speed)
        computation.host = host
        computation.start()
        return computation

    def _off_s(self, absent: Collection[int] = ()) -> dict[str, float]:
        """Return when hosts fail, by name; -inf for the hosts of groups that are down or absent."""
        off, next_failure_s = self.failure_injector.down.union(absent), self.clocks.next_failure_s
        return {
            host: -inf if group in off else next_failure_s[group]
            for group, hosts in enumerate(self._traffic.hosts)
            for host in hosts
        }

    def _unharmed(self, members: Sequence[int], duration_s: float) -> set[int]:
        """Return the members that no failure or checkpoint disturbs for `duration_s`."""
        start_s, next_failure_s = simgrid.Engine.clock, self.clocks.next_failure_s
        if start_s < self._saving_until_s:
            return set()
        end_s, down = start_s + duration_s * (1 + 1e-6), self.failure_injector.down
        return {group for group in members if next_failure_s[group] > end_s and group not in down}

    def _carry_out(
        self, orders: Mapping[int, Order], meanwhile: Callable[[], None] = lambda: None
    ) -> set[int]:
        """Send orders; wait until each group has executed its order or is down.

        Returns the groups that executed theirs.
        """
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
                # A group that has been turned on again since then counts as up.
                self._saving.pop(news.group, None)
                if news.group in self.failure_injector.down:
                    waiting.discard(news.group)
            elif isinstance(news, Report) and news.order is self._saving.get(news.group):
                del self._saving[news.group]
            elif isinstance(news, Report) and news.order is orders.get(news.group):
                waiting.discard(news.group)
                # A group that fails at the time of its report has not arrived.
                down = news.group in self.failure_injector.down
                if news.done and not (down and self._fails_by(news.group, news.time_s)):
                    done.add(news.group)
        return done

    def _fails_by(self, group: int, time_s: float) -> bool:
        """Return whether a group fails at a time or before; clocks differ by rounding."""
        return self.clocks.next_failure_s[group] <= time_s * (1.0 + 1e-12)

    def _all_reduce(self, phase: AllReduce) -> Outcome:
        rules, members = self._job.rules, phase.members
        fails_within = rules.failure_in_all_reduce == "fails-it"
        start_s = simgrid.Engine.clock
        whole_s = self._job.timer.exchange_s(phase)
        absent = self._absent(members, fails_within)
        hung_s, self._hung_s = min(start_s, self._hung_s), inf
        ends_s = start_s + whole_s
        if rules.detection == "watchdog" and (absent or fails_within):
            shows_s = max(start_s, hung_s + rules.watchdog_s)
        elif absent:
            shows_s = start_s + whole_s * rules.failed_all_reduce_fraction
        else:
            shows_s = ends_s
        if self._simulated_steps:
            self._sync(self._simulated_steps, phase, absent, ends_s, shows_s)
        elif self._traffic.all_reduce:
            with narrowed(remaining_shares(self._platform, phase.parts_down, phase.slow.causes)):
                whole = self._reduce_by_messages(members, bool(absent), shows_s)
            if not whole:
                return Outcome(simgrid.Engine.clock, tuple(members))
        else:
            simgrid.this_actor.sleep_until(shows_s if absent else ends_s)
        if fails_within:
            absent = self._absent(members, fails_within)
        if absent:
            simgrid.this_actor.sleep_until(shows_s)
            absent = self._absent(members, fails_within)
        return Outcome(simgrid.Engine.clock, tuple(absent))

    def _sync(
        self,
        steps: SimulatedSteps,
        phase: AllReduce,
        absent: Collection[int],
        ends_s: float,
        shows_s: float,
    ) -> None:
        """Simulate an all-reduce that should end at `ends_s`, as far as members are up.

        The failure of a member is noticed at `shows_s`. Beside writes the all-reduce may take
        longer than usual: without a failure it then ends with its messages.
        """
        members = phase.members
        steps.set_conditions(phase.parts_down, phase.slow)
        longest_s = self._beside_write(self._job.timer.exchange_s(phase))
        if not absent and self._unharmed(members, longest_s).issuperset(members):
            steps.sync(self._shares(phase))
        else:
            first_s = min(self.clocks.next_failure_s[group] for group in members)
            fails_s = None if absent else first_s
            steps.broken_sync(self._shares(phase), self._off_s(absent), shows_s, fails_s)
        if not absent and not self._gradients_follow:
            # Waits and passes of stated time send no hidden gradients; the known end has them.
            simgrid.this_actor.sleep_until(ends_s)

    def _shares(self, phase: Compute | AllReduce) -> StepShares:
        """Return the shares of a phase whose step is simulated."""
        assert self._simulated_steps is not None, "no step is simulated"
        if isinstance(phase, Compute):
            stack_size, exposed = phase.stack_size, phase.patch is not None
        else:
            stack_size, exposed = 1, phase.repeated
        return self._simulated_steps.shares(
            phase.members, phase.pipelines, phase.slow, stack_size, exposed=exposed
        )

    def _absent(self, members: Iterable[int], fails_within: bool) -> list[int]:
        """Return the members missing in a running all-reduce, in ascending order."""
        down, now_s = self.failure_injector.down, simgrid.Engine.clock
        # A group whose failure is due now is turned off later.
        return [
            group
            for group in members
            if group not in self._arrived
            or (fails_within and (group in down or self._fails_by(group, now_s)))
        ]

    def _reduce_by_messages(
        self, members: Sequence[int], is_missing: bool, failure_shows_s: float
    ) -> bool:
        """Simulate the messages of an all-reduce until its end.

        With all members it takes as long as its messages. If a member `is_missing` from the start,
        or fails, it ends when that is noticed. Returns False if no member is missing, but the
        watchdog fires before the end.
        """
        down, rules, hosts = self.failure_injector.down, self._job.rules, self._traffic.hosts
        has_watchdog = rules.detection == "watchdog"
        fires_s = simgrid.Engine.clock + rules.watchdog_s if has_watchdog else inf
        reduced = Reduced()
        all_reduce = GroupAllReduce(
            [hosts[group] for group in members], self._traffic.bytes_per_rank
        )
        all_reduce.start(
            [place for place, group in enumerate(members) if group not in down],
            lambda: self._news.put(reduced),
            self._off_s(),
        )
        is_missing |= any(group in down for group in members)
        ended = fired = False
        while not (is_missing or ended or fired):
            news = self._news.get_before(fires_s)
            fired = news is None
            ended = news is reduced
            # A group that has been turned on again since then counts as up.
            is_missing = isinstance(news, Failed) and news.group in down and news.group in members
        if is_missing:
            simgrid.this_actor.sleep_until(failure_shows_s)
        if not ended:
            all_reduce.stop()
        return not fired

    def _inquire(self, phase: Inquiry) -> Outcome:
        now_s = simgrid.Engine.clock
        struck = self.clocks.happened(phase.groups, now_s, phase.since_s)
        return Outcome(now_s, struck=struck)

    def _reconfigure(self, phase: Reconfigure) -> Outcome:
        failed = [self.clocks.due(group) for group in (*phase.dropped, *phase.carried_on)]
        for group in phase.dropped:
            self.failure_injector.notice(group)
        self._arrived.difference_update(phase.dropped)
        self.failure_injector.carry_on(phase.carried_on)
        # The next phase has their remaining computation, if any.
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
        simgrid.this_actor.sleep_until(start_s + phase.duration_s)
        return Outcome(simgrid.Engine.clock)

    def _send(self, phase: Send) -> Outcome:
        self._arrives(phase.moves)
        return Outcome(simgrid.Engine.clock)

    def _arrives(self, moves: Sequence[SentMove]) -> bool:
        """Send state between groups; return whether all of it has arrived."""
        start_s = simgrid.Engine.clock
        if transfer(self._traffic.state_flows(moves)):
            return True
        # A missing part goes unnoticed until the transfer should have ended.
        simgrid.this_actor.sleep_until(start_s + self._job.timer.sent_s(moves))
        return False

    def _save(self, phase: Save) -> Outcome:
        writer, start_s = phase.writer, simgrid.Engine.clock
        if writer in self.failure_injector.down:
            return Outcome(start_s, (writer,))
        traffic, save_s = self._traffic, self._job.timer.save_s(writer)

        def order() -> bool:
            if traffic.save:
                return transfer(traffic.write_of(writer))
            simgrid.this_actor.sleep_for(save_s)
            return True

        if not phase.waits:
            self.failure_injector.ranks[writer].orders.put(order)
            self._saving[writer] = order
            # Beside other messages it may take longer than alone.
            self._saving_until_s = start_s + 2 * save_s
            return Outcome(start_s)
        if not self._carry_out({writer: order}):
            # A writer that is up has lost a host: the rule for failed writers does not apply.
            is_up = writer not in self.failure_injector.down
            if is_up or self._job.rules.failed_writer == "replaced":
                return Outcome(simgrid.Engine.clock, (writer,))
            simgrid.this_actor.sleep_until(start_s + save_s)
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
        self._saving.clear()
        failures = self.failure_injector.end_restart()
        struck = self.clocks.collect(phase.reports_failures)
        phases = self._recovery_times.last_phases()
        return Outcome(simgrid.Engine.clock, (), failures, struck, phases=phases)

    def _load(self, phase: Load) -> Outcome:
        traffic, down = self._traffic, self.failure_injector.down
        count, remaining = 0, [group for group in phase.members if group not in down]
        while remaining and len(remaining) != count:
            count, start_s = len(remaining), simgrid.Engine.clock
            load_s = phase.duration_s
            if not (traffic.load and load_s is None) or not load_checkpoint(
                [traffic.hosts[group] for group in remaining],
                traffic.storage,
                traffic.checkpoint_bytes_per_rank,
                traffic.readers,
            ):
                load_s = self._job.timer.load_s(remaining) if load_s is None else load_s
                simgrid.this_actor.sleep_until(start_s + load_s)
            remaining = [group for group in remaining if group not in down]
        return Outcome(simgrid.Engine.clock)

    def _rejoin(self, phase: Rejoin) -> Outcome:
        joining_s = self._recovery_times.duration_s(phase.recovery)
        up_at_s = simgrid.Engine.clock + joining_s
        self.failure_injector.readmit(phase.groups, up_at_s)
        simgrid.this_actor.sleep_until(up_at_s)
        self._move(phase.recovery, phase.members)
        return Outcome(simgrid.Engine.clock, phases=self._recovery_times.last_phases())

    def _move(self, recovery: Recovery | None, members: Sequence[int]) -> None:
        """Move state; start again from other groups whenever a sender or receiver fails."""
        if recovery is None or not self._job.timer.moves(recovery):
            return
        down = self.failure_injector.down
        senders = [group for group in members if group not in down]
        moves = recovery.moves
        while moves := tuple(move for move in moves if move.group not in down):
            if self._arrives(sent_moves(moves, senders)):
                return
            senders = [group for group in senders if group not in down]
