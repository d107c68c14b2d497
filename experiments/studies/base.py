"""A study: a published comparison that is simulated again, or a question of our own.

A study defines its simulations and its results. The runner (`studies.runner`) does the rest:
progress, resumption after a kill, CSV, the screen, JSON. It calls these methods in order::

    run(stage)              runs and computes everything; tables and other results, by name
    row_tables(results)      the tables of which ``data/rows.csv`` lists the rows
    rows(results)            every result; ``data/published_values.csv`` has published values
    tables(results)          tables for CSV, by name
    figures(results)         figures, by file name
    headline(results, rows)  the main result, published against simulated, in a few lines
    records(results, rows)   rows for programs, as JSON

A subclass in ``studies/NAME/study.py`` joins the registry; the docstring of ``studies/NAME`` is its
summary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import cycle
from statistics import fmean, stdev
from typing import Any, ClassVar, Literal

import faultline.experiments.figures.safe_matplotlib  # noqa: F401 - before Matplotlib
import pandas as pd
from faultline.experiments.analysis.intervals import half_width, interval_of_mean
from faultline.experiments.analysis.quantities import quantity as known_quantity
from faultline.experiments.report.tables import Table, columns_of
from faultline.experiments.studies.data import parts_of, rows_if_any, value_if_published, value_of
from faultline.experiments.studies.stage import Stage
from matplotlib.figure import Figure

Results = dict[str, Any]
"""Simulated and computed results of a study, by name."""
Headline = Iterable[Table | str]
"""The main result of a study: tables and sentences, a few lines together."""
Tables = dict[str, pd.DataFrame]
"""Tables of a study by name; each becomes a CSV file of that name."""
Kind = Literal[
    "prediction", "input", "arithmetic", "calibrated", "same constant", "other simulator"
]
"""Whether a met row is evidence. Only a "prediction" of the model is. Other kinds are not, or less:
"input": the published value is an input; "arithmetic": it follows from inputs whatever is
simulated, such as an input times a share that has its own row; "calibrated": a constant was chosen
by this value; "same constant": another row tests the same constant; "other simulator": the value
comes from another simulator or formula instead of a measurement."""
Draw = Callable[[], Figure]
"""Draws a figure in the common style."""


@dataclass(frozen=True, slots=True)
class Row:
    """One number beside its published counterpart."""

    # The measured quantity, its scheme and its setting.
    quantity: str
    scheme: str
    setting: str
    published: float | None  # The published value, if there is one.
    simulated: float  # Mean over seeds.
    # 95 % confidence interval of the mean over seeds; equal to it for a single value.
    low: float
    high: float
    unit: str  # Unit of the numbers; "1" for a pure number.
    # Kind and verdict if the study states them itself; claims state all others.
    kind: Kind | None = None
    verdict: str | None = None

    @property
    def names(self) -> tuple[str, str, str]:
        """Quantity, scheme and setting."""
        return self.quantity, self.scheme, self.setting

    def text(self, value: float) -> str:
        """Return a value of the row with its unit."""
        return f"{value:.3g}" if self.unit == "1" else f"{value:.3g} {self.unit}"

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a flat mapping, without its kind and verdict."""
        fields = asdict(self)
        del fields["kind"], fields["verdict"]
        return fields


def row_of(
    quantity: str,
    scheme: str,
    setting: str,
    published: float | None,
    values: Sequence[float],
    unit: str,
) -> Row:
    """Return the row of a quantity with one measurement per seed."""
    mean = fmean(values)
    low = high = mean
    if len(values) > 1:
        half = half_width(stdev(values), len(values))
        ends = interval_of_mean(mean, half, share=known_quantity(quantity).share)
        low, high = (float(end) for end in ends)
    return Row(quantity, scheme, setting, published, mean, low, high, unit)


