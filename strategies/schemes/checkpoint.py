"""Checkpoint and restart only: every failure sends the job back to its last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from faultline.strategies.interface.recovery import RecoveryKind
from faultline.strategies.interface.scheme import Strategy, Verdict, WipeOut
from faultline.strategies.theory.wipe_out import DisjointSets, FailureCourse


class Checkpoint(Strategy):
    """Plain data parallelism with periodic checkpoints."""

    name: ClassVar[str] = "checkpoint"
    summary: ClassVar[str] = "Checkpoint and restart only: no redundancy"
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ()
    protections: ClassVar[tuple[str, ...]] = ("storage", "reft", "just-in-time")

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        return WipeOut(tuple(missing))

    def failure_course(self) -> FailureCourse:
        """Return the closed forms of a life: sets of one group, so that each failure is fatal."""
        return FailureCourse(
            DisjointSets(self.groups, 1), np.ones(self.groups), np.zeros(self.groups)
        )

    def masked_failures(self) -> float:
        """Return 1: the first failure forces a restart."""
        return 1.0

    def work_per_step(self) -> float:
        """Return 1: each group computes its one shard type."""
        return 1.0
