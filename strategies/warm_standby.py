"""Warm standbys: a machine that waits takes the role of one that failed; nothing else changes.

TrainMover (arXiv 2412.12636) and ByteRobust (arXiv 2509.16293). A standby has loaded everything,
and run a shadow step of every kind of stage. When a machine fails it is given that one's place in
all communicators, of which only the connections to it are made anew, and a copy of its state from
another replica; the others' processes live on, wait, and do the broken step again. Layout and
batch stay. A standby that was used is replaced in the background (`recovery.replenish_s`); with
none at hand all wait for another machine, on which processes have to start.

That prices are those of a switch is for the scenario to say: ``recovery.preset = "hot-swap"``.
Where no replica has the state, the job restarts: with memory checkpoints beneath
(`protection.name`) from those, as ByteRobust does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from faultline.strategies.base import (
    Continue,
    Hit,
    StepPlan,
    Strategy,
    StrategyOptions,
    Verdict,
    WipeOut,
)
from faultline.strategies.recovery import Move, Recovery, RecoveryKind
from faultline.strategies.takeover.pipeline_scheme import failures_until_nobody_is_left

TAKEN_ROLE = Recovery("take-over", replaces_hardware=True)
"""A machine takes another's place; the others' processes live on. State moves besides."""


class WarmStandby(Strategy):
    """Data parallelism whose failed machines are replaced while the job waits."""

    name: ClassVar[str] = "warm-standby"
    summary: ClassVar[str] = "Warm standby: a waiting machine takes a failed one's role and state"
    title: ClassVar[str] = "warm standby"
    colour: ClassVar[str | None] = "#785AFF"
    marker: ClassVar[str | None] = "H"
    protections: ClassVar[tuple[str, ...]] = ("reft", "gemini")
    tracks_components: ClassVar[bool] = True
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("take-over",)

    def __init__(self, groups: int, redundancy: int, options: StrategyOptions) -> None:
        super().__init__(groups, redundancy, options)
        self._plan = StepPlan(tuple(range(groups)), 1)
        self.restart()

    def restart(self) -> None:
        self._newly: dict[int, Hit] = {}

    def plan(self) -> StepPlan:
        return self._plan

    def on_hit(self, hit: Hit) -> None:
        self._newly[hit.group] = hit

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Give standbys the roles of what failed; all do the step again."""
        hits = [self._newly.get(group, Hit(group, 0, 0, 1)) for group in missing]
        self._newly.clear()
        if len(hits) == self.groups and _have_a_part_in_common(hits):
            return WipeOut(tuple(missing))
        recovery = replace(TAKEN_ROLE, moves=tuple(move for hit in hits for move in _moves(hit)))
        again = dict.fromkeys(self._plan.members, 1)
        return Continue((), again, carried_on=tuple(missing), recovery=recovery)

    def masked_failures(self) -> float:
        """Return the failures until no replica is left, as if nothing took their places."""
        return failures_until_nobody_is_left(self.groups)

    def work_per_step(self) -> float:
        """Each group computes its one shard type."""
        return 1.0


def _have_a_part_in_common(hits: Sequence[Hit]) -> bool:
    """Return whether all replicas have lost the same GPUs' state."""
    first = max(hit.first_gpu / hit.gpus_per_group for hit in hits)
    return first < min((hit.last_gpu + 1) / hit.gpus_per_group for hit in hits)


def _moves(hit: Hit) -> list[Move]:
    """Return what moves to the GPUs that stand in for those of a hit: all that these held."""
    gpus = hit.last_gpu + 1 - hit.first_gpu
    # Components are runs of as many GPUs; one that begins elsewhere moves GPU by GPU.
    run = gpus if hit.first_gpu % gpus == hit.gpus_per_group % gpus == 0 else 1
    parts = range(hit.first_gpu // run, (hit.last_gpu + 1) // run)
    return [Move(hit.group, part, part, hit.gpus_per_group // run) for part in parts]
