"""How long an all-reduce takes, as a function of its members: stated, or measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from faultline.simulator.pattern.step_shares import SlowStep, StepShares


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
        """Return it where sending takes `factor` times as long."""
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
        """Return it where sending takes `factor` times as long."""
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

    @property
    def passes_s(self) -> float:
        """Forward and backward passes."""
        return self.compute_s + self.tensor_s + self.context_s + self.pipeline_s + self.bubble_s

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


class MemberTimes(Protocol):
    """Times of a step if they depend on the members' shares, not only on their number."""

    def passes_s(self, shares: StepShares, rounds: int = 1, factor: float = 1.0) -> float:
        """Return the time until the slowest has computed its share `rounds` times, in seconds.

        Each computation takes `factor` times as long; messages do not change.
        """

    def sync_s(self, shares: StepShares) -> float:
        """Return the time of the all-reduce, in seconds."""


class StorageTimes(Protocol):
    """Times of the storage if they depend on the groups, not only on their number."""

    def save_s(self, writer: int) -> float:
        """Return the time in which a group writes a checkpoint, in seconds."""

    def load_s(self, members: Sequence[int]) -> float:
        """Return the time until some groups have loaded one, in seconds."""


DetourTimes = Callable[[Sequence[str], SlowStep], MemberTimes]
"""Returns the times of a step without some parts of the network, and with some stragglers."""
