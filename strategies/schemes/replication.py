"""Replication of degree r: sets of r groups compute the same data (Ferreira et al. 2011).

A step is lost only when a whole set is down; the job then restarts from the last checkpoint. The
price is that each group computes the r shard types of its set, as one batch r times as large.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import (
    Continue,
    StepPlan,
    Strategy,
    StrategyOptions,
    Verdict,
    WipeOut,
    remaining_members,
)
from faultline.strategies.theory.wipe_out import DisjointSets, FailureCourse, plain_mean_failures
from pydantic import Field


class ReplicationOptions(StrategyOptions):
    """Named choices of replication."""

    controller_sees: Literal["lowest", "all"] = Field(
        "all",
        description="Which failures of a step the controller handles.",
        json_schema_extra={
            "source": "choice: the correct one; the published simulator of SPARe takes lowest",
            "choices": {
                "all": "all of them at once",
                "lowest": "that of the lowest-numbered group; each later step handles another",
            },
        },
    )
    checkpoint_waits: bool = Field(
        True,
        description="Whether all groups wait while one writes the checkpoint.",
        json_schema_extra={
            "source": "choice: the correct one; in the published simulator of SPARe only the "
            "writer waits",
        },
    )


class Replication(Strategy):
    """Sets of r consecutive groups; the last set is smaller if r does not divide N."""

    name: ClassVar[str] = "replication"
    summary: ClassVar[str] = "Replication: sets of r groups compute the same data"
    protections: ClassVar[tuple[str, ...]] = ("storage", "reft")
    Options: ClassVar[type[StrategyOptions]] = ReplicationOptions

    def __init__(
        self, groups: int, redundancy: int, options: ReplicationOptions, shape: JobShape
    ) -> None:
        super().__init__(groups, redundancy, options, shape)
        self._sees_all = options.controller_sees == "all"
        self._checkpoint_waits = options.checkpoint_waits
        self._whole = StepPlan(tuple(range(groups)), 1, redundancy)
        self.restart()

    def restart(self) -> None:
        super().restart()
        groups, redundancy = self.groups, self.redundancy
        self._up_in_set = [
            min(redundancy, groups - first) for first in range(0, groups, redundancy)
        ]

    @property
    def compares(self) -> bool:
        return self.redundancy > 1

    @property
    def checkpoint_waits(self) -> bool:
        return self._checkpoint_waits

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        seen = tuple(missing) if self._sees_all else (missing[0],)
        for group in seen:
            self._up_in_set[group // self.redundancy] -= 1
        if 0 in self._up_in_set:
            return WipeOut(seen)
        self._plan = StepPlan(remaining_members(self.plan().members, seen), 1, self.redundancy)
        return Continue(seen)

    def failure_course(self) -> FailureCourse:
        """Return the closed forms of a life: a batch of r types per step, and no patch compute."""
        law = DisjointSets(self.groups, self.redundancy)
        return FailureCourse(law, np.ones(self.groups), np.zeros(self.groups), self.redundancy)

    def masked_failures(self) -> float:
        """Return ``Gamma(1/r)/r * N^(1 - 1/r)``, the form Lee et al. (2026) use for replication.

        It assumes N sets of r groups instead of N/r. So it is too small by a factor of about
        r^(1/r): 1.41 at r = 2, 1.23 at r = 12. `DisjointSets.mean_failures` is exact. The study
        derives its checkpoint intervals from the form here.
        """
        return plain_mean_failures(self.groups, self.redundancy)

    def work_per_step(self) -> float:
        """Every group computes the r shard types of its set."""
        return float(self.redundancy)

    @classmethod
    def redundancies(cls, groups: int, options: StrategyOptions) -> Sequence[int]:
        """Degrees 2 to 12, up to the number of groups."""
        return range(min(2, groups), min(12, groups) + 1)

    @classmethod
    def accepts(cls, groups: int, redundancy: int, options: StrategyOptions) -> bool:
        """Return true for all degrees that fit; 1 is no replication."""
        if not 1 <= redundancy <= groups:
            raise StrategyError(
                "strategy.redundancy",
                f"replication degree {redundancy} does not fit {groups} groups",
                f"use a degree from 1 to {groups}",
            )
        return True
