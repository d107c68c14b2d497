"""Times of a recovery's phases: times that the scenario states, and moves of state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from faultline.simulator.failures.failure import Failure
from faultline.simulator.failures.random_streams import Purpose, stream
from faultline.strategies.interface.recovery import Move, Recovery, SentMove

_FEW_RANKS_S = 1.3
_FEW_RANKS_GROWTH_S = 0.0875
"""A communicator of few ranks: 2.0 s of 8 and 4.1 s of 32 (NCCL issue 534)."""


class RecoveryPhase(NamedTuple):
    """One phase of a recovery."""

    name: str  # Its name.
    duration_s: float  # Its duration, in seconds.
    ranks: int = 0  # GPUs that take part; 0 if their number has no effect.
    size_bytes: float = 0.0  # Bytes of state that move, over all receivers.
    source: str = ""  # The source of the time: stated, a price, or measured.


class MoveTimes(Protocol):
    """Times of moves of state on the platform."""

    def duration_s(self, moves: Sequence[SentMove]) -> float:
        """Return the time until the last of some moves has arrived, in seconds."""
        return max(self.busy_s(moves).values(), default=0.0)

    def busy_s(self, moves: Sequence[SentMove]) -> Mapping[int, float]:
        """Return how long each group sends or receives, in seconds."""

    def size_bytes(self, moves: Sequence[Move]) -> float:
        """Return the bytes that arrive at all receivers together."""


def sent_moves(moves: Sequence[Move], able: Collection[int]) -> tuple[SentMove, ...]:
    """Return each move with its sender: the next able group after the receiver.

    The groups `able` are up. A group that receives nothing itself is preferred; if there is none,
    the sender has lost another part of the state.
    """
    receiving = {move.group for move in moves}
    sending = sorted(set(able) - receiving) or sorted(able)
    sent = []
    for move in moves:
        # Bisection, because schemes move parts of many groups at once.
        place = bisect_right(sending, move.group)
        nearest = sending[place % len(sending)] if sending else None
        sent.append(SentMove(move, None if nearest == move.group else nearest))
    return tuple(sent)


@dataclass(frozen=True, slots=True)
class CommunicatorTime:
    """Time of a communicator: ``base + growth k^exponent + quadratic k^2``, k in 1,000 ranks."""

    # The coefficients, in seconds, and the exponent of the growth.
    base_s: float = 0.0
    growth_s: float = 0.0
    exponent: float = 1.0
    quadratic_s: float = 0.0

    def __call__(self, ranks: float) -> float:
        """Return the seconds for these ranks; few ranks take at most what NCCL measures."""
        if ranks < 2:
            return 0.0
        thousands = ranks / 1000
        curve_s = self.base_s + self.growth_s * float(thousands**self.exponent)
        curve_s += self.quadratic_s * thousands**2
        return min(curve_s, _FEW_RANKS_S + _FEW_RANKS_GROWTH_S * ranks)


@dataclass(frozen=True, slots=True)
class RecoveryPrices:
    """The time of each phase on a job's GPUs; all in seconds."""

    gpus: int = 1  # GPUs of the job.
    detect_s: float = 0.0  # From the failure until it is detected.
    # The same by the level, or else the kind, of what has failed.
    detect_by_s: Mapping[str, float] = field(default_factory=dict)
    diagnose_s: float = 0.0  # From its detection until it is diagnosed.
    hardware_s: float = 0.0  # Until other hardware has replaced the broken one.
    without_standby_s: float = 0.0  # Time on top of that if no standby is left.
    # To start processes, and by how much the first step takes longer.
    launch_s: float = 0.0
    warm_up_s: float = 0.0
    communicator: CommunicatorTime = CommunicatorTime()  # To make communicators.
    # Whole recoveries, by kind, whose time the scenario states.
    stated_s: Mapping[str, float] = field(default_factory=dict)
    # Standard deviation of the logarithm of a factor on all of them, of mean 1.
    spread: float = 0.0
    awaits_repair: bool = False  # Whether a restart begins once all failed components are repaired.
    repair_s: float = 0.0  # Time of a repair if the failure does not state it.
    factor: float = 1.0  # Factor on all phases, but not on stated whole recoveries.

    def whole_s(self, recovery: Recovery) -> float | None:
        """Return the whole time of a recovery, in seconds, if the scenario states it."""
        stated_s = self.stated_s.get(recovery.kind)
        if stated_s is not None and recovery.lacks_standbys:
            stated_s += self.without_standby_s
        return stated_s

    def phases(
        self, recovery: Recovery, failed: Iterable[Failure] = ()
    ) -> tuple[RecoveryPhase, ...]:
        """Return the phases of a recovery that take time, in order.

        The time of detection depends on the failures `failed`, as far as they are known.
        """
        whole_s = self.whole_s(recovery)
        if whole_s is not None:
            return (RecoveryPhase("all phases", whole_s, source="stated"),)
        communicators_s = sum(
            made.count * self.communicator(max(1.0, made.share * self.gpus))
            for made in recovery.communicators
        )
        ranks = max((round(made.share * self.gpus) for made in recovery.communicators), default=0)
        phases = [
            RecoveryPhase("detect", 0.0 if recovery.is_expected else self._detected_s(failed)),
            RecoveryPhase("diagnose", 0.0 if recovery.is_expected else self.diagnose_s),
        ]
        if recovery.replaces_hardware:
            lacking_s = self.without_standby_s if recovery.lacks_standbys else 0.0
            phases.append(RecoveryPhase("hardware", self.hardware_s + lacking_s))
        if recovery.starts_processes:
            phases.append(RecoveryPhase("launch", self.launch_s))
        phases.append(RecoveryPhase("communicators", communicators_s, ranks))
        if recovery.starts_processes:
            phases.append(RecoveryPhase("warm-up", self.warm_up_s))
        return tuple(
            phase._replace(duration_s=phase.duration_s * self.factor)
            for phase in phases
            if phase.duration_s > 0.0
        )

    def _detected_s(self, failed: Iterable[Failure]) -> float:
        by, usual_s = self.detect_by_s, self.detect_s
        if not by:
            return usual_s
        times_s = (by.get(each.level, by.get(each.kind, usual_s)) for each in failed)
        return max(times_s, default=usual_s)

    def duration_s(self, recovery: Recovery) -> float:
        """Return the time of all phases, in seconds."""
        return sum(phase.duration_s for phase in self.phases(recovery))


