"""A piecewise linear function, evaluated at few places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import floor

_WIDTH = 0.25
"""Width of the first cells."""
_NARROWEST = 2.0**-20
_STRAIGHT = 1e-7
"""Largest distance of a value from the line between its neighbours, as a share of the value.
SimGrid's times are exact to 1e-9 s."""


@dataclass(slots=True)
class Chords:
    """Interpolates a function between places at which its values are on one line.

    The time of a step is such a function of the time that its computations take. The time of each
    path through the graph of a step is linear in that time, and the longest path decides. So the
    function is convex: if a third value is on the line between two others, all values between these
    are. Messages that share links may break this; a piece still counts as straight if its middle is
    on the line.

    A cell is halved until its middle is on the line between its ends, or it is 1e-6 wide. The value
    of a place does not depend on earlier evaluations.
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
