"""Observes the flows of a write beside other traffic: how far each part lets them come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import simgrid
from faultline.simulator.simgrid.loading import lasting_s
from faultline.simulator.simgrid.storage_traffic import begin
from faultline.simulator.simgrid.traffic import Flow

_SAMPLES = 64
_HEAD_START = 1e-3
"""Share of a write that is sent before a part begins. SimGrid shares links otherwise between flows
that begin at once than between a flow in flight and a new one."""


class FlowsAlone:
    """The flows of a write, observed once without other traffic; from within an actor.

    Attributes
    ----------
    alone_s : float
        The time of the write alone, in seconds.
    """

    def __init__(self, flows: Sequence[Flow]) -> None:
        self._flows = flows
        self.alone_s = lasting_s(self._whole)
        self._times_s = np.linspace(0.0, self.alone_s, _SAMPLES + 1)
        self._left = np.ones(_SAMPLES + 1)
        comms = begin(flows)
        for sample in range(1, _SAMPLES):
            simgrid.this_actor.sleep_for(self.alone_s / _SAMPLES)
            self._left[sample] = self._left_of(comms)
        self._left[-1] = 0.0
        _await(comms)

    def beside(self, part: Callable[[], object], part_s: float) -> tuple[float, ...]:
        """Run a part that takes `part_s` alone beside the write; return what `Sharing.of` needs."""
        comms = begin(self._flows)
        head_s = _HEAD_START * self.alone_s
        simgrid.this_actor.sleep_for(head_s)
        begun_s = simgrid.Engine.clock
        ended_s = lasting_s(part)
        _await(comms)
        written_s = max((comm.finish_time for comm in comms), default=begun_s) - begun_s
        return part_s, self.alone_s - head_s, ended_s, written_s

    def beside_all(
        self, parts: Sequence[Callable[[], object]], parts_s: Sequence[float], most: int
    ) -> list[tuple[float, ...] | None]:
        """Run parts in turn beside the write until it ends, each `most` times at most.

        Returns for each part what `Sharing.of` needs: from all runs that the write outlasted, or
        else from the one in which it ended; None if it met none. Alone they take `parts_s` seconds.
        """
        found: list[tuple[float, ...] | None] = [None] * len(parts)
        comms, sent_s = begin(self._flows), 0.0
        for place, part in [*enumerate(parts)] * most:
            begun_s, is_in_flight = simgrid.Engine.clock, sent_s < self.alone_s
            lasted_s, left = lasting_s(part), self._left_of(comms)
            now_sent_s = float(np.interp(-left, -self._left, self._times_s))
            if left:
                alone_s, _, all_s, lost_s = found[place] or (0.0, 0.0, 0.0, self.alone_s)
                alone_s, all_s = alone_s + parts_s[place], all_s + lasted_s
                lost_s += lasted_s - (now_sent_s - sent_s)
                found[place] = alone_s, self.alone_s, all_s, lost_s
            elif is_in_flight and found[place] is None:
                _await(comms)
                written_s = max(comm.finish_time for comm in comms) - begun_s
                found[place] = parts_s[place], self.alone_s - sent_s, lasted_s, written_s
            sent_s = now_sent_s
            if not left and place == len(parts) - 1:
                break
        _await(comms)
        return found

    def _whole(self) -> None:
        _await(begin(self._flows))

    def _left_of(self, comms: Sequence[simgrid.Comm]) -> float:
        """Return the share of all bytes that has not arrived."""
        size = sum(round(size) for *_, size in self._flows)
        return sum(comm.remaining for comm in comms) / size if size else 0.0


def _await(comms: Sequence[simgrid.Comm]) -> None:
    for comm in comms:
        comm.wait()