class RecoveryTimes:
    """Times of the recoveries of a run, one after the other.

    The factors come from a stream of their own, so the n-th recovery has the same factor under
    every scheme.
    """

    def __init__(self, prices: RecoveryPrices, seed: int) -> None:
        self._prices = prices
        self._factors = stream(seed, Purpose.RECOVERY_TIMES) if prices.spread else None
        self._last: tuple[tuple[RecoveryPhase, ...], float] = (), 1.0

    def _factor(self) -> float:
        """Draw the factor on the next recovery's time."""
        if self._factors is None:
            return 1.0
        spread = self._prices.spread
        return float(self._factors.lognormal(-spread * spread / 2, spread))

    def repair_s(self, failed: Iterable[Failure]) -> float:
        """Return how long a restart waits for the repair of all failed components, in seconds."""
        if not self._prices.awaits_repair:
            return 0.0
        usual_s = self._prices.repair_s
        stated_s = (failure.repair_s for failure in failed)
        return max((usual_s if each_s is None else each_s for each_s in stated_s), default=0.0)

    def duration_s(self, recovery: Recovery | None, failed: Iterable[Failure] = ()) -> float:
        """Return the seconds of the next recovery without its moves, after the given failures."""
        if recovery is None:
            self._last = (), 1.0
            return 0.0
        factor, whole_s = self._factor(), self._prices.whole_s(recovery)
        if whole_s is not None:
            self._last = (), factor
            return whole_s * factor
        phases = self._prices.phases(recovery, failed)
        self._last = phases, factor
        return sum(phase.duration_s for phase in phases) * factor

    def last_phases(self) -> tuple[tuple[str, float], ...]:
        """Return name and seconds of the last recovery's phases; none if its whole is stated."""
        phases, factor = self._last
        return tuple((phase.name, phase.duration_s * factor) for phase in phases)
