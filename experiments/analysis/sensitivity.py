"""By how much each uncertain input moves the lead of the advised candidate, and where it turns.

An input moves from one end of its prior to the other; all others stay uncertain. The emulator of
the candidates gives the expected times, so that text, figure and sliders agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from faultline.experiments.analysis.decision import BAND
from faultline.experiments.analysis.design import Floats
from faultline.experiments.analysis.input_scales import InputScale
from numpy.typing import NDArray

if TYPE_CHECKING:
    from faultline.experiments.analysis.emulator import Emulator

STOPS = 41
"""Values of an input at which expected times are compared: the positions of a slider."""

SAMPLES = 128
"""Samples of the other inputs over which expected times are averaged, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Swing:
    """The effect of one input on the lead of the advised candidate over its closest rival."""

    name: str  # The input.
    stops: Floats  # Its quantiles, in ascending order.
    leads_s: Floats  # Lead at these, in seconds; negative if a rival is expected sooner.
    advised: NDArray[np.intp]  # Place of the candidate that is expected soonest at these.

    @property
    def ends_s(self) -> tuple[float, float]:
        """The lead at both ends of the input's 80 % range, in seconds."""
        low, high = np.interp(BAND, self.stops, self.leads_s).tolist()
        return low, high

    @property
    def reach_s(self) -> tuple[float, float]:
        """The least and the greatest lead within that range, in seconds."""
        inside = self.leads_s[(self.stops >= BAND[0]) & (self.stops <= BAND[1])]
        found = [*inside.tolist(), *self.ends_s]
        return min(found), max(found)

    @property
    def size_s(self) -> float:
        """How much the lead changes within that range, in seconds."""
        low, high = self.reach_s
        return high - low

    def turns(self) -> list[tuple[float, int, int]]:
        """Return where the advice turns: quantile, place of the candidate below and above it.

        Turns beyond or at the ends of the 80 % range, which readers see beside them, are left out.
        """
        before, after = self.stops[:-1], self.stops[1:]
        is_inside = (before >= BAND[0]) & (after <= BAND[1])
        found = np.flatnonzero((self.advised[1:] != self.advised[:-1]) & is_inside)
        ends = (before[found] + after[found]) / 2
        below, above = self.advised[found], self.advised[found + 1]
        return list(zip(ends.tolist(), below.tolist(), above.tolist(), strict=True))

    def turns_text(self, candidates: Sequence[str], scale: InputScale) -> str:
        """Return the advice by values: ``below 8.8 min A, above B``; empty if it never turns."""
        turns = self.turns()
        texts = [f"below {scale.text(at)} {candidates[below]}" for at, below, _ in turns]
        return ", ".join([*texts, *(f"above {candidates[above]}" for *_, above in turns[-1:])])


def swings(emulator: Emulator, first: str) -> list[Swing]:
    """Return the swing of each input, the largest first.

    Parameters
    ----------
    emulator : Emulator
        Of at least two candidates.
    first : str
        The advised one.
    """
    advised, found = emulator.candidates.index(first), []
    for place, name in enumerate(emulator.names):
        low, high = emulator.range[:, place].tolist()
        stops = np.linspace(low, high, STOPS)
        times_s = np.exp(emulator.log_times_at({place: stops}, SAMPLES)).mean(axis=2)
        leads_s = np.delete(times_s, advised, axis=0).min(axis=0) - times_s[advised]
        found.append(Swing(name, stops, leads_s, times_s.argmin(axis=0)))
    return sorted(found, key=lambda one: -one.size_s)
