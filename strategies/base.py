"""What every fault-tolerance scheme answers, and nothing of clocks or networks.

A scheme is one module in this package with one `Strategy` subclass; the registry finds it by its
`name`. Its life in a job::

    restart()                 all groups are up, the state is as at the start
      plan()                  what the next step computes, and which groups take part
      on_failures(groups)     an all-reduce found these members missing: go on, or restart?
      on_return(groups)       groups that were dropped are back, at a checkpoint

A scheme that works around broken components, so that a group goes on with less, also hears of each
of them: ``on_hit`` before ``on_failures``, and ``on_repair`` when it works again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeVar

from faultline.strategies.checkpoint_period import Costs, best_period_s
from faultline.strategies.closed_forms.wipe_out import Predictable
from faultline.strategies.errors import StrategyError
from faultline.strategies.job_shape import JobShape
from faultline.strategies.recovery import (
    RESTART,
    RESTART_AS_IS,
    SHRINK,
    Mirror,
    Recovery,
    RecoveryKind,
)
from faultline.strategies.step_shares import Pipeline
from pydantic import BaseModel, ConfigDict, PrivateAttr


class Task(NamedTuple):
    """A stage of a group, and the node of the group that does it, all by number."""

    group: int
    stage: int
    node: int


class StepPlan(NamedTuple):
    """What the next steps look like, until a failure changes it.

    Attributes
    ----------
    members : tuple of int
        Groups in the communicator, in ascending order.
    stacks : int
        Stacks that each member computes before the all-reduce.
    stack_size : int
        Shard types in a stack that are computed in one go, as one larger batch.
    pace : float
        Compute time of the slowest member over that of a sound one; the others wait for it.
    batch_share : float
        Share of a full batch that the members train in a step.
    power : float
        Mean power of all the job's GPUs while they compute, over their rating.
    approximate : tuple of Task
        Stages whose gradients are approximate, with the nodes that compute them.
    stages : int
        Stages of a group.
    idle : tuple of int
        Members that train nothing of the batch, in ascending order.
    pipelines : tuple of Pipeline
        What each of some members does that differs from an undisturbed step, by group in ascending
        order. Where steps are played on the platform, it says how long that takes, instead of
        `pace`.
    mirrors : tuple of Mirror
        State that members send to each other between steps.
    """

    members: tuple[int, ...]
    stacks: int
    stack_size: int = 1
    pace: float = 1.0
    batch_share: float = 1.0
    power: float = 1.0
    approximate: tuple[Task, ...] = ()
    stages: int = 1
    idle: tuple[int, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    mirrors: tuple[Mirror, ...] = ()

    @property
    def all_but_members(self) -> tuple[object, ...]:
        """Everything that the plan says but its members."""
        return self[1:]

    @property
    def approximate_share(self) -> float:
        """Share of the gradients of stages that are approximate."""
        if not self.approximate:
            return 0.0
        return len(self.approximate) / (self.stages * (len(self.members) - len(self.idle)))


class Hit(NamedTuple):
    """What a failure has broken of one group.

    Attributes
    ----------
    group : int
        The group.
    first_gpu, last_gpu : int
        The GPUs that are broken, by their numbers in the group, from 0.
    gpus_per_group : int
        GPUs of the whole group.
    """

    group: int
    first_gpu: int
    last_gpu: int
    gpus_per_group: int


def remaining_members(members: tuple[int, ...], dropped: Sequence[int]) -> tuple[int, ...]:
    """Return the members, in ascending order, that are left when some are dropped."""
    for group in dropped:
        place = bisect_left(members, group)
        members = members[:place] + members[place + 1 :]
    return members


_NO_PATCH: Mapping[int, int] = MappingProxyType({})


class Continue(NamedTuple):
    """The step can be saved without a restart.

    Attributes
    ----------
    dropped : tuple of int
        Members that leave the communicator.
    patch : mapping of int to int
        Stacks that each group has to compute before the all-reduce is repeated; empty where nothing
        of the step was lost.
    moved_types : int
        Shard types that changed their place.
    carried_on : tuple of int
        Members that were missing and stay: what is left of them works on.
    recovery : Recovery or None
        What the job needs before it goes on; None where nothing was interrupted.
    """

    dropped: tuple[int, ...]
    patch: Mapping[int, int] = _NO_PATCH
    moved_types: int = 0
    carried_on: tuple[int, ...] = ()
    recovery: Recovery | None = SHRINK


@dataclass(frozen=True, slots=True)
class WipeOut:
    """Work of the step is lost for good: the job must restart from the last checkpoint."""

    missing: tuple[int, ...]


Verdict = Continue | WipeOut


_Chosen = TypeVar("_Chosen", bound="StrategyOptions")


class StrategyOptions(BaseModel):
    """Named choices of a scheme; a scheme adds its own by a subclass.

    They come with a view of the job: what is a fact of that is no choice.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, strict=True, defer_build=True
    )
    _job: JobShape = PrivateAttr(default_factory=JobShape)

    @property
    def job(self) -> JobShape:
        """How the job is cut, and what fits into a GPU."""
        return self._job

    def for_job(self: _Chosen, job: JobShape) -> _Chosen:
        """Return the same choices for another job."""
        chosen = self.model_copy()
        chosen._job = job
        return chosen


