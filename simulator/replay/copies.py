"""Copies of state in flight beside replay's phases."""

from __future__ import annotations

from faultline.simulator.job.background import Meets, WriteClock
from faultline.simulator.job.phases import AllReduce, Compute, Phase
from faultline.simulator.pattern.plan_shares import StepShares


class CopiesInFlight:
    """Copies that share links with the phases of a job.

    Durations follow from the rates at which a copy and a part of a phase share links. A phase may
    have parts, of which each meets the copies with other traffic, or with none.

    Attributes
    ----------
    clock : WriteClock
        The progress of the copies.
    """

    def __init__(self) -> None:
        self.clock = WriteClock()
        self._since_s = 0.0
        self._meets: Meets | None = None
        self._shares: StepShares | None = None

    def begin_phase(self, phase: Phase, now_s: float) -> None:
        """Note that a phase begins, whose first part meets no copy yet."""
        self._since_s, self._meets, self._shares = now_s, None, None
        if isinstance(phase, (Compute, AllReduce)):
            self._shares = StepShares(phase.members, phase.pipelines, phase.stack_size)

    def beside(self, meets: Meets, alone_s: float, now_s: float) -> float:
        """Return the seconds that a part takes from now on, given its time without copies."""
        self._meets = meets
        return self.clock.prolonged_s(alone_s, now_s, meets, self._shares)

    def end_part(self, now_s: float, *, is_broken: bool = False) -> None:
        """Advance the copies to the end of a part; a broken part leaves the links to them."""
        meets = None if is_broken else self._meets
        self.clock.advance(self._since_s, now_s, meets, self._shares)
        self._since_s, self._meets = now_s, None
