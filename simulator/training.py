"""The training loop: one generator, played by any engine.

It knows steps, checkpoints and the scheme's verdicts. It knows neither a clock nor a random number
nor SimGrid: it yields phases and is sent back what became of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from simulator.badput import Ledger
from simulator.job import Rules, Work
from simulator.phases import (
    AllReduce,
    Compute,
    Load,
    Outcome,
    Phase,
    Reconfigure,
    Rejoin,
    Restart,
    Save,
)
from simulator.repair_shop import RepairShop
from simulator.timeline import Event, EventKind
from strategies.base import Continue, StepPlan, Strategy, WipeOut

TrainingLoop = Generator[Phase, Outcome, None]


@dataclass(slots=True)
class Progress:
    """Counts and times of a run, kept up to date while it goes on.

    Attributes
    ----------
    completed_steps : int
        Steps done and not taken back by a restart.
    played_steps : int
        All-reduced steps, those that were lost and repeated included.
    stack_computations : int
        Shard types a group computed, patch compute included, summed over played steps.
    rejoined : int
        Groups that came back at a checkpoint, spares included.
    failures, failures_while_down : int
        Failures of groups, and those among them that struck a group which was down already.
    failures_by_cause : dict of str to int
        Failures of groups by cause; empty where causes are unknown.
    now_s : float
        Simulated time, in seconds.
    ledger : Ledger
        Simulated time by cause; the sum is `now_s`.
    """

    completed_steps: int = 0
    played_steps: int = 0
    stack_computations: int = 0
    failures: int = 0
    failures_while_down: int = 0
    failures_by_cause: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    rejoined: int = 0
    reorderings: int = 0
    moved_types: int = 0
    checkpoints: int = 0
    now_s: float = 0.0
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def seconds(self) -> dict[str, float]:
        """Simulated time by cause (`simulator.badput`), in seconds."""
        return self.ledger.seconds

    @property
    def downtime_s(self) -> float:
        """Time in which nothing was trained, saved or reduced: restarts and reconfigurations."""
        return self.seconds["restart"] + self.seconds["load"] + self.seconds["reconfigure"]


class Training:
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
        self.progress = Progress()
        self._record = record
        self._on_checkpoint = on_checkpoint
        self._saved_steps = 0
        self._saved_s = 0.0
        self._shop = RepairShop(work.spare_groups, work.repair_s)
        self._restarts_since_save = 0

    def loop(self) -> TrainingLoop:
        """Return the generator of phases; it ends when the job is done or out of time."""
        work, progress, due = self.work, self.progress, self.work.checkpoint_policy.due
        limit_s = work.time_limit_s if work.time_limit_s is not None else float("inf")
        seconds = progress.seconds
        plan = self.strategy.plan()
        play = _Play(plan, work)
        while (
            progress.completed_steps < work.steps
            and progress.now_s < limit_s
            and self._restarts_since_save < work.give_up_after_restarts
        ):
            if plan is not self.strategy.plan():
                plan = self.strategy.plan()
                play = _Play(plan, work)
            outcome = yield play.compute
            reduced = yield play.all_reduce
            seconds["compute"] += work.compute_s
            seconds["redundancy"] += play.redundancy_s
            seconds["waiting"] += outcome.now_s - progress.now_s - play.nominal_s
            progress.played_steps += 1
            progress.stack_computations += play.types
            if reduced.missing:
                progress.now_s = outcome.now_s
                if not (yield from self._repair(reduced)):
                    yield from self._restart()
                    continue
            else:
                seconds["all_reduce"] += reduced.now_s - outcome.now_s
                progress.now_s = reduced.now_s
            progress.completed_steps += 1
            if progress.completed_steps <= self._saved_steps:
                # It was saved already, and is done once more.
                progress.ledger.take_back()
            if self._record:
                self._log(EventKind.STEP, stacks=plan.stacks)
            done = progress.completed_steps == work.steps
            unsaved_s = progress.now_s - self._saved_s
            if done or due(progress.completed_steps, unsaved_s, progress.now_s, play.down):
                saved = yield from self._save()
                if done and not saved:
                    # Nobody was left to write the last checkpoint.
                    yield from self._restart()
                elif saved and not done and self.rules.rejoin == "at-checkpoint":
                    yield from self._readmit()

    def _repair(self, outcome: Outcome) -> Generator[Phase, Outcome, bool]:
        """Bring a step with missing members to its end; False if it is lost."""
        progress, seconds = self.progress, self.progress.seconds
        while True:
            self._spend("detection", outcome)
            if self._record:
                self._log(EventKind.MISSING, groups=outcome.missing)
            verdict = self.strategy.on_failures(outcome.missing)
            if isinstance(verdict, WipeOut):
                return False
            plan = self.strategy.plan()
            self._shop.bring(len(verdict.dropped), progress.now_s)
            self._spend("reconfigure", (yield Reconfigure(plan.members, verdict.dropped)))
            if verdict.patch:
                yield from self._patch(verdict)
            elif self.rules.fixed_step == "commits":
                return True
            outcome = yield AllReduce(plan.members)
            if not outcome.missing:
                seconds["all_reduce"] += outcome.now_s - progress.now_s
                progress.now_s = outcome.now_s
                return True

    def _patch(self, verdict: Continue) -> Generator[Phase, Outcome, None]:
        plan = self.strategy.plan()
        self.progress.reorderings += 1
        self.progress.moved_types += verdict.moved_types
        self.progress.stack_computations += max(verdict.patch.values()) * plan.stack_size
        if self._record:
            self._log(
                EventKind.REORDERED,
                groups=tuple(sorted(verdict.patch)),
                stacks=plan.stacks,
                moved_types=verdict.moved_types,
            )
        outcome = yield Compute(plan.members, 0, plan.stack_size, verdict.patch)
        self._spend("patch_compute", outcome)

    def _save(self) -> Generator[Phase, Outcome, bool]:
        """Write a checkpoint; False if no writer got through."""
        progress = self.progress
        members = self.strategy.plan().members
        last = progress.completed_steps == self.work.steps
        waits = self.strategy.checkpoint_waits or last
        saved = False
        for writer in members:
            outcome = yield Save(members, writer, waits)
            self._spend("checkpoint", outcome)
            if not outcome.missing:
                saved = True
                progress.checkpoints += 1
                self._saved_steps, self._saved_s = progress.completed_steps, progress.now_s
                progress.ledger.keep()
                self._restarts_since_save = 0
                if self._record:
                    self._log(EventKind.CHECKPOINT, groups=(writer,))
                break
            if self._record:
                self._log(EventKind.CHECKPOINT_SKIPPED, groups=(writer,))
            if self.rules.failed_writer == "skips" and not last:
                break
        if self._on_checkpoint:
            self._on_checkpoint(progress.completed_steps, progress.now_s)
        return saved

    def _readmit(self) -> Generator[Phase, Outcome, None]:
        """Take back those groups for which there is hardware again."""
        members = set(self.strategy.plan().members)
        down = [group for group in range(self.work.groups) if group not in members]
        returning = self._shop.collect(down, self.progress.now_s)
        if not returning:
            return
        self._spend("load", (yield Rejoin(returning)))
        self._saved_s = self.progress.now_s
        self.strategy.on_return(returning)
        self.progress.rejoined += len(returning)
        if self._record:
            stacks = self.strategy.plan().stacks
            self._log(EventKind.REJOINED, groups=returning, stacks=stacks)

    def _restart(self) -> Generator[Phase, Outcome, None]:
        progress = self.progress
        progress.restarts += 1
        self._restarts_since_save += 1
        if self._record:
            self._log(EventKind.WIPE_OUT)
        progress.ledger.take_back()
        outcome = yield Restart(self.work.groups)
        self._spend("restart", outcome)
        if self._record:
            for time_s, group in outcome.failures:
                self._log(EventKind.FAILURE_IN_RESTART, time_s=time_s, groups=(group,))
            self._log(EventKind.RESTARTED)
        self.strategy.restart()
        self._shop.restart()
        redone = self.rules.resume == "redo" and self._saved_steps > 0
        progress.completed_steps = self._saved_steps - 1 if redone else self._saved_steps
        self._spend("load", (yield Load(self.work.groups)))
        self._saved_s = progress.now_s
        if self._record:
            self._log(EventKind.LOADED)

    def _spend(self, cause: str, outcome: Outcome) -> None:
        self.progress.seconds[cause] += outcome.now_s - self.progress.now_s
        self.progress.now_s = outcome.now_s

    def _log(
        self,
        kind: EventKind,
        *,
        time_s: float | None = None,
        groups: tuple[int, ...] = (),
        stacks: int = 0,
        moved_types: int = 0,
    ) -> None:
        assert self._record is not None
        now_s = self.progress.now_s if time_s is None else time_s
        self._record(Event(now_s, kind, self.progress.completed_steps, groups, stacks, moved_types))


class _Play:
    """The phases of a step, and what they mean for the books; made once a plan."""

    __slots__ = ("all_reduce", "compute", "down", "nominal_s", "redundancy_s", "types")

    def __init__(self, plan: StepPlan, work: Work) -> None:
        self.compute = Compute(plan.members, plan.stacks, plan.stack_size)
        self.all_reduce = AllReduce(plan.members)
        self.types = plan.stacks * plan.stack_size
        self.nominal_s = self.types * work.compute_s
        self.redundancy_s = self.nominal_s - work.compute_s
        self.down = work.groups - len(plan.members)