class Strategy(ABC):
    """A fault-tolerance scheme for `groups` data-parallel groups.

    Parameters
    ----------
    groups : int
        Number of data-parallel groups N.
    redundancy : int
        Redundancy r: copies of each shard type (SPARe) or groups a replica set (replication).
    options : StrategyOptions
        An instance of the class's own `Options`.

    Attributes
    ----------
    shape : JobShape
        How the job is cut, and what fits into a GPU, as the options know it.

    Raises
    ------
    StrategyError
        If the scheme cannot be built for these numbers.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    title: ClassVar[str] = ""
    """Its name as published, such as "SPARe"; by default `name`. What says how a scheme looks
    (`title`, `legend`, `colour`, `marker`) is not inherited: two schemes would look like one."""
    legend: ClassVar[str] = ""
    """What a job with it is called where that says more than the title."""
    colour: ClassVar[str | None] = None
    """Its colour in every figure, as ``#RRGGBB``; without one, its name alone decides."""
    marker: ClassVar[str | None] = None
    """Its marker in every figure, as matplotlib names it; without one, its name alone decides."""
    approximate: ClassVar[bool] = False
    """Whether its gradients differ from those of a run without failures."""
    protections: ClassVar[tuple[str, ...]] = ("reft",)
    """Names of the protections of the state that suit it: those that it was published with, and
    what is best today."""
    Options: ClassVar[type[StrategyOptions]] = StrategyOptions
    tracks_components: ClassVar[bool] = False
    """Whether the loop reports broken and repaired components to it (`on_hit`, `on_repair`)."""
    needs_layout: ClassVar[bool] = False
    """Whether it depends on how a group is cut into stages or domains (`JobShape`), which not every
    scenario states. Without that, a plan includes the scheme only if the user names it."""
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("shrink",)
    """The kinds of recovery that it can need, besides restarts."""
    restart_replaces: ClassVar[bool] = True
    """Whether a restart finds new hardware for what is broken."""
    repairs_wait_for_restart: ClassVar[bool] = False
    """Whether what is repaired comes back with the next restart only."""

    def __init__(self, groups: int, redundancy: int, options: StrategyOptions) -> None:
        self.groups = groups
        self.redundancy = redundancy
        self.shape = options.job
        self.states_refused = 0
        """How often a way to go on was left out as it does not fit into the memory of GPUs."""
        if not self.accepts(groups, redundancy, options):
            raise self._no_such_redundancy(options)

    @abstractmethod
    def restart(self) -> None:
        """All groups are back and up; forget every failure."""

    @abstractmethod
    def plan(self) -> StepPlan:
        """Return what the next step computes; the same object until something changes.

        Without members right after a restart, there is nothing left to work with, and the restart
        lasts until something is repaired.
        """

    @abstractmethod
    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Decide what becomes of a step whose all-reduce found `missing` members (ascending).

        Members that a scheme does not drop stay in the communicator and are missing again in the
        next all-reduce.
        """

    def on_return(self, returning: Sequence[int]) -> None:
        """Take dropped groups back at a checkpoint: they are up and have the state.

        By default as if all groups had come back, and those that are still down had failed again.
        """
        back = set(returning).union(self.plan().members)
        down = [group for group in range(self.groups) if group not in back]
        self.restart()
        while missing := [group for group in self.plan().members if group in down]:
            self.on_failures(missing)

    def migration(self) -> Recovery | None:
        """Return what members lack that do another part of the job than before; None for nothing.

        The loop calls this once after each restart, and uses it where the state was found in
        memory: what is loaded from storage is loaded to where it is needed.
        """
        return None

    def on_hit(self, hit: Hit) -> None:
        """Note what is broken of a group: right before `on_failures`, or right after `restart`.

        The loop calls this where `tracks_components` is true; such a scheme overrides it.
        """
        raise NotImplementedError(f"{self.name} tracks components, but has no on_hit()")

    def on_repair(self, hit: Hit) -> Recovery | None:
        """Take back what a hit had broken; returns what that needs, None where it is nothing."""
        return None

    @classmethod
    def restart_recovery(cls) -> Recovery:
        """Return what a restart of the whole job needs."""
        return RESTART if cls.restart_replaces else RESTART_AS_IS

    @property
    def checkpoint_waits(self) -> bool:
        """Whether all groups wait while one writes the checkpoint."""
        return True

    @property
    def compares(self) -> bool:
        """Whether groups that compute the same data show at once what one of them has corrupted."""
        return False

    @property
    def stages_held(self) -> float:
        """Most stages of a pipeline whose state a GPU has had to hold so far: by default its own.

        Not a whole number where layers are dealt out anew.
        """
        return 1.0

    @property
    def activations_held(self) -> float:
        """Most activations that a GPU has had to keep so far, over those of a sound step."""
        return 1.0

    def forces_restart(self) -> tuple[float, ...]:
        """Return the probability that the next failure forces a restart, by groups that are down.

        The last value stands for all larger numbers. From the closed form of the scheme's course
        where it has one (`closed_forms.prediction`), else 1 / mean failures masked, always.
        """
        if isinstance(self, Predictable):
            return self.failure_course().law.forces_restart()
        return (1.0 / max(1.0, self.masked_failures()),)

    def _no_such_redundancy(self, options: StrategyOptions) -> StrategyError:
        known, given = list(self.redundancies(self.groups, options)), self.redundancy
        if known == [1]:
            what = f"{self.name} has no redundancy to choose, it was given {given}"
            return StrategyError("strategy.redundancy", what, "leave it unset or use 1")
        what = f"redundancy {given} is none of {self.name} with {self.groups} groups"
        remedy = f"use one of {', '.join(map(str, known))}"
        return StrategyError("strategy.redundancy", what, remedy)

    @abstractmethod
    def masked_failures(self) -> float:
        """Mean number of failures up to and with the one that forces a restart (closed form)."""

    @abstractmethod
    def work_per_step(self) -> float:
        """Mean number of shard types that a group computes a step (closed form)."""

    def normalised_time_to_train(self, costs: Costs) -> float:
        """Return J(r), relative to a step without redundancy, failures and checkpoints.

        J(r) = work per step / availability at the best checkpoint period (Lee et al. 2026 (SPARe)).
        """
        time_to_failure_s = self.masked_failures() * costs.mtbf_s
        period_s = best_period_s(costs.save_s, time_to_failure_s, costs.restart_s)
        availability = costs.availability(period_s, time_to_failure_s)
        ideal_s = costs.compute_s + costs.all_reduce_s
        return self.step_s(costs) / ideal_s / max(availability, 1e-9)

    def best_interval_steps(self, costs: Costs) -> int:
        """Return the checkpoint interval in steps nearest to the best period; at least 1."""
        time_to_failure_s = self.masked_failures() * costs.mtbf_s
        period_s = best_period_s(costs.save_s, time_to_failure_s, costs.restart_s)
        # Steps that take no time at all have no best interval: any that is long enough will do.
        return max(1, round(min(period_s / self.step_s(costs), 1e18)))

    def step_s(self, costs: Costs) -> float:
        """Return the mean time of a step in seconds, by the closed form of its work."""
        return self.sound_work_per_step() * costs.compute_s + costs.all_reduce_s

    def sound_work_per_step(self) -> float:
        """Return `work_per_step`.

        Raises
        ------
        StrategyError
            If it is no finite number above 0.
        """
        work = self.work_per_step()
        if not 0.0 < work < inf:
            place = f"scheme {self.name!r}"
            raise StrategyError(place, f"work_per_step() is {work}", "return a number above 0")
        return work

    @classmethod
    def redundancies(cls, groups: int, options: StrategyOptions) -> Sequence[int]:
        """Redundancies that are worth considering for `groups` groups."""
        return (1,)

    @classmethod
    def accepts(cls, groups: int, redundancy: int, options: StrategyOptions) -> bool:
        """Return whether it can be built so: by default with what is worth considering."""
        return redundancy in cls.redundancies(groups, options)
