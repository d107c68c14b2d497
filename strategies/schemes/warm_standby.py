"""Warm standbys: a waiting machine takes the role of a failed one; nothing else changes.

TrainMover (arXiv 2412.12636) and ByteRobust (arXiv 2509.16293). A standby has loaded all software
and run a shadow step of each kind of stage. When a machine fails, the standby takes its place in
all communicators; only the connections to it are rebuilt. It copies the state from another replica.
The other processes keep running, wait, and repeat the interrupted step. Layout and batch do not
change. A used standby is replaced in the background (`recovery.replenish_s`). Without a standby all
wait for another machine, on which processes have to start.

The scenario states the times of such a switch: ``recovery.preset = "hot-swap"``. If no replica has
the state, the job restarts, from memory checkpoints if there are any (`protection.name`), as
ByteRobust does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.recovery import Move, Recovery, RecoveryKind
from faultline.strategies.interface.scheme import (
    Continue,
    Hit,
    Need,
    Strategy,
    StrategyOptions,
    Verdict,
    WipeOut,
)
from faultline.strategies.theory.wipe_out import failures_until_too_few

TAKEN_ROLE = Recovery("take-over", replaces_hardware=True)
"""A standby takes the place of a machine and receives its state; other processes keep running."""


class WarmStandby(Strategy):
    """Data parallelism whose failed machines are replaced while the job waits."""

    name: ClassVar[str] = "warm-standby"
    summary: ClassVar[str] = "Warm standby: a waiting machine takes a failed one's role and state"
    protections: ClassVar[tuple[str, ...]] = ("reft", "gemini")
    needs: ClassVar[tuple[Need, ...]] = ("standbys",)
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("take-over",)

    def __init__(
        self, groups: int, redundancy: int, options: StrategyOptions, shape: JobShape
    ) -> None:
        super().__init__(groups, redundancy, options, shape)
        self._new_hits: dict[int, Hit] = {}

    def restart(self) -> None:
        self._new_hits.clear()

    def on_hit(self, hit: Hit) -> None:
        self._new_hits[hit.group] = hit

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Give standbys the roles of the failed machines; all repeat the step."""
        hits = [self._new_hits.get(group, Hit(group, 0, 0, 1)) for group in missing]
        self._new_hits.clear()
        if len(hits) == self.groups and _share_a_part(hits):
            return WipeOut(tuple(missing))
        recovery = replace(TAKEN_ROLE, moves=tuple(move for hit in hits for move in _moves(hit)))
        patch = dict.fromkeys(self._whole.members, 1)
        return Continue((), patch, carried_on=tuple(missing), recovery=recovery)

    def masked_failures(self) -> float:
        """Return the failures until no replica is left, as if none were replaced."""
        return failures_until_too_few(self.groups)

    def work_per_step(self) -> float:
        """Return 1: each group computes its one shard type."""
        return 1.0


def _share_a_part(hits: Sequence[Hit]) -> bool:
    """Return whether all replicas have lost the state of the same GPUs."""
    first = max(hit.first_gpu / hit.gpus_per_group for hit in hits)
    return first < min((hit.last_gpu + 1) / hit.gpus_per_group for hit in hits)


def _moves(hit: Hit) -> list[Move]:
    """Return the moves to the GPUs that replace the broken ones: all of their state."""
    gpus = hit.last_gpu + 1 - hit.first_gpu
    # Aligned components move as one run of GPUs, other components GPU by GPU.
    run = gpus if hit.first_gpu % gpus == hit.gpus_per_group % gpus == 0 else 1
    parts = range(hit.first_gpu // run, (hit.last_gpu + 1) // run)
    return [Move(hit.group, part, part, hit.gpus_per_group // run) for part in parts]
