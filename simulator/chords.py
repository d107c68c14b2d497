"""A function that is straight in pieces, evaluated at few places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import floor

_WIDTH = 0.25
"""Width of the cells that are looked at first."""
_NARROWEST = 2.0**-20
_STRAIGHT = 1e-7
"""How far a value may be from the line between its neighbours, as a share of it. SimGrid's times
are exact to 1e-9 s."""


@dataclass(slots=True)
class Chords:
    """Interpolates a function between places at which its values are on one line.

    The time of a step is such a function of the time that its computations take. Along each way
    through the graph of a step, some multiple of the computations adds to its messages; the longest
    way decides. So the function is convex, and straight between two places if it is so at a third
    between them. Messages that share links may bend it otherwise; each piece is then taken to be
    straight once its middle is.

    A cell is halved until its middle is on the line between its ends, or it is 1e-6 wide. Which
    value is returned for a place does not depend on what was evaluated before.
    """

    evaluate: Callable[[float], float]  # The function.
    _values: dict[float, float] = field(default_factory=dict, init=False)

    def __call__(self, place: float) -> float:
        """Return the value of the function at a place."""
        low = floor(place / _WIDTH) * _WIDTH
        width = _WIDTH
        while True:
            begin, end = self._value(low), self._value(low + width)
            line = begin + (end - begin) * (place - low) / width
            middle = self._value(low + width / 2)
            if width <= _NARROWEST or abs(middle - (begin + end) / 2) <= _STRAIGHT * middle:
                return line
            width /= 2
            if place >= low + width:
                low += width

    def _value(self, place: float) -> float:
        if place not in self._values:
            self._values[place] = self.evaluate(place)
        return self._values[place]
