"""The interface of a fault-tolerance scheme, without clocks and networks.

A scheme is one module in this package with one `Strategy` subclass. The registry finds it by its
`name`. The training loop calls it in this order::

    restart()                 all groups are up, with the state of the start
      plan()                  the work of the next step, and the groups that take part
      on_failures(groups)     these members were missing in an all-reduce: continue or restart?
      on_return(groups)       these dropped groups have returned, at a checkpoint

A scheme that continues with the working parts of a damaged group also receives each broken
component: ``on_hit`` before ``on_failures``, and ``on_repair`` after the repair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf
from typing import ClassVar, Literal

from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.job_shape import JobShape, shards_weights
from faultline.strategies.interface.plan import StepPlan, Task, remaining_members
from faultline.strategies.interface.recovery import RESTART, RESTART_AS_IS, Recovery, RecoveryKind
from faultline.strategies.interface.verdict import Continue, Hit, Verdict, WipeOut
from faultline.strategies.theory.checkpoint_period import Costs, best_period_s
from faultline.strategies.theory.wipe_out import Predictable
from pydantic import BaseModel, ConfigDict

__all__ = (
    "Continue",
    "Hit",
    "Need",
    "StepPlan",
    "Strategy",
    "StrategyOptions",
    "Task",
    "Verdict",
    "WipeOut",
    "remaining_members",
)
"""All that the author of a scheme imports."""


Need = Literal["layout", "standbys"]
"""What a plan has to know of a job before it includes a scheme."""


class StrategyOptions(BaseModel):
    """Named choices of a scheme's algorithm, which defines its own in a subclass."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, strict=True, defer_build=True
    )
    table: ClassVar[str] = ""
    """The scheme whose table in a scenario has the choices; empty: the scheme's own table."""


