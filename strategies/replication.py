"""Replication of degree r: sets of r groups compute the same data (Ferreira et al. 2011).

A step is lost only when a whole set is down; the job then restarts from the last checkpoint. The
price is that each group computes the r shard types of its set, as one batch r times as large.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gamma
from typing import ClassVar, Literal

from pydantic import Field

from strategies.base import (
    Continue,
    StepPlan,
    Strategy,
    StrategyOptions,
    Verdict,
    WipeOut,
    without,
)
from strategies.errors import StrategyError


class ReplicationOptions(StrategyOptions):
    """Named choices of replication."""

    controller_sees: Literal["lowest", "all"] = Field(
        "all",
        description="'lowest': the controller handles the lowest-numbered failure of a step only "
        "and finds the others one step later each, as in the published simulator; 'all': it "
        "handles every failure of the step at once.",
    )
    checkpoint_waits: bool = Field(
        True,
        description="Whether all groups wait while one writes the checkpoint. In the published "
        "simulator only the writer is held up.",
    )


class Replication(Strategy):
    """Sets of r consecutive groups; the last set is smaller where r does not divide N."""

    name: ClassVar[str] = "replication"
    summary: ClassVar[str] = "Replication: sets of r groups compute the same data"
    Options: ClassVar[type[StrategyOptions]] = ReplicationOptions

    def __init__(self, groups: int, redundancy: int, options: ReplicationOptions) -> None:
        super().__init__(groups, redundancy, options)
        if not 1 <= redundancy <= groups:
            raise StrategyError(
                "strategy.redundancy",
                f"replication degree {redundancy} does not fit {groups} groups",
                f"use a degree from 1 to {groups}",
            )
        self._sees_all = options.controller_sees == "all"
        self._checkpoint_waits = options.checkpoint_waits
        self.restart()

    def restart(self) -> None:
        groups, redundancy = self.groups, self.redundancy
        self._up_in_set = [
            min(redundancy, groups - first) for first in range(0, groups, redundancy)
        ]
        self._plan = StepPlan(tuple(range(groups)), 1, redundancy)

    def plan(self) -> StepPlan:
        return self._plan

    @property
    def checkpoint_waits(self) -> bool:
        return self._checkpoint_waits

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        seen = tuple(missing) if self._sees_all else (missing[0],)
        lost_a_set = False
        for group in seen:
            self._up_in_set[group // self.redundancy] -= 1
            lost_a_set |= self._up_in_set[group // self.redundancy] == 0
        if lost_a_set:
            return WipeOut(seen)
        self._plan = StepPlan(without(self._plan.members, seen), 1, self.redundancy)
        return Continue(seen)

    @classmethod
    def masked_failures(cls, groups: int, redundancy: int) -> float:
        """Return ``Gamma(1/r)/r * N^(1 - 1/r)``, the form Lee et al. (2026) use for replication.

        The N/r sets of r groups give the integral of exp(-(N/r) (k/N)^r), that is this form times
        r^(1/r); the paper's plain form is kept here because its checkpoint intervals follow it.
        """
        return float(gamma(1.0 / redundancy) / redundancy * groups ** (1.0 - 1.0 / redundancy))

    @classmethod
    def work_per_step(cls, groups: int, redundancy: int) -> float:
        """Every group computes the r shard types of its set."""
        return float(redundancy)

    @classmethod
    def redundancies(cls, groups: int) -> Sequence[int]:
        """Degrees 2 to 12, as far as they fit."""
        return range(min(2, groups), min(12, groups) + 1)
