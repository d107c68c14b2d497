"""What operators and other simulators report, beside what was simulated, and a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Literal

import pandas as pd
from faultline.experiments.studies import claims
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.claims import verdict_of
from faultline.experiments.studies.data import read_rows

Test = claims.Test | Literal["unknown", "ours"]


@dataclass(frozen=True, slots=True)
class Output:
    """A published output."""

    # Which one: a row of the study has the same.
    setting: str
    quantity: str
    published: float | None = None  # Its value; None where it was not given to whoever wrote this.
    within: float = 0.03  # How far off a simulated value may be, in the quantity's unit.
    # As a claim's (`claims.Test`), "band" without a tolerance; "unknown": an input is missing;
    # "ours": nothing is published.
    test: Test = "point"
    note: str = ""  # What is not stated, or why it is missed.
    unit: str = "1"  # Its unit; "1" for shares.


@cache
def outputs() -> tuple[Output, ...]:
    """Return all of them, in the order in which they are shown."""
    return tuple(Output(**row) for row in read_rows("operators", "published"))


@dataclass(frozen=True, slots=True)
class Judgement:
    """A row with what is to be said of it."""

    # Simulated, and the published value if there is one; its ends are those of what is swept.
    row: Row
    # "inside", "outside", "partly" (a bound that holds for part of what is swept), "calibrated",
    # "withheld", "not published" or "unknown".
    verdict: str
    # By how much the nearest allowed value is missed, in the row's unit; 0 inside.
    off: float | None
    hits: str = ""  # The swept values that come nearest to the published one.
    note: str = ""  # What is not stated, or why it is missed.

    def as_dict(self) -> dict[str, Any]:
        """Return it as a flat mapping."""
        rest = {key: value for key, value in asdict(self).items() if key != "row"}
        return {**self.row.as_dict(), **rest}


def verdicts(outputs: tuple[Output, ...], samples: pd.DataFrame) -> Iterator[Judgement]:
    """Yield a verdict an output and scheme that has simulated it.

    Samples have the columns of `loop.SAMPLE`.
    """
    by_output = dict(list(samples.groupby(["setting", "quantity"], sort=False)))
    for output in outputs:
        found = by_output.get((output.setting, output.quantity))
        if found is None:
            raise LookupError(f"nothing plays {output.setting}, {output.quantity}")
        for scheme, mine in found.groupby("scheme", sort=False):
            yield _judged(output, str(scheme), mine)


def _judged(output: Output, scheme: str, mine: pd.DataFrame) -> Judgement:
    by_sweep = mine.groupby("sweep", sort=False).value.mean()
    values = list(mine.value) if len(by_sweep) == 1 else list(by_sweep)
    row = row_of(output.quantity, scheme, output.setting, output.published, values, output.unit)
    hits = ""
    if len(by_sweep) > 1:
        low, high = float(by_sweep.min()), float(by_sweep.max())
        row = replace(row, low=low, high=high)
        if output.published is not None:
            hits = str((by_sweep - output.published).abs().idxmin())
    verdict, off = _verdict(output, row)
    return Judgement(row, verdict, off, hits, output.note)


def _verdict(output: Output, row: Row) -> tuple[str, float | None]:
    if output.test == "ours":
        return "not published", None
    if output.published is None:
        return "withheld", None
    if output.test == "unknown":
        return "unknown", None
    # What is swept leaves a band: no further tolerance.
    within = 0.0 if output.test == "band" else output.within
    return verdict_of(row, output.test, within)
