"""A measured number, and a case that measures some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number.

    Attributes
    ----------
    section, what : str
        What was measured.
    measured : float, optional
        The number: the median where there are several; None where the measurement failed.
    unit : str
        Its unit.
    minimum : float, optional
        The best of several.
    target : float, optional
        What it should be at most.
    ratio : float, optional
        How many times as fast it is as `ratio_to`.
    ratio_to : str
        What it is compared with.
    error : str
        Why the measurement failed.
    """

    section: str
    what: str
    measured: float | None
    unit: str
    minimum: float | None = None
    target: float | None = None
    ratio: float | None = None
    ratio_to: str = ""
    error: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None where there is none."""
        if self.target is None or self.measured is None:
            return None
        return self.measured <= self.target


@dataclass(frozen=True, slots=True)
class Case:
    """Some measurements that are taken together.

    Attributes
    ----------
    section, what : str
        What will be measured.
    measure : callable
        Measures; raises `BenchmarkError` where it cannot.
    """

    section: str
    what: str
    measure: Callable[[], list[Measurement]]

    def failed(self, error: Exception) -> Measurement:
        """Return what stands in the table where the case could not be measured."""
        return Measurement(self.section, self.what, None, "", error=" ".join(str(error).split()))