def beside_published(study: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows, each with its published value if the study lists one."""
    for row in rows:
        known = value_if_published(study, row.quantity, row.scheme, row.setting)
        yield row if known is None else replace(row, published=known)


def listed_rows(study: str, tables: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows that ``data/rows.csv`` of a study lists for some tables, in its order.

    Each group of a table has a row per measured column. The group's values are its seeds. A column
    without a value has no row. Columns of that list:

    - ``table``; ``only``: a filter of its rows, as ``column=value|value`` separated by "; " (all
      rows if empty); ``keys``: columns that identify a group, separated by "; ".
    - ``columns``: measured columns, separated by "; "; ``unit``: a unit for each, or one for all.
    - ``quantity``, ``scheme``, ``setting``: texts of the row, as format strings of the keys and of
      ``column``. Several quantities are possible, as for units; empty means the columns' names.
    - ``low``, ``high``: columns with the ends of the interval, one or several; empty means the
      interval over seeds.
    - ``published``: the key with the published value, one or several, as format strings of
      ``column``. Without such a key or value, the row has no published value.

    If ``kind`` or ``verdict`` are keys, the study states them itself.
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
            row = replace(row, kind=group.get("kind"), verdict=group.get("verdict"))
            if lows:
                low, high = (float(mine[ends[column]].iloc[0]) for ends in (lows, highs))
                row = replace(row, low=low, high=high)
            yield row


def _chosen(frame: pd.DataFrame, only: str) -> pd.DataFrame:
    for condition in parts_of(only):
        column, _, values = condition.partition("=")
        frame = frame[frame[column].isin([value_of(text) for text in values.split("|")])]
    return frame


def headline_table(
    title: str, labelled: Mapping[str, tuple[str, str, str]], rows: Sequence[Row]
) -> Table:
    """Return published values beside simulated ones: a line per label that has rows.

    Several rows of a label are a range: of a sweep, or of settings.
    """
    lines = []
    for label, patterns in labelled.items():
        mine = [row for row in rows if all(map(fnmatchcase, row.names, patterns))]
        if mine:
            low, high = min(row.low for row in mine), max(row.high for row in mine)
            between = None if low == high else f"{low:.3g} to {high:.3g}"
            known = {row.published for row in mine if row.published is not None}
            lines.append(
                {
                    "": label,
                    "published": " to ".join(map(mine[0].text, sorted({*_ends(known)}))),
                    "simulated": mine[0].text(mine[0].simulated) if len(mine) == 1 else None,
                    "between": between,
                }
            )
    frame = pd.DataFrame(lines, columns=["", "published", "simulated", "between"])
    shown = {name: (name, str) if name else name for name in frame if not frame[name].isna().all()}
    return columns_of(title, frame, shown)


def errors_table(title: str, predicted: pd.DataFrame, by: str, error: str, within: float) -> Table:
    """Return how many predictions are within a tolerance, and their errors, a line per group."""
    lines = []
    for group, errors in predicted.groupby(by, sort=False)[error]:
        sizes = errors.abs()
        lines.append((group, f"{(sizes <= within).sum()} of {len(errors)}", sizes.median(),
                      errors[sizes.idxmax()]))  # fmt: skip
    frame = pd.DataFrame(lines, columns=[by, "met", "median", "worst"])
    shown = {"median": ("median error", "{:.1%}"), "worst": ("worst", "{:+.0%}")}
    return columns_of(title, frame, {by: by, "met": ("met", str), **shown})


def _ends(values: Collection[float]) -> Iterator[float]:
    if values:
        yield from (min(values), max(values))


class Study(ABC):
    """A published comparison, or a question of our own: see the module's docstring."""

    default_seeds: ClassVar[int] = 3
    scaled_by: ClassVar[frozenset[str]] = frozenset({"full", "seeds"})
    """Options of the command that have an effect: they make the stage larger."""
    float_format: ClassVar[str | None] = None
    """Number format of the CSV; None for all digits."""
    charts: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Figures by file name: the drawing function, and the names of its results."""
    headline_title: ClassVar[str] = ""
    headline_rows: ClassVar[Mapping[str, tuple[str, str, str]]] = {}
    """Rows of the headline by label: patterns of their quantity, scheme and setting."""
    within: ClassVar[float] = 0.05
    """Tolerance of claims, as a share of the published value."""

    @classmethod
    def folder(cls) -> str:
        """Return the name of the study's folder."""
        return cls.__module__.split(".")[-2]

    @classmethod
    def claims(cls) -> tuple[dict[str, Any], ...]:
        """Return all claims: ``data/claims.csv`` of the study (`studies.claims`)."""
        return rows_if_any(cls.folder(), "claims")

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
        """Return the rows, each with its published value if one is listed."""
        return list(beside_published(self.folder(), self.rows(results)))

    def records(self, results: Results, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return the rows for JSON: by default all."""
        return [row.as_dict() for row in rows]

    def tables(self, results: Results) -> Tables:
        """Return the tables for CSV: by default all results that are tables."""
        return {name: one for name, one in results.items() if isinstance(one, pd.DataFrame)}

    def figures(self, results: Results) -> Mapping[str, Draw]:
        """Return the figures by file name: by default the study's `charts`."""
        return {
            name: partial(draw, *(results[each] for each in given))
            for name, (draw, *given) in self.charts.items()
        }

    def headline(self, results: Results, rows: Sequence[Row]) -> Headline:
        """Return the main result, published against simulated: tables or sentences.

        By default this is a table of `headline_rows`.
        """
        yield headline_table(self.headline_title, self.headline_rows, rows)
