"""What every reproduction of a published comparison is, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich.console import Console


@dataclass(frozen=True, slots=True)
class Row:
    """One number beside its published counterpart.

    Attributes
    ----------
    quantity, scheme, setting : str
        What was measured, of which scheme, where.
    published : float or None
        The published value, if there is one.
    simulated : float
        Mean over seeds.
    low, high : float
        95 % confidence interval of the mean over seeds; equal to it for a single value.
    unit : str
        Unit of the numbers; "1" for a pure number.
    """

    quantity: str
    scheme: str
    setting: str
    published: float | None
    simulated: float
    low: float
    high: float
    unit: str

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a flat mapping, in the order of its fields."""
        return asdict(self)


def row_of(
    quantity: str,
    scheme: str,
    setting: str,
    published: float | None,
    values: Sequence[float],
    unit: str,
) -> Row:
    """Return the row of a quantity measured once a seed."""
    mean = fmean(values)
    low = high = mean
    if len(values) > 1:
        # Here: the command line, which knows every reproduction, need not wait for pandas.
        from faultline.experiments.analysis.intervals import half_width, interval_of_mean
        from faultline.experiments.analysis.quantities import quantity as known

        half = half_width(stdev(values), len(values))
        ends = interval_of_mean(mean, half, share=known(quantity).share)
        low, high = (float(end) for end in ends)
    return Row(quantity, scheme, setting, published, mean, low, high, unit)


@dataclass(frozen=True, slots=True)
class Options:
    """How a reproduction is to be run.

    Attributes
    ----------
    full : bool
        Everything that was published, however long it takes.
    seeds : int
        Seeds a cell.
    workers : int or None
        Worker processes; as many as there are cores if None.
    directory : Path
        Where tables and figures go.
    console : Console
        Where people read what is going on; not the standard output if that carries JSON.
    """

    full: bool
    seeds: int
    workers: int | None
    directory: Path
    console: Console


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A published comparison that can be played again.

    A module of this package with a `REPRODUCTION` joins the registry.

    Attributes
    ----------
    name, summary : str
        What it is called, and what it is about.
    reproduce : callable
        Runs it.
    default_seeds : int
        Seeds a cell where none are asked for.
    """

    name: str
    summary: str
    reproduce: Callable[[Options], list[Row]]
    default_seeds: int = 3
