"""The controller: executes a job's phases by sending orders to ranks and awaiting reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import simgrid
from faultline.platforms.outages import bandwidths_left
from faultline.simulator.failures.failure import Failure
from faultline.simulator.job.background import Write
from faultline.simulator.job.job import Job
from faultline.simulator.job.phases import (
    AllReduce,
    Background,
    Compute,
    Outcome,
    QuietSteps,
    Restart,
    Save,
)
from faultline.simulator.loop.engine import Engine, nominal_s
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.simgrid.failure_injector import FailureInjector
from faultline.simulator.simgrid.group_all_reduce import GroupAllReduce
from faultline.simulator.simgrid.links import narrowed, storage_shared_equally
from faultline.simulator.simgrid.rank import ComputeOrder, Failed, Ready, Reduced
from faultline.simulator.simgrid.rank_orders import RankOrders
from faultline.simulator.simgrid.simulated_steps import SimulatedSteps
from faultline.simulator.simgrid.storage_traffic import (
    load_checkpoint,
    transfer,
    transfer_beside,
)
from faultline.simulator.simgrid.traffic import Traffic
from faultline.strategies.interface.recovery import SentMove

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


class SimgridEngine(Engine):
    """Executes phases on the loaded platform XML; an actor calls `execute`.

    The job's `durations` apply to phases that are not simulated as messages, and define when an
    all-reduce with a missing member fails.
    """

    def __init__(self, job: Job, traffic: Traffic, platform: Path) -> None:
        super().__init__(job)
        self._traffic = traffic
        self._platform = platform
        self._orders = RankOrders(job, traffic, self._jitter)
        self._simulated_steps = (
            SimulatedSteps(traffic.step, platform, job.hardware.layout) if traffic.step else None
        )
        steps = self._simulated_steps
        self.failure_injector = FailureInjector(
            [[simgrid.Host.by_name(name) for name in hosts] for hosts in traffic.hosts],
            self.clocks,
            job.rules,
            self._orders.news,
            self._orders.new_rank,
            steps.interrupted_by if steps else lambda _: False,
        )
        self._arrived: set[int] = set()
        self._copies: list[Write] = []
        self._sharing = ExitStack()
        # Whether the hidden gradients of the latest passes are simulated.
        self._gradients_follow = True

    @property
    def now_s(self) -> float:
        """The time, in simulated seconds."""
        return float(simgrid.Engine.clock)

    def _begin_write(self, phase: Background) -> Outcome:
        """Start a snapshot to storage or to host memories; it shares links with other traffic."""
        write = phase.write
        if not self._copies:
            self._sharing.enter_context(storage_shared_equally(self._traffic))
        self._copies.append(write)
        flows = [
            flow
            for flow in self._traffic.write_of(write.writer)
            if write.writer is not None or all(simgrid.Host.by_name(end).is_on for end in flow[:2])
        ]
        transfer_beside(flows, lambda arrived: self._end_write(write, arrived=arrived))
        return Outcome(self.now_s)

    def _end_write(self, write: Write, *, arrived: bool) -> None:
        self._copies.remove(write)
        if not self._copies:
            self._sharing.close()
        write.end(self.now_s if arrived else inf)

    def _beside_write(self, duration_s: float) -> float:
        """Return the longest time of a phase that may share links with writes, in seconds."""
        slowdowns = [write.times.slowdown for write in self._copies]
        if not slowdowns:
            return duration_s
        # On slow links, or links with more traffic, it may take longer than at these rates.
        at_these_rates_s = duration_s * (1.0 + sum(slowdown - 1.0 for slowdown in slowdowns))
        return _LONGEST_BESIDE_WRITES * at_these_rates_s

    def _quiet_steps(self, phase: QuietSteps) -> Outcome:
        """Skip no step: this engine simulates each phase in detail."""
        return Outcome(self.now_s)

    def _compute(self, phase: Compute) -> Outcome:
        steps = self._simulated_steps
        began_s, down = self.now_s, self.failure_injector.down
        stacks: Mapping[int, int] = dict.fromkeys(phase.members, phase.stacks)
        if phase.patch is not None:
            stacks = self._timer.occupied(phase, phase.patch)
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
        at_risk = self._orders.at_risk(self.failure_injector, orders)
        computations = simgrid.ActivitySet()
        for group, order in orders.items():
            if group not in at_risk and not passes.at_risk:
                computations.push(self._orders.computation(group, order))

        def simulate() -> None:
            if steps and passes.times:
                steps.set_conditions(phase.parts_down, phase.slow)
                off_s = self.failure_injector.off_s() if passes.at_risk else {}
                steps.passes(passes.shares, passes.times, phase.factor, passes.at_risk, off_s)

        risky = {group: orders[group] for group in at_risk}
        done = self._orders.carry_out(self.failure_injector, risky, simulate)
        self._arrived = idle | done | (stacks.keys() - at_risk)
        if not computations.empty():
            computations.wait_all()
        missing = [group for group in phase.members if group not in self._arrived]
        if missing and steps:
            # The rest of a group waits for its failed ranks from their failure on.
            failed_s = min(self._next_failure_s[group] for group in missing)
            self._hung_s = max(began_s, failed_s)
            # What breaks goes unnoticed until it should have ended.
            simgrid.this_actor.sleep_until(began_s + nominal_s(phase) * phase.slow.slowest)
        if not missing and phase.least_stack_s:
            simgrid.this_actor.sleep_until(began_s + phase.stacks * phase.least_stack_s)
        return Outcome(self.now_s)

    def _are_passes_known(self, steps: SimulatedSteps, phase: Compute) -> bool:
        """Return whether passes last as long as the timer says: nothing disturbs a large job."""
        is_disturbed = phase.parts_down or phase.slow.causes or phase.pipelines or self._copies
        return steps.passes_are_known and not is_disturbed

    def _simulated_passes(
        self, steps: SimulatedSteps, phase: Compute, stacks: Mapping[int, int]
    ) -> _Passes:
        """Return which groups' passes are simulated; GPUs of each are busy for some `stacks`."""
        shares, now_s = self._shares(phase), self.now_s
        computing = shares.computing(phase.patch or stacks)
        longest_s = nominal_s(phase) * phase.slow.slowest
        may_outlast = steps.may_outlast_passes(shares)
        if may_outlast:
            # Gradients that should hide behind the last pass may last longer than it.
            longest_s += self._timer.exchange_s(phase)
        unharmed = self._unharmed(phase.members, self._beside_write(longest_s))
        simulated, waiting = steps.split_by_hosts(shares, unharmed)
        if may_outlast and not (simulated | waiting).issuperset(computing):
            # Gradients still in flight when the failure is noticed can stay in flight.
            simulated = set()
        at_risk = set[int]()
        if now_s >= self._orders.saving_until_s:
            at_risk = set(computing) - simulated - self.failure_injector.down
        times = {
            group: stacks.get(group, 1)
            for group in computing
            if group in simulated or group in at_risk
        }
        # A rank that waits for a group at risk gets its data, or waits for ever.
        without_order = unharmed & (simulated | waiting | (stacks.keys() - set(computing)))
        return _Passes(shares, times, at_risk, without_order)

    def _unharmed(self, members: Sequence[int], duration_s: float) -> set[int]:
        """Return the members that no failure or checkpoint disturbs for `duration_s`."""
        start_s, next_failure_s = self.now_s, self._next_failure_s
        if start_s < self._orders.saving_until_s:
            return set()
        end_s, down = start_s + duration_s * (1 + 1e-6), self.failure_injector.down
        return {group for group in members if next_failure_s[group] > end_s and group not in down}

    def _all_reduce(self, phase: AllReduce) -> Outcome:
        rules, members = self._rules, phase.members
        fails_within = rules.failure_in_all_reduce == "fails-it"
        start_s = self.now_s
        whole_s = self._timer.exchange_s(phase)
        absent = self._absent(members, fails_within)
        ends_s = shows_s = start_s + whole_s
        if absent or fails_within:
            shows_s = self._shows_s(start_s, whole_s, is_absent=bool(absent))
        if self._simulated_steps:
            self._sync(self._simulated_steps, phase, absent, ends_s, shows_s)
        elif self._traffic.all_reduce:
            left = bandwidths_left(self._platform, phase.slow.step.links, phase.parts_down)
            with narrowed(dict(left)):
                whole = self._reduce_by_messages(members, bool(absent), shows_s)
            if not whole:
                return self._lacks(members)
        else:
            simgrid.this_actor.sleep_until(shows_s if absent else ends_s)
        if fails_within:
            absent = self._absent(members, fails_within)
        if absent:
            simgrid.this_actor.sleep_until(shows_s)
            absent = self._absent(members, fails_within)
        return self._lacks(absent)

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
        longest_s = self._beside_write(self._timer.exchange_s(phase))
        if not absent and self._unharmed(members, longest_s).issuperset(members):
            steps.sync(self._shares(phase))
        else:
            first_s = min(self._next_failure_s[group] for group in members)
            fails_s = None if absent else first_s
            steps.broken_sync(
                self._shares(phase), self.failure_injector.off_s(absent), shows_s, fails_s
            )
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
        down, now_s = self.failure_injector.down, self.now_s
        # A group whose failure is due now is turned off later.
        return [
            group
            for group in members
            if group not in self._arrived
            or (fails_within and (group in down or self.failure_injector.fails_by(group, now_s)))
        ]

    def _reduce_by_messages(
        self, members: Sequence[int], is_missing: bool, failure_shows_s: float
    ) -> bool:
        """Simulate the messages of an all-reduce until its end.

        With all members it takes as long as its messages. If a member `is_missing` from the start,
        or fails, it ends when that is noticed. Returns False if no member is missing, but the
        watchdog fires before the end.
        """
        down, rules, hosts = self.failure_injector.down, self._rules, self._traffic.hosts
        has_watchdog = rules.detection == "watchdog"
        fires_s = self.now_s + rules.watchdog_s if has_watchdog else inf
        reduced = Reduced()
        all_reduce = GroupAllReduce(
            [hosts[group] for group in members], self._traffic.bytes_per_rank
        )
        all_reduce.start(
            [place for place, group in enumerate(members) if group not in down],
            lambda: self._orders.news.put(reduced),
            self.failure_injector.off_s(),
        )
        is_missing |= any(group in down for group in members)
        ended = fired = False
        while not (is_missing or ended or fired):
            news = self._orders.news.get_before(fires_s)
            fired = news is None
            ended = news is reduced
            # A group that has been turned on again since then counts as up.
            is_missing = isinstance(news, Failed) and news.group in down and news.group in members
        if is_missing:
            simgrid.this_actor.sleep_until(failure_shows_s)
        if not ended:
            all_reduce.stop()
        return not fired

    def _wait(self, duration_s: float) -> None:
        end_s = self.now_s + duration_s
        if self._simulated_steps:
            # Gradients of a discarded step are still in flight.
            self._simulated_steps.settle()
        simgrid.this_actor.sleep_until(end_s)

    def _up(self, groups: Sequence[int]) -> Sequence[int]:
        return [group for group in groups if group not in self.failure_injector.down]

    def _leave(self, dropped: Sequence[int], carried_on: Sequence[int]) -> None:
        for group in dropped:
            self.failure_injector.notice(group)
        self._arrived.difference_update(dropped)
        self.failure_injector.carry_on(carried_on)
        # The next phase has their remaining computation, if any.
        self._arrived.update(carried_on)

    def _bring_back(self, groups: Sequence[int], up_at_s: float) -> None:
        self.failure_injector.readmit(groups, up_at_s)

    def _arrives(self, moves: Sequence[SentMove]) -> bool:
        start_s = self.now_s
        if transfer(self._traffic.state_flows(moves)):
            return True
        # A missing part goes unnoticed until the transfer should have ended.
        simgrid.this_actor.sleep_until(start_s + self._timer.sent_s(moves))
        return False

    def _save(self, phase: Save) -> Outcome:
        writer, start_s = phase.writer, self.now_s
        if writer in self.failure_injector.down:
            return self._lacks((writer,))
        traffic, save_s = self._traffic, self._timer.save_s(writer)

        def order() -> bool:
            if traffic.save:
                return transfer(traffic.write_of(writer))
            simgrid.this_actor.sleep_for(save_s)
            return True

        if not phase.waits:
            # Beside other messages it may take longer than alone.
            self._orders.put(self.failure_injector, writer, order, start_s + 2 * save_s)
            return Outcome(start_s)
        if not self._orders.carry_out(self.failure_injector, {writer: order}):
            # A writer that is up has lost a host: the rule for failed writers does not apply.
            is_up = writer not in self.failure_injector.down
            if is_up or self._rules.failed_writer == "replaced":
                return self._lacks((writer,))
            simgrid.this_actor.sleep_until(start_s + save_s)
        return Outcome(self.now_s)

    def _unnoticed(self) -> list[Failure]:
        return self.failure_injector.unnoticed()

    def _restart_all(self, phase: Restart, restart_s: float) -> Sequence[tuple[int, Failure]]:
        if self._simulated_steps:
            self._simulated_steps.settle()
        self.failure_injector.begin_restart(phase.absent, restart_s)
        up: set[int] = set()
        while len(up) < phase.groups - len(phase.absent):
            news = self._orders.news.get()
            if isinstance(news, Ready):
                up.add(news.group)
        self._arrived.clear()
        self._orders.saving.clear()
        return self.failure_injector.end_restart()

    def _load_into(self, members: Sequence[int], duration_s: float | None) -> None:
        traffic, start_s = self._traffic, self.now_s
        if not (traffic.load and duration_s is None) or not load_checkpoint(
            [traffic.hosts[group] for group in members],
            traffic.storage,
            traffic.checkpoint_bytes_per_rank,
            traffic.readers,
        ):
            load_s = self._timer.load_s(members) if duration_s is None else duration_s
            simgrid.this_actor.sleep_until(start_s + load_s)
