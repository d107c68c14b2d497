"""What operators and other simulators report: a value where it is given, and how near to come."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from faultline.experiments.studies.data import read_rows

Test = Literal["point", "band", "at least", "calibrated", "unknown", "ours"]


@dataclass(frozen=True, slots=True)
class Output:
    """A published output."""

    # Which one: a row of the study has the same.
    setting: str
    quantity: str
    published: float | None = None  # Its value; None where it was not given to whoever wrote this.
    within: float = 0.03  # How far off a simulated value may be, in the quantity's unit.
    # "point": within `within`; "band": between the ends of what is swept; "at least": the published
    # value is a bound; "calibrated": something was chosen by this very value; "unknown": an input
    # is missing; "ours": nothing is published.
    test: Test = "point"
    note: str = ""  # What is not stated, or why it is missed.
    unit: str = "1"  # Its unit; "1" for shares.


@cache
def outputs() -> tuple[Output, ...]:
    """Return all of them, in the order in which they are shown."""
    return tuple(Output(**row) for row in read_rows("operators", "published"))
