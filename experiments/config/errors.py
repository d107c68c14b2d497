"""Errors for users: bad input, in one line with its remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, time
from difflib import get_close_matches

from faultline.platforms.errors import PlatformError, one_line, printable
from faultline.simulator.failures.distributions import DistributionError
from faultline.simulator.loop.run import StandstillError
from faultline.simulator.simgrid.errors import SimulationError
from faultline.strategies.interface.errors import StrategyError

Location = tuple[str | int, ...]

LONGEST_QUOTE = 60
"""Most characters of input in a message."""
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


def likely(word: str, known: list[str]) -> str | None:
    """Return the known word that another one most likely means, if any."""
    return next(iter(get_close_matches(word.lower(), known, n=1)), None)


def did_you_mean(word: str, known: list[str]) -> str:
    """Return a remedy for an unknown word: the likely one, or all known ones."""
    close = likely(word, known)
    if close:
        return f"did you mean {close!r}?"
    return f"use one of {', '.join(sorted(known))}"


class SchemeError(AssertionError):
    """A scheme breaks a promise of all schemes; the message names the promise and the place."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in the tables of a file."""

    # Path of the wrong key, with positions in lists; empty if no key is named.
    location: Location
    # Returns one line: the key, the mistake, the remedy. A function, since finding the likely key
    # is slow and few mistakes are printed.
    describe: Callable[[], str]


FORMULA = ("=", "+", "-", "@")
"""First characters of texts that a spreadsheet evaluates."""


def and_more(mistakes: int, at_least: str = "") -> str:
    """Return the number of further mistakes, for the end of a message."""
    return f" (and {at_least}{mistakes} more)" if mistakes else ""


def quote(value: object) -> str:
    """Return a value for a message: on one line, shortened if it is long."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    if isinstance(value, str):
        return _shortened(repr(value[: 2 * LONGEST_QUOTE]))
    if isinstance(value, (int, float, date, time)):
        return str(value)
    if isinstance(value, Mapping):
        return "a table"
    return "a list" if isinstance(value, list | tuple) else f"an object of {type(value).__name__}"


def shown_path(location: Location) -> str:
    """Return a path for a message; positions in lists count from 1, in brackets."""
    name = ""
    for part in location:
        if isinstance(part, int):
            name += f"[{part + 1}]"
        else:
            name += ("." if name else "") + (part or '""')
    return _shortened(printable(name))


def _shortened(text: str) -> str:
    half = LONGEST_QUOTE // 2
    return text if len(text) <= LONGEST_QUOTE else f"{text[:half]}…{text[-half:]}"
