"""What a user is told when what they asked for cannot be done."""

from __future__ import annotations

from difflib import get_close_matches

from faultline.platforms.errors import PlatformError, one_line
from faultline.simulator.failures.distributions import DistributionError
from faultline.simulator.run import StandstillError
from faultline.simulator.simgrid_engine.errors import SimulationError
from faultline.strategies.errors import StrategyError

QUIET = "FAULTLINE_QUIET"
"""The environment variable by which results alone are told, here and in all that is started."""


class UserError(ValueError):
    """Bad input, told in one line: where, what is wrong, and what would be right.

    It may quote what the user wrote: line breaks become blanks, what cannot be printed is escaped.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


EXPLAINED = (
    UserError, PlatformError, StrategyError, DistributionError, SimulationError, StandstillError
)  # fmt: skip
"""These say all there is to say; of any other error its kind is worth knowing too."""


def did_you_mean(word: str, known: list[str]) -> str:
    """Return a remedy for an unknown word: the likely one, or all there are."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"use one of {', '.join(sorted(known))}"


class SchemeError(AssertionError):
    """A scheme breaks a promise that all schemes make; the message says which, where and when."""
