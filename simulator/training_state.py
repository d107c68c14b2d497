"""What a job under a scheme is at a moment of its training, and how its seconds are booked."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from faultline.simulator.conditions import UNDISTURBED, Conditions
from faultline.simulator.contract import Contract
from faultline.simulator.failures.failure import Failure
from faultline.simulator.hit_list import HitList
from faultline.simulator.job import Rules, Work
from faultline.simulator.memory import Memory
from faultline.simulator.phases import Outcome
from faultline.simulator.progress import Batches, Progress
from faultline.simulator.response import Response
from faultline.simulator.shared_optimizer import SharedOptimizer
from faultline.simulator.snapshots import Saved, Shelf
from faultline.simulator.spare_pool import SparePool
from faultline.simulator.step_phases import StepCosts, StepPhases
from faultline.simulator.timeline import Event, EventKind
from faultline.strategies.base import Strategy

_ROUNDING = 1e-9


class TrainingState:
    """A job under a scheme.

    Parameters
    ----------
    work : Work
        What is to be trained.
    rules : Rules
        The scenario's choices.
    strategy : Strategy
        The scheme.
    record : callable, optional
        Called with every `Event`; leave it out to run faster.
    on_checkpoint : callable, optional
        Called with the completed steps and the simulated time after every checkpoint; for progress
        displays.
    """

    def __init__(
        self,
        work: Work,
        rules: Rules,
        strategy: Strategy,
        record: Callable[[Event], None] | None = None,
        on_checkpoint: Callable[[int, float], None] | None = None,
    ) -> None:
        self.work = work
        self.rules = rules
        self.strategy = strategy
        self._contract = Contract(strategy, work.groups)
        self.progress = Progress()
        self._record = record
        self._on_checkpoint = on_checkpoint
        self._plan = strategy.plan()
        self._saved = self._state(0.0)
        self._saved_before = self._loaded = self._saved
        self._before_failure = self._saved
        self._unsaved_since_s = 0.0
        self._spares = SparePool(work.spare_groups, work.repair_s)
        lives = work.standby_lives
        self._standbys = SparePool(work.standbys, work.replenish_s, lives() if lives else None)
        free = work.free_machines
        self._free_machines = None if free is None else SparePool(free, work.repair_s)
        # When each machine is repaired that has failed, and in whose place there is no other yet.
        self._lacking_until_s: list[float] = []
        # When the job waited for machines last: from and to; and whether it has waited for some in
        # whose places they are still to be put.
        self._waited_s = (-inf, -inf)
        self._was_waited_for = False
        self._processes_failed = False
        self._optimizer = SharedOptimizer(strategy.shape.optimizer_backup, work.groups)
        self._memory = Memory(work, self._optimizer)
        self._hits = HitList(strategy, work)
        self._conditions = Conditions(work.disturbances)
        self.progress.disturbances = self._conditions.counts
        self._response = Response(work, self._conditions)
        self.progress.remedies = self._response.taken
        self._clean: dict[Failure, Saved] = {}
        self._put_off: set[Shelf | None] = set()
        self._restarted_s = -inf
        # What follows holds for all of the run: what it lacks is not asked for at each failure.
        self._seconds = self.progress.seconds
        self._asks = bool(work.tiers) or self._hits.outlive_restarts
        self._readmits = rules.rejoin == "at-checkpoint"
        self._in_place = rules.transient == "in-place"
        # Whether the machines are counted that stand in for others: then they may run out.
        self._has_pool = work.standbys > 0 or free is not None
        self._inquires = self._hits.counts or self._in_place or self._has_pool
        self._sends_standbys = work.standbys > 0 and (self._hits.counts or self._readmits)
        self._responds = work.slow_response is not None
        is_plain = not (self._memory.shelves or self._memory.holds_last_step)
        # Steps between checkpoints beside which a step needs nothing; 0 where there may be more.
        self._saves_every = work.checkpoint_policy.every_steps if is_plain else 0
        self._policy = work.checkpoint_policy
        self._most_restarts = work.give_up_after_restarts
        self._enough = work.steps - _ROUNDING
        self._restarts_since_save = 0
        self._disturbed = False
        self._limit_s = inf if work.time_limit_s is None else work.time_limit_s
        # Below both the steps and the time, in seconds, nothing is due at the end of a step.
        self._due_step, self._due_s = 0.0, 0.0
        self._play = StepPhases(self._plan, work)
        self._play = self._phases()

    def _follow_plan(self) -> None:
        """Make the phases of the next steps, as the scheme has planned them."""
        self._plan = self.strategy.plan()
        self._play = self._phases()
        if not self._saves_every or self._play.mirrors:
            # With other members, other things may be due.
            self._due_step = 0

    def _phases(self) -> StepPhases:
        """Return the phases of the next steps."""
        slow = self._response.slowdown(self._plan) if self._conditions.slow else UNDISTURBED
        before, without = self._play, self._conditions.without
        play = StepPhases(self._plan, self.work, without, slow, before)
        if self._responds:
            sound_s = play.costs.nominal_s / play.compute.slow.slowest
            self._response.follow(self._plan, sound_s, slow)
        return play

    def _done(self) -> bool:
        return self.progress.trained >= self._enough

    def _state(self, now_s: float) -> Saved:
        """Return what there is to save at this moment."""
        progress = self.progress
        return Saved(
            progress.completed_steps,
            progress.completed,
            self._batches(),
            now_s,
            progress.ledger.mark(),
        )

    def _batches(self) -> Batches:
        """Return what a step trains of those who are left in it."""
        return Batches.of(self.strategy.plan(), self.work.approximation_loss)

    def _computed(self, costs: StepCosts, steps: int, duration_s: float) -> None:
        """Book the compute of steps, whatever comes of them."""
        progress, seconds = self.progress, self._seconds
        for cause, each_s in costs.booked:
            seconds[cause] += steps * each_s
        seconds["waiting"] += duration_s - steps * costs.nominal_s
        if costs.raised_power_s:
            progress.raised_power_s += steps * costs.raised_power_s
        progress.played_steps += steps
        if self._responds:
            self._response.met(steps)
        progress.stack_computations += steps * costs.types

    def _did_quietly(
        self, play: StepPhases, steps: int, now_s: float, all_reduce_s: float, save_s: float = 0.0
    ) -> None:
        """Book steps in a row in which nothing happened, the checkpoints between them included."""
        progress = self.progress
        self._computed(play.costs, steps, now_s - progress.now_s - all_reduce_s - save_s)
        self._reduced(all_reduce_s, play.costs.reduced_share)
        self._seconds["checkpoint"] += save_s
        progress.now_s = now_s
        progress.completed_steps += steps
        progress.train(steps, play.costs.batches)

    def _reduced(self, duration_s: float, share: float) -> None:
        """Book a good all-reduce, of which a share is useful (`StepPhases.reduced_share`)."""
        self._seconds["all_reduce"] += duration_s * share
        if share < 1.0:
            self._seconds["degraded"] += duration_s * (1.0 - share)

    def _spend(self, cause: str, outcome: Outcome) -> None:
        progress, now_s = self.progress, outcome.now_s
        self._seconds[cause] += now_s - progress.now_s
        progress.now_s = now_s

    def _log(
        self,
        kind: EventKind,
        *,
        time_s: float | None = None,
        groups: tuple[int, ...] = (),
        stacks: int = 0,
        moved_types: int = 0,
        recovery: str = "",
    ) -> None:
        assert self._record is not None
        now_s = self.progress.now_s if time_s is None else time_s
        done = self.progress.completed_steps
        self._record(Event(now_s, kind, done, groups, stacks, moved_types, recovery))
