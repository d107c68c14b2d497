"""The state of a training job, and the booking of its seconds."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from faultline.simulator.accounting.progress import Batches, Progress
from faultline.simulator.accounting.timeline import Event, EventKind
from faultline.simulator.hardware.hit_list import HitList
from faultline.simulator.job.conditions import UNDISTURBED, Conditions
from faultline.simulator.job.job import Job
from faultline.simulator.job.phases import Outcome
from faultline.simulator.loop.contract import Contract
from faultline.simulator.loop.step_phases import StepCosts, StepPhases
from faultline.simulator.state.memory import Memory
from faultline.simulator.state.shared_optimizer import SharedOptimizer
from faultline.simulator.state.snapshots import Saved
from faultline.simulator.stragglers.response import Response
from faultline.strategies.interface.scheme import Strategy

_ROUNDING = 1e-9


class TrainingState:
    """A job under a scheme: the state that all parts of training read and change.

    Its parameters are those of `Training`.

    Attributes
    ----------
    progress : Progress
        Steps, batches and seconds so far; `seconds` are its seconds by cause.
    contract : Contract
        Checks what the scheme returns.
    plan : StepPlan
        The plan that the next steps follow.
    step : StepPhases
        The phases of the next steps.
    loaded : Saved
        The state that the last restart went back to.
    before_failure : Saved
        The state that survivors of the last failure hold, if a restart can use it.
    unsaved_since_s : float
        Start of the work that no checkpoint holds.
    records_steps : bool
        Whether steps are events.
    restarts_since_save : int
        Restarts since the last checkpoint or snapshot.
    disturbed : bool
        Whether the next step cannot be executed together with others.
    due_step, due_s : float
        Nothing is due at the end of a step before this step and before this time, in seconds.
    limit_s : float
        When the job ends at the latest, in seconds of simulated time.
    """

    def __init__(
        self,
        job: Job,
        strategy: Strategy,
        record: Callable[[Event], None] | None = None,
        *,
        records_steps: bool = True,
    ) -> None:
        work, rules = job.work, job.rules
        self.work, self.hardware, self.saving = work, job.hardware, job.saving
        self.rules, self.seed, self.strategy = rules, job.seed, strategy
        self.reactions = job.disturbances.reactions
        self._timer = job.timer
        self.contract = Contract(strategy, work.groups)
        self.progress = Progress()
        self.seconds = self.progress.seconds
        self.record = record
        self.records_steps = record is not None and records_steps
        self.plan = strategy.plan()
        self.loaded = self.before_failure = self.to_save(0.0)
        self.unsaved_since_s = 0.0
        self.restarts_since_save = 0
        self.disturbed = False
        self.due_step, self.due_s = 0.0, 0.0
        self.optimizer = SharedOptimizer(
            strategy.shape.optimizer_backup, work.groups, strategy.shape.domain_groups
        )
        self.memory = Memory(job.saving, job.hardware.layout, self.optimizer)
        self.memory.checkpoint.reset(self.loaded)
        self.hits = HitList(strategy, job.hardware, rules)
        self.conditions = Conditions(job.disturbances)
        self.progress.disturbances = self.conditions.counts
        self.response = Response(job.disturbances, job.hardware.layout, self.conditions)
        self.progress.remedies = self.response.taken
        # These never change during a run. They skip the work of features that are not in use.
        self.readmits = rules.rejoin == "at-checkpoint"
        self.policy = job.saving.policy
        self.limit_s = inf if work.time_limit_s is None else work.time_limit_s
        self._enough = work.steps - _ROUNDING
        self.step = StepPhases(self.plan, self._timer)
        self.step = self.step_phases()

    def follow_plan(self) -> None:
        """Make the phases of the next steps from the scheme's plan."""
        self.plan = self.strategy.plan()
        self.step = self.step_phases()
        if self.step.mirrors or self.memory.holds_last_step or not self.policy.every_steps:
            # With other members other saves may be due.
            self.due_step = 0

    def step_phases(self) -> StepPhases:
        """Return the phases of the next steps."""
        slow = self.response.slowdown(self.plan) if self.conditions.slow else UNDISTURBED
        step = StepPhases(self.plan, self._timer, self.conditions.parts_down, slow, self.step)
        if self.response.is_active:
            sound_s = step.costs.nominal_s / step.compute.slow.slowest
            self.response.follow(self.plan, sound_s, slow)
        return step

    @property
    def saved(self) -> Saved:
        """The last complete checkpoint; before the first one, the state at the start."""
        saved = self.memory.checkpoint.whole
        assert saved is not None
        return saved

    @property
    def members(self) -> tuple[int, ...]:
        """The groups that take part in the next step."""
        return self.strategy.plan().members

    def goes_on(self) -> bool:
        """Return whether the job has time left and has not given up."""
        gives_up = self.restarts_since_save >= self.work.give_up_after_restarts
        return self.progress.now_s < self.limit_s and not gives_up

    def is_done(self) -> bool:
        """Return whether all steps are trained."""
        return self.progress.completed_batches >= self._enough

    def batches_left(self) -> float:
        """Return how many full batches come before the end, or before the time to note."""
        return min(self._enough, self.progress.noted_batches) - self.progress.completed_batches

    def to_save(self, now_s: float) -> Saved:
        """Return the current state as it would be saved."""
        progress = self.progress
        last = Batches.of(self.strategy.plan(), self.work.approximation_loss)
        return Saved(progress.completed_steps, progress.completed, last, now_s, progress.mark())

    def book_compute(self, costs: StepCosts, steps: int, duration_s: float) -> None:
        """Book the compute of steps, whether they commit or not."""
        progress, seconds = self.progress, self.seconds
        for cause, each_s in costs.booked:
            seconds[cause] += steps * each_s
        seconds["waiting"] += duration_s - steps * costs.nominal_s
        if costs.raised_power_s:
            progress.raised_power_s += steps * costs.raised_power_s
        progress.simulated_steps += steps
        if self.response.is_active:
            self.response.count_steps(steps)
        progress.stack_computations += steps * costs.types

    def book_quiet_steps(self, steps: int, now_s: float, all_reduce_s: float) -> None:
        """Book consecutive quiet steps."""
        progress, step = self.progress, self.step
        self.book_compute(step.costs, steps, now_s - progress.now_s - all_reduce_s)
        self.book_all_reduce(all_reduce_s, step.costs.reduced_share)
        progress.now_s = now_s
        progress.completed_steps += steps
        progress.train(steps, step.costs.batches)

    def book_all_reduce(self, duration_s: float, useful_share: float) -> None:
        """Book a successful all-reduce, of which `StepCosts.reduced_share` is useful."""
        self.seconds["all_reduce"] += duration_s * useful_share
        if useful_share < 1.0:
            self.seconds["degraded"] += duration_s * (1.0 - useful_share)

    def spend(self, cause: str, outcome: Outcome) -> None:
        """Book all the time until the end of a phase under one cause."""
        progress, now_s = self.progress, outcome.now_s
        self.seconds[cause] += now_s - progress.now_s
        progress.now_s = now_s

    def log(
        self,
        kind: EventKind,
        *,
        time_s: float | None = None,
        groups: tuple[int, ...] = (),
        stacks: int = 0,
        moved_types: int = 0,
        recovery: str = "",
    ) -> None:
        """Record an event, now or at a time; for runs that are recorded."""
        assert self.record is not None
        now_s = self.progress.now_s if time_s is None else time_s
        done = self.progress.completed_steps
        self.record(Event(now_s, kind, done, groups, stacks, moved_types, recovery))