class Strategy(ABC):
    """A fault-tolerance scheme for `groups` data-parallel groups.

    Parameters
    ----------
    groups : int
        Number of data-parallel groups N.
    redundancy : int
        Redundancy r: copies of each shard type (SPARe) or groups per replica set (replication).
    options : StrategyOptions
        An instance of the class's own `Options`.
    shape : JobShape
        The layout of the job and the memory limits of its GPUs.

    Raises
    ------
    StrategyError
        If the scheme cannot be built for these numbers.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    approximate: ClassVar[bool] = False
    """Whether its gradients differ from those of a run without failures."""
    protections: ClassVar[tuple[str, ...]] = ("reft",)
    """Names of suitable protections of the state: the published ones and the best known one."""
    Options: ClassVar[type[StrategyOptions]] = StrategyOptions
    needs: ClassVar[tuple[Need, ...]] = ()
    """Facts of the job without which a plan leaves the scheme out, unless the user names it: a
    layout of stages or domains (`JobShape`), standby machines."""
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("shrink",)
    """Kinds of recovery that it can need, other than restarts."""
    restart_replaces: ClassVar[bool] = True
    """Whether a restart replaces broken hardware."""
    keeps_groups_whole: ClassVar[bool] = True
    """Whether a group computes with all its GPUs or not at all. Otherwise nodes take over stages or
    tensor ranks of others, whose weights they must hold: not if weights are sharded over groups."""
    readmits: ClassVar[bool] = False
    """Whether dropped groups return before a restart, unless ``rejoin.when`` states otherwise."""

    tracks_components: ClassVar[bool] = False
    """Derived: whether it overrides `on_hit`, and so continues with damaged groups."""
    repairs_wait_for_restart: ClassVar[bool] = False
    """Derived: whether repaired hardware returns at the next restart only. A restart leaves it
    broken, and no `on_repair` takes it back."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.tracks_components = cls.on_hit is not Strategy.on_hit
        takes_back = cls.restart_replaces or cls.on_repair is not Strategy.on_repair
        cls.repairs_wait_for_restart = not takes_back

    def __init__(
        self, groups: int, redundancy: int, options: StrategyOptions, shape: JobShape
    ) -> None:
        self.groups = groups
        self.redundancy = redundancy
        self.options = options
        self.shape = shape
        self._whole = StepPlan(tuple(range(groups)), 1)
        self._plan: StepPlan | None = self._whole
        self.states_refused = 0
        """Number of alternatives rejected because they do not fit into the memory of GPUs."""
        if not self.accepts(groups, redundancy, options):
            raise self._no_such_redundancy(options)
        unfit = self.unfit_for(shape)
        if unfit is not None:
            raise unfit

    @classmethod
    def unfit_for(cls, shape: JobShape) -> StrategyError | None:
        """Return why the scheme cannot run a job that shards its weights; None if it can."""
        where = f'model.sharding = "{shape.sharding}"'
        if not shards_weights(shape.sharding):
            return None
        if not cls.keeps_groups_whole:
            return StrategyError(
                where,
                "this scheme has nodes take over lost parts, of whose weights they hold shards",
                'set "optimizer" or "none", or use a scheme that keeps or drops whole groups',
            )
        if cls.recoveries and shape.optimizer_backup == "none" and shape.domain_groups is None:
            return StrategyError(
                where,
                "this scheme goes on after a loss that takes a shard of the weights with it",
                'set model.optimizer_backup = "neighbour", or use the scheme checkpoint',
            )
        return None

    def restart(self) -> None:
        """Reset all failures: all groups are up again, and compute one stack each."""
        self._plan = self._whole

    def plan(self) -> StepPlan:
        """Return the work of the next step; the same object until something changes.

        A plan without members right after a restart means that no hardware is left. The restart
        then lasts until the next repair.

        A scheme sets `_plan` when something changes, or sets it to None and returns the plan from
        `_step_plan` when the loop asks for it.
        """
        if self._plan is None:
            self._plan = self._step_plan()
        return self._plan

    def _step_plan(self) -> StepPlan:
        """Return the plan for the current losses."""
        return self._whole

    @abstractmethod
    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Decide how to go on after an all-reduce in which members were `missing` (ascending).

        Members that are not dropped stay in the communicator and are missing again in the next
        all-reduce.
        """

    def on_return(self, returning: Sequence[int]) -> None:
        """Add returning groups at a checkpoint: they are up and have the state.

        By default, all groups return, and those that are still down fail again.
        """
        up = set(returning).union(self.plan().members)
        self.restart()
        while missing := [group for group in self.plan().members if group not in up]:
            self.on_failures(missing)

    def migration(self) -> Recovery | None:
        """Return the transfers to members whose part of the job has changed, or None.

        The loop calls this once after each restart. It uses the transfers if the state is in
        memory; from storage each member loads the part that it needs.
        """
        return None

    def on_hit(self, hit: Hit) -> None:
        """Record broken GPUs of a group, right before `on_failures` or right after `restart`.

        The loop calls this if a scheme overrides it.
        """
        raise NotImplementedError(f"{self.name} has no on_hit()")

    def on_repair(self, hit: Hit) -> Recovery | None:
        """Add the repaired GPUs of a hit; return the recovery that this needs, or None."""
        return None

    @classmethod
    def restart_recovery(cls) -> Recovery:
        """Return the recovery of a restart of the whole job."""
        return RESTART if cls.restart_replaces else RESTART_AS_IS

    @property
    def checkpoint_waits(self) -> bool:
        """Whether all groups wait while one group writes the checkpoint."""
        return True

    @property
    def compares(self) -> bool:
        """Whether groups that compute the same data detect silent corruption at once."""
        return False

    def forces_restart(self) -> tuple[float, ...]:
        """Return the probability that the next failure forces a restart, by groups that are down.

        The last value holds for all larger numbers. It comes from the closed form of the scheme's
        course (`theory.prediction`) if there is one, else it is 1 / mean failures masked.
        """
        if isinstance(self, Predictable):
            return self.failure_course().law.forces_restart()
        return (1.0 / max(1.0, self.masked_failures()),)

    def _no_such_redundancy(self, options: StrategyOptions) -> StrategyError:
        candidates = list(self.redundancies(self.groups, options))
        if candidates == [1]:
            what = f"{self.name} has no redundancy to choose (got {self.redundancy})"
            return StrategyError("strategy.redundancy", what, "leave it unset or use 1")
        what = f"{self.name} cannot have redundancy {self.redundancy} with {self.groups} groups"
        remedy = f"use one of {', '.join(map(str, candidates))}"
        return StrategyError("strategy.redundancy", what, remedy)

    @abstractmethod
    def masked_failures(self) -> float:
        """Mean number of failures up to the one that forces a restart, inclusive (closed form)."""

    @abstractmethod
    def work_per_step(self) -> float:
        """Mean number of shard types that a group computes per step (closed form)."""

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
        """Return the checkpoint interval nearest to the best period, in steps; at least 1."""
        time_to_failure_s = self.masked_failures() * costs.mtbf_s
        period_s = best_period_s(costs.save_s, time_to_failure_s, costs.restart_s)
        # Steps of zero length have no best interval: all long intervals are equally good.
        return max(1, round(min(period_s / self.step_s(costs), 1e18)))

    def step_s(self, costs: Costs) -> float:
        """Return the mean time of a step in seconds, by the closed form of its work."""
        return self.checked_work_per_step() * costs.compute_s + costs.all_reduce_s

    def checked_work_per_step(self) -> float:
        """Return `work_per_step` after a check.

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
        """Return the redundancies to choose from with `groups` groups."""
        return (1,)

    @classmethod
    def accepts(cls, groups: int, redundancy: int, options: StrategyOptions) -> bool:
        """Return whether it can be built with a redundancy; by default, any of `redundancies`."""
        return redundancy in cls.redundancies(groups, options)
