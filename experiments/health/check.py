"""One thing that was looked at, and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes
    ----------
    section : str
        Which table it belongs to.
    what : str
        What was looked at.
    value : str
        What was found, for people.
    state : {"ok", "warning", "failed"}
        Whether that will do; a warning restricts what can be done here.
    meaning : str
        What it means for Faultline and, unless all is well, what to do.
    number : float, optional
        The value for programs: a count, bytes, or bytes/s.
    """

    section: str
    what: str
    value: str
    state: State
    meaning: str
    number: float | None = None
