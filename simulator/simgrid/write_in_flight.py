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
"""Share of a write that is sent before a part begins: SimGrid 4.1 may leave out links of flows that
begin at the same moment."""


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
        _arrived_s(comms)

    def beside(self, part: Callable[[], object], part_s: float) -> tuple[float, float, float]:
        """Run a part that takes `part_s` alone beside the write; return what `Sharing.of` needs."""
        comms, head_s = begin(self._flows), _HEAD_START * self.alone_s
        simgrid.this_actor.sleep_for(head_s)
        begun_s = simgrid.Engine.clock
        ended_s = lasting_s(part)
        written_s = _arrived_s(comms) - begun_s
        # The write loses time only while it meets the part.
        sent_s = self.alone_s - head_s - max(0.0, written_s - ended_s)
        return min(ended_s, written_s), ended_s - part_s, sent_s

    def beside_all(
        self, parts: Sequence[Callable[[], object]], parts_s: Sequence[float], most: int
    ) -> list[list[float]]:
        """Run parts in turn beside the write until it ends, each `most` times at most.

        Returns for each part what `Sharing.of` needs, as sums over all of its runs. Alone the parts
        take `parts_s` seconds.
        """
        sums = np.zeros((len(parts), 3))
        comms, sent_s = begin(self._flows), 0.0
        for place, part in [*enumerate(parts)] * most:
            begun_s, is_in_flight = simgrid.Engine.clock, sent_s < self.alone_s
            met_s = lasted_s = lasting_s(part)
            if is_in_flight:
                left, before_s = self._left_of(comms), sent_s
                sent_s = float(np.interp(-left, -self._left, self._times_s))
                if not left:
                    met_s = _arrived_s(comms) - begun_s
                sums[place] += met_s, lasted_s - parts_s[place], sent_s - before_s
            if sent_s >= self.alone_s and place == len(parts) - 1:
                break
        _arrived_s(comms)
        found: list[list[float]] = sums.tolist()
        return found

    def _whole(self) -> None:
        _arrived_s(begin(self._flows))

    def _left_of(self, comms: Sequence[simgrid.Comm]) -> float:
        """Return the share of all bytes that has not arrived."""
        size = sum(round(size) for *_, size in self._flows)
        return sum(comm.remaining for comm in comms) / size if size else 0.0


def _arrived_s(comms: Sequence[simgrid.Comm]) -> float:
    """Wait for flows; return when the last has arrived, in simulated seconds."""
    for comm in comms:
        comm.wait()
    return max((float(comm.finish_time) for comm in comms), default=float(simgrid.Engine.clock))
