"""Replica drop: a failed replica leaves the job, and catches up when it returns.

torchft (Meta, PyTorch blog of 20 June 2025) and FT-HSDP (arXiv 2602.00277). Gradients are averaged
over the present replicas, so that a step with fewer replicas trains less than a full batch. An
error discards the step for all replicas; the next step runs without the lost one. A returning
replica fetches its state from another while the others keep training (if a protection keeps the
last step, such as just-in-time).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from faultline.strategies.interface.recovery import RecoveryKind
from faultline.strategies.interface.scheme import (
    Continue,
    StepPlan,
    Strategy,
    StrategyOptions,
    Verdict,
    WipeOut,
    remaining_members,
)
from pydantic import Field


class ReplicaDropOptions(StrategyOptions):
    """Named choices of replica drop."""

    least_replicas: int = Field(
        1,
        ge=1,
        le=100_000,
        description="Fewest replicas with which the job continues.",
        json_schema_extra={"source": "torchft: min_replicas, 1 suffices", "unit": "1"},
    )
    broken_step: Literal["discarded", "kept"] = Field(
        "discarded",
        description="Whether a step is repeated if a replica is lost in it.",
        json_schema_extra={
            "source": "torchft: an error discards the step for all",
            "choices": {
                "discarded": "the others repeat it without the replica",
                "kept": "the others reduce the gradients that they have computed",
            },
        },
    )


class ReplicaDrop(Strategy):
    """Data parallelism that continues without the replicas that are down."""

    name: ClassVar[str] = "replica-drop"
    summary: ClassVar[str] = "Replica drop: lost replicas leave, the step is redone, they catch up"
    protections: ClassVar[tuple[str, ...]] = ("just-in-time",)
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("shrink",)
    readmits: ClassVar[bool] = True
    Options: ClassVar[type[StrategyOptions]] = ReplicaDropOptions
    options: ReplicaDropOptions

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        members = remaining_members(self.plan().members, missing)
        if len(members) < self.options.least_replicas:
            return WipeOut(tuple(missing))
        self._set_members(members)
        patch = dict.fromkeys(members, 1) if self.options.broken_step == "discarded" else {}
        return Continue(tuple(missing), patch)

    def on_return(self, returning: Sequence[int]) -> None:
        self._set_members(tuple(sorted((*self.plan().members, *returning))))

    def _set_members(self, members: tuple[int, ...]) -> None:
        self._plan = StepPlan(members, 1, batch_share=len(members) / self.groups)

    def masked_failures(self) -> float:
        """Return the failures until too few replicas are left, without returns."""
        return float(self.groups - self.options.least_replicas + 1)

    def work_per_step(self) -> float:
        """Return 1: each replica computes its one share of the batch."""
        return 1.0
