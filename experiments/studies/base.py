"""A study: a published comparison that is simulated again, or a question of our own.

A study says what is to be simulated and what becomes of it; the runner (`studies.runner`) does the
rest: progress, going on where it was killed, CSV, the screen, JSON. A study's life::

    run(stage)              runs and computes everything; tables and other results, by name
    row_tables(results)      the tables of which ``data/rows.csv`` lists the rows
    rows(results)            every result; ``data/published_values.csv`` has what is published
    tables(results)          what is written as CSV, by name
    figures(results)         what is drawn, by file name
    shown(results, rows)     what people read on the screen: the rows beside published values
    headline(results, rows)  what came out, in a sentence or two
    records(results, rows)   what programs read as JSON: the rows

A subclass in ``studies/NAME/study.py`` joins the registry; the docstring of ``studies/NAME`` is its
summary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import cycle
from statistics import fmean, stdev
from typing import Any, ClassVar, Literal

import pandas as pd
from faultline.experiments.analysis.intervals import half_width, interval_of_mean
from faultline.experiments.analysis.quantities import quantity as known_quantity
from faultline.experiments.report.tables import Columns, Table, columns_of
from faultline.experiments.studies.data import parts_of, rows_if_any, value_if_published, value_of
from faultline.experiments.studies.stage import Stage
from matplotlib.figure import Figure

Results = dict[str, Any]
"""What a study has simulated and computed, by name."""
Tables = dict[str, pd.DataFrame]
"""Tables of a study by name; each becomes a CSV file of that name."""
Verdicts = Mapping[tuple[str, str, str], str]
"""Verdicts of rows, by quantity, scheme and setting."""
Kind = Literal[
    "prediction", "input", "arithmetic", "calibrated", "same constant", "other simulator"
]
"""What a row that is met is evidence of. "prediction": of the model. The others are none, or less:
"input": the published value goes in; "arithmetic": it follows from inputs whatever is simulated, as
an input times a share that is a row already; "calibrated": something was chosen by this very value;
"same constant": another row tests the same constant already; "other simulator": the published value
is another simulator's or formula's, and not a measurement."""
Kinds = Mapping[tuple[str, str, str], Kind]
"""Kinds of rows, by quantity, scheme and setting."""
Draw = Callable[[], Figure]
"""Draws a figure, in the style that all have."""

_SHOWN: Columns = {
    "quantity": "quantity",
    "scheme": "scheme",
    "setting": "setting",
    "published": ("published", "{:.4g}"),
    "simulated": ("simulated", "{:.4g}"),
    "error": ("error", "{:+.1%}"),
    "ends": ("between", "{}"),
    "unit": "unit",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One number beside its published counterpart."""

    # What was measured, of which scheme, where.
    quantity: str
    scheme: str
    setting: str
    published: float | None  # The published value, if there is one.
    simulated: float  # Mean over seeds.
    # 95 % confidence interval of the mean over seeds; equal to it for a single value.
    low: float
    high: float
    unit: str  # Unit of the numbers; "1" for a pure number.

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
        half = half_width(stdev(values), len(values))
        ends = interval_of_mean(mean, half, share=known_quantity(quantity).share)
        low, high = (float(end) for end in ends)
    return Row(quantity, scheme, setting, published, mean, low, high, unit)


