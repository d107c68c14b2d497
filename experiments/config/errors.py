"""Errors for users: bad input, in one line with its remedy."""

from __future__ import annotations

from difflib import get_close_matches

from faultline.platforms.errors import PlatformError, one_line
from faultline.simulator.failures.distributions import DistributionError
from faultline.simulator.run import StandstillError
from faultline.simulator.simgrid_engine.errors import SimulationError
from faultline.strategies.errors import StrategyError

QUIET = "FAULTLINE_QUIET"
"""Environment variable that restricts output to results, here and in child processes."""


class UserError(ValueError):
    """Bad input, in one line: the place, the mistake, the remedy.

    It may quote input: line breaks become blanks, unprintable characters are escaped.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


EXPLAINED = (
    UserError, PlatformError, StrategyError, DistributionError, SimulationError, StandstillError
)  # fmt: skip
"""Errors whose message is complete; for any other, the class is printed too."""


def did_you_mean(word: str, known: list[str]) -> str:
    """Return a remedy for an unknown word: the likely one, or all known ones."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"use one of {', '.join(sorted(known))}"


class SchemeError(AssertionError):
    """A scheme breaks a promise of all schemes; the message names the promise and the place."""
