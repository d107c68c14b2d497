"""SPARe: stacked parallelism with adaptive reordering (Lee et al. 2026, arXiv 2603.00357).

Every group hosts r shard types in a stack and computes the first S of them, S = 1 at first. When
groups fail, the survivors' stacks are reordered so that every type is still computed by somebody;
S grows only where it must. The job restarts when a type has lost all its hosts (`stacks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, gamma, log2
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
from strategies.checkpoint_period import Costs
from strategies.golomb import largest_redundancy
from strategies.stacks import StackedShards


class SpareOptions(StrategyOptions):
    """Named choices of SPARe."""

    patch_compute: Literal["one-stack", "as-needed"] = Field(
        "as-needed",
        description="What a reordering makes survivors compute: 'one-stack' is one more type for "
        "each group whose order changed, or for every group when S grew, as in the published "
        "simulator; 'as-needed' is as many types as were placed among the group's first S.",
    )


class Spare(Strategy):
    """SPARe with redundancy r."""

    name: ClassVar[str] = "spare"
    summary: ClassVar[str] = "SPARe: r stacked shard types a group, reordered around failures"
    Options: ClassVar[type[StrategyOptions]] = SpareOptions

    def __init__(self, groups: int, redundancy: int, options: SpareOptions) -> None:
        super().__init__(groups, redundancy, options)
        self._one_stack = options.patch_compute == "one-stack"
        self._shards = StackedShards(groups, redundancy)
        self._plan = StepPlan(tuple(range(groups)), 1)

    @property
    def shards(self) -> StackedShards:
        """The stacks as they stand."""
        return self._shards

    def restart(self) -> None:
        self._shards.reset()
        self._plan = StepPlan(tuple(range(self.groups)), 1)

    def plan(self) -> StepPlan:
        return self._plan

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        reordering = self._shards.fail(missing)
        if reordering is None:
            return WipeOut(tuple(missing))
        members = without(self._plan.members, missing)
        self._plan = StepPlan(members, reordering.stacks)
        if reordering.fixed:
            return Continue(tuple(missing))
        grew_by, placed = reordering.grew_by, reordering.placed
        computing = members if grew_by else placed
        patch = {group: grew_by + placed.get(group, 0) for group in computing}
        if self._one_stack:
            patch = dict.fromkeys(patch, 1)
        return Continue(tuple(missing), patch, reordering.moved_types)

    @classmethod
    def masked_failures(cls, groups: int, redundancy: int) -> float:
        """Return ``mu(N, r) = Gamma(1/r)/r * N^(1 - 1/r)`` (Lee et al. 2026).

        With k of N groups failed, a given type has lost all its r hosts with probability about
        (k/N)^r, and none of N types has with probability exp(-N (k/N)^r); mu is the integral of
        that over k from 0 to infinity.
        """
        return float(gamma(1.0 / redundancy) / redundancy * groups ** (1.0 - 1.0 / redundancy))

    @classmethod
    def work_per_step(cls, groups: int, redundancy: int) -> float:
        """Return the lower bound of Sbar(N, r): the mean of ceil(N/(N-k)) over k < floor(mu).

        No schedule of N types on N - k survivors needs less than ceil(N/(N-k)) types a group; the
        patch compute of the failures themselves is left out (Lee et al. 2026).
        """
        masked = max(1, floor(cls.masked_failures(groups, redundancy)))
        return sum(ceil(groups / (groups - k)) for k in range(min(masked, groups))) / masked

    @classmethod
    def redundancies(cls, groups: int) -> Sequence[int]:
        """All redundancies with a ruler, from 2 (or 1 where there is no other)."""
        return range(min(2, largest_redundancy(groups)), largest_redundancy(groups) + 1)

    @classmethod
    def best_redundancy(cls, groups: int, costs: Costs) -> int:
        """Return ``r* = floor(log2 N + 0.833)`` (Lee et al. 2026), capped by the rulers known."""
        return max(1, min(floor(log2(groups) + 0.833), largest_redundancy(groups)))