def beside_published(study: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows, each with its published value where the study lists one."""
    for row in rows:
        known = value_if_published(study, row.quantity, row.scheme, row.setting)
        yield row if known is None else replace(row, published=known)


def listed_rows(study: str, tables: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows that ``data/rows.csv`` of a study lists for some tables, in its order.

    Each group of a table has a row for each measured column; the group's values are its seeds, and
    a column without a value gives no row. Columns of that list:

    - ``table``; ``only``: the rows of it that are used, as ``column=value|value`` parted by "; "
      (all if empty); ``keys``: columns that make a group, parted by "; ".
    - ``columns``: measured columns, parted by "; "; ``unit``: a unit for each, or one for all.
    - ``quantity``, ``scheme``, ``setting``: texts of the row, as format strings of the keys and of
      ``column``. Quantities may be several, as units; they are the columns' names if empty.
    - ``low``, ``high``: columns with the ends of the interval, one or several; those over seeds if
      empty.
    - ``published``: the key that is the published value, one or several, as format strings of
      ``column``; without such a key, or a value, nothing is published.
    """
    for line in rows_if_any(study, "rows"):
        if line["table"] in tables:
            yield from _rows_of_line(line, _chosen(tables[line["table"]], line.get("only", "")))


def _rows_of_line(line: Mapping[str, Any], frame: pd.DataFrame) -> Iterator[Row]:
    keys, columns = parts_of(line["keys"]), parts_of(line["columns"])
    units, quantities, published, lows, highs = (
        dict(zip(columns, cycle(parts_of(line.get(name))), strict=False))
        for name in ("unit", "quantity", "published", "low", "high")
    )
    for found, mine in frame.groupby(keys, sort=False, dropna=False):
        group = dict(zip(keys, found, strict=True))
        for column in columns:
            if mine[column].isna().all():
                continue
            quantity, scheme, setting, unit, key = (
                text.format(column=column, **group)
                for text in (
                    quantities.get(column, column),
                    line.get("scheme", "{scheme}"),
                    str(line["setting"]),
                    units[column],
                    published.get(column, ""),
                )
            )
            known = None if pd.isna(group.get(key)) else group[key]
            row = row_of(quantity, scheme, setting, known, list(mine[column]), unit)
            if lows:
                low, high = (float(mine[ends[column]].iloc[0]) for ends in (lows, highs))
                row = replace(row, low=low, high=high)
            yield row


def _chosen(frame: pd.DataFrame, only: str) -> pd.DataFrame:
    for condition in parts_of(only):
        column, _, values = condition.partition("=")
        frame = frame[frame[column].isin([value_of(text) for text in values.split("|")])]
    return frame


def shown_rows(title: str, rows: Iterable[Row], note: str = "") -> Table:
    """Return a table of rows for the screen, with errors as shares of positive published values.

    A quantity, scheme or unit that all rows share is in the note. Published values, errors and ends
    that no row has are left out.
    """
    frame = pd.DataFrame(row.as_dict() for row in rows)
    published = frame.published.astype(float)
    frame["error"] = frame.simulated / published.where(published > 0) - 1.0
    ends = zip(frame.low, frame.high, strict=True)
    frame["ends"] = [None if low == high else f"{low:.4g} to {high:.4g}" for low, high in ends]
    shared = [name for name in ("quantity", "scheme", "unit") if frame[name].nunique() == 1]
    empty = [name for name in ("published", "error", "ends") if frame[name].isna().all()]
    columns = {name: how for name, how in _SHOWN.items() if name not in (*shared, *empty)}
    alike = ", ".join(frame[name][0] for name in shared if frame[name][0] != "1")
    return columns_of(title, frame, columns, "; ".join(filter(None, (alike, note))))


class Study(ABC):
    """A published comparison, or a question of our own: see the module's docstring."""

    default_seeds: ClassVar[int] = 3
    scaled_by: ClassVar[frozenset[str]] = frozenset({"full", "seeds"})
    """Options of the command that have an effect: those by which its stage is larger."""
    float_format: ClassVar[str | None] = None
    """How numbers are written as CSV; None for all their digits."""
    charts: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Figures by file name: the function that draws one, and the results that it is given."""
    within: ClassVar[float] = 0.05
    """How far off a value may be that meets a claim, as a share of the published one."""

    @classmethod
    def folder(cls) -> str:
        """Return the name of the study's folder."""
        return cls.__module__.split(".")[-2]

    @classmethod
    def claims(cls) -> tuple[dict[str, Any], ...]:
        """Return all that is claimed: ``data/claims.csv`` of the study (`studies.claims`)."""
        return rows_if_any(cls.folder(), "claims")

    def verdicts(self, results: Results) -> Verdicts:
        """Return the verdicts of rows that the study judges itself; claims judge all others."""
        return {}

    def kinds(self, results: Results) -> Kinds:
        """Return the kinds of rows that the study states itself; claims state all others."""
        return {}

    @abstractmethod
    def simulate(self, stage: Stage) -> Results:
        """Run and compute everything."""

    def row_tables(self, results: Results) -> Mapping[str, Any]:
        """Return the tables of which ``data/rows.csv`` lists rows: by default the results."""
        return results

    def rows(self, results: Results) -> Iterable[Row]:
        """Return every result: by default those that ``data/rows.csv`` lists (`listed_rows`)."""
        return listed_rows(self.folder(), self.row_tables(results))

    def compared(self, results: Results) -> list[Row]:
        """Return the rows, each with its published value where one is listed."""
        return list(beside_published(self.folder(), self.rows(results)))

    def records(self, results: Results, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return what programs read: by default the rows."""
        return [row.as_dict() for row in rows]

    def tables(self, results: Results) -> Tables:
        """Return what is written as CSV: by default all results that are tables."""
        return {name: one for name, one in results.items() if isinstance(one, pd.DataFrame)}

    def figures(self, results: Results) -> Mapping[str, Draw]:
        """Return what is drawn, by file name: by default the study's `charts`."""
        return {
            name: partial(draw, *(results[each] for each in given))
            for name, (draw, *given) in self.charts.items()
        }

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterable[Table | Any]:
        """Return what is printed, in order: tables, sentences, anything that rich prints.

        By default this is one table of the rows that have a published value.
        """
        compared = [row for row in rows if row.published is not None]
        yield shown_rows("Published and simulated", compared)

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say what came out."""
        return ()
