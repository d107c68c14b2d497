"""Durations of a job's phases: stated, or measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from faultline.simulator.job.recovery_times import MoveTimes, RecoveryPrices
from faultline.simulator.pattern.plan_shares import SOUND_STEP, SlowStep, StepShares
from faultline.strategies.interface.recovery import RESTART, Recovery

if TYPE_CHECKING:
    from faultline.simulator.job.background import WriteBesideSteps
    from faultline.simulator.pattern.placed_step import PlacedStep


@dataclass(frozen=True, slots=True)
class ConstantTime:
    """The same time for any number of members, in seconds."""

    time_s: float

    def __call__(self, members: int) -> float:
        """Return the time of an all-reduce, in seconds."""
        return self.time_s

    def slowed(self, factor: float) -> ConstantTime:
        """Return the time if sending takes `factor` times as long."""
        return ConstantTime(self.time_s * factor)


@dataclass(frozen=True, slots=True)
class RingTime:
    """Alpha-beta time of a ring all-reduce.

    ``2 (n - 1) hop_s + 2 (n - 1)/n * bytes / bandwidth`` for n members: in each of 2 (n - 1) rounds
    every member sends 1/n of its bytes to its successor (Patarasu & Yuan 2009).
    """

    hop_s: float  # Latency of one round, in seconds.
    transfer_s: float  # Time to send all bytes of a member once, in seconds.

    def __call__(self, members: int) -> float:
        """Return the time of an all-reduce, in seconds."""
        if members < 2:
            return 0.0
        rounds = 2 * (members - 1)
        return rounds * self.hop_s + rounds / members * self.transfer_s

    def slowed(self, factor: float) -> RingTime:
        """Return this time on links on which sending takes `factor` times as long."""
        return replace(self, transfer_s=self.transfer_s * factor)


@dataclass(frozen=True, slots=True)
class SyncTime:
    """Time of replicas that exchange gradients in rings, and then work alone.

    Rings over n replicas move (n - 1)/n of the reduced bytes.
    """

    replicas_per_member: int  # Replicas that share their sequences, and fail as one.
    transfer_s: float  # Time to send the bytes that a rank reduces once, in seconds.
    alone_s: float  # Time of each replica's own work, in seconds.

    def __call__(self, members: int) -> float:
        """Return the time that members take, in seconds."""
        replicas = members * self.replicas_per_member
        return (replicas - 1) / replicas * self.transfer_s + self.alone_s

    def slowed(self, factor: float) -> SyncTime:
        """Return this time on links on which sending takes `factor` times as long."""
        return replace(self, transfer_s=self.transfer_s * factor)


AllReduceTime = ConstantTime | RingTime | SyncTime


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of an undisturbed step, by the activities of the busiest stage."""

    compute_s: float  # The forward and backward passes: their computations,
    tensor_s: float  # messages in tensor-parallel groups,
    context_s: float  # messages between ranks that share sequences,
    pipeline_s: float  # messages to neighbouring stages,
    bubble_s: float  # and waits for these.
    data_parallel_s: float  # Gradients and weights that do not hide behind the passes.
    optimizer_s: float
    activities: int  # Computations and messages that were simulated.
    is_even: bool = True  # Whether the platform treats all replicas alike.
    # Weights that passes gather from other replicas, and gradients, if these do not hide.
    gather_s: float = 0.0

    @property
    def passes_s(self) -> float:
        """Forward and backward passes."""
        messages_s = self.tensor_s + self.context_s + self.pipeline_s + self.gather_s
        return self.compute_s + messages_s + self.bubble_s

    @property
    def sync_s(self) -> float:
        """The time after the passes, in which replicas wait for each other."""
        return self.data_parallel_s + self.optimizer_s

    @property
    def step_s(self) -> float:
        """The whole step."""
        return self.passes_s + self.sync_s

    def sync_time(self, groups: int, context: int) -> SyncTime:
        """Return the time after the passes by remaining groups, of `context` replicas each."""
        replicas = groups * context
        share = (replicas - 1) / replicas
        transfer_s = self.data_parallel_s / share if share else 0.0
        return SyncTime(context, transfer_s, self.optimizer_s)


class StepTimes(Protocol):
    """Measured times of steps, by members, shares and conditions."""

    @property
    def step(self) -> PlacedStep | None:
        """The step of all groups if steps are simulated; None if only their messages are."""

    @property
    def depends_on_members(self) -> bool:
        """Whether times depend on the members, not only on their number."""

    def passes_s(
        self,
        shares: StepShares,
        slow: SlowStep = SOUND_STEP,
        rounds: int = 1,
        factor: float = 1.0,
    ) -> float:
        """Return the time until the slowest has computed its share `rounds` times, in seconds.

        Each computation takes `factor` times as long; messages do not change.
        """

    def exchange_s(self, shares: StepShares, slow: SlowStep = SOUND_STEP) -> float:
        """Return the time of the all-reduce, in seconds."""


class StorageTimes(Protocol):
    """Times of the storage if they depend on the groups, not only on their number."""

    def save_s(self, writer: int) -> float:
        """Return the time in which a group writes a checkpoint, in seconds."""

    def load_s(self, members: Sequence[int]) -> float:
        """Return the time until some groups have loaded one, in seconds."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations of phases that the scenario states or a probe has measured; all in seconds."""

    all_reduce_s: AllReduceTime  # Time of an all-reduce, by the number of its members.
    # Time to write a checkpoint, and to load one into all groups after a restart (0 if that is part
    # of it).
    save_s: float
    load_s: float
    recovery: RecoveryPrices  # Times of recoveries without their moves of state.
    # Whether the time of a measured all-reduce depends on its members, not only on their number.
    rings_are_uneven: bool = False
    # Measured times of writing and loading, by group; None if not measured.
    storage: StorageTimes | None = field(default=None, compare=False)
    # Times of moves of state between groups; None if none moves.
    moves: MoveTimes | None = field(default=None, compare=False)
    # How a write to storage in the background and concurrent steps slow each other; None if they
    # share no link.
    write_beside: WriteBesideSteps | None = None

    def restart_s(self, recovery: Recovery = RESTART) -> float:
        """Return the time of a restart without loading, in seconds."""
        return self.recovery.duration_s(recovery)
