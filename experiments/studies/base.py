"""A study: a published comparison that is simulated again, or a question of our own.

A study says what is to be simulated and what becomes of it; the runner (`studies.runner`) does the
rest: progress, going on where it was killed, CSV, the screen, JSON. A study's life::

    run(stage)              runs and computes everything; tables and other results, by name
    row_tables(results)      the tables of which ``data/rows.csv`` lists the rows
    rows(results)            every result; ``data/published_values.csv`` has what is published
    tables(results)          what is written as CSV, by name
    figures(results)         what is drawn, by file name
    shown(results, rows)     what people read on the screen, as ``data/screen.csv`` lists it
    headline(results, rows)  what came out, in a sentence or two
    records(results, rows)   what programs read as JSON: the rows

A subclass in ``studies/NAME/study.py`` joins the registry; the docstring of ``studies/NAME`` is its
summary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import cycle
from statistics import fmean, stdev
from typing import Any, ClassVar, Literal

import pandas as pd
from faultline.experiments.analysis.comparison import compare
from faultline.experiments.analysis.intervals import half_width, interval_of_mean
from faultline.experiments.analysis.quantities import quantity as known_quantity
from faultline.experiments.report.tables import Columns, Table, columns_of, wide_table
from faultline.experiments.studies.data import rows_if_any, value_if_published, value_of
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


def rows_by(
    frame: pd.DataFrame,
    keys: Sequence[str],
    quantities: Mapping[str, str],
    setting: str | Callable[..., str],
    scheme: str | Callable[..., str] = "{strategy}",
    published: Callable[..., float | None] | None = None,
    names: Mapping[str, str] | None = None,
    ends: Mapping[str, tuple[str, str]] | None = None,
) -> Iterator[Row]:
    """Yield a row for each group of a table and each quantity; the group's values are its seeds.

    A quantity that a group has no value of gives no row.

    Parameters
    ----------
    frame : DataFrame
        A row a run, or a row a result.
    keys : sequence of str
        Columns that make a group; groups come in the order of the table.
    quantities : mapping
        Columns that are measured, with their units; these may be format strings of the keys.
    setting, scheme : str or callable
        Texts of the row: format strings of the keys and of ``column``, or functions of these as
        keywords.
    published : callable, optional
        Returns the published value; called with the measured column, and the keys as keywords.
    names : mapping, optional
        What columns are called in the rows, where that is not their name; format strings, too.
    ends : mapping, optional
        Columns with the ends of the interval by measured column, of groups of one row; those over
        seeds if None.
    """
    for found, mine in frame.groupby(list(keys), sort=False, dropna=False):
        group = dict(zip(keys, found, strict=True))
        for column, unit in quantities.items():
            if mine[column].isna().all():
                continue
            known = published(column, **group) if published else None
            name = (names or {}).get(column, column).format(column=column, **group)
            texts = _text(scheme, column, group), _text(setting, column, group)
            row = row_of(name, *texts, known, list(mine[column]), unit.format(**group))
            if ends:
                low, high = (float(mine[end].iloc[0]) for end in ends[column])
                row = replace(row, low=low, high=high)
            yield row


def beside_published(study: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows, each with its published value where the study lists one."""
    for row in rows:
        known = value_if_published(study, row.quantity, row.scheme, row.setting)
        yield row if known is None else replace(row, published=known)


def listed_rows(
    study: str, tables: Mapping[str, Any], of: Collection[str] | None = None
) -> Iterator[Row]:
    """Yield the rows that ``data/rows.csv`` of a study lists, in its order (`rows_by`).

    These are the rows of all tables, or of some (`of`).

    Columns of that list:

    - ``table``: one of the tables; ``only``: the rows of it that are used, as
      ``column=value|value`` parted by "; " (all if empty); ``keys``: columns that make a group,
      parted by "; ".
    - ``columns``: measured columns, parted by "; "; ``unit``: a unit for each, or one for all.
    - ``quantity``, ``scheme``, ``setting``: texts of the row, as format strings of the keys and of
      ``column``. Quantities may be several, as units; they are the columns' names if empty.
    - ``low``, ``high``: columns with the ends of the interval, one or several; those over seeds if
      empty.
    - ``published``: the key that is the published value, one or several, as format strings of
      ``column``; without such a key, or a value, nothing is published.
    """
    for line in rows_if_any(study, "rows"):
        if of is not None and line["table"] not in of:
            continue
        frame = _chosen(tables[line["table"]], line.get("only", ""))
        keys = _parts(line["keys"])
        texts = str(line["setting"]), line.get("scheme", "{scheme}")
        units, names, published = (
            _by_column(line, name) for name in ("unit", "quantity", "published")
        )
        known = partial(_published_key, published) if published else None
        low, high = _by_column(line, "low"), _by_column(line, "high")
        ends = {column: (low[column], high[column]) for column in low}
        yield from rows_by(frame, keys, units, *texts, known, names, ends)


def _by_column(line: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the parts of a cell by the measured columns; one part is that of all of them."""
    parts = _parts(str(line.get(name, "")))
    return dict(zip(_parts(line["columns"]), cycle(parts), strict=False)) if parts else {}


def listed_tables(
    study: str, tables: Mapping[str, Any], of: Collection[str] | None = None
) -> Iterator[Table]:
    """Yield the tables for the screen that ``data/screen.csv`` of a study lists, in its order.

    These are made of all tables, or of some (`of`). An empty table, of a part that was not
    simulated, is left out.

    Columns of that list:

    - ``title``; ``table`` and ``only``, as in ``data/rows.csv`` (`listed_rows`).
    - ``keys``: columns that distinguish the rows, parted by "; ".
    - ``columns``: measured columns, parted by "; "; a cell is the mean over the rows of the table
      with its keys. ``format``: a format string for each column, or one for all.
    - ``across``: a column with schemes, say. Each of its values has a column, and each measured
      column a table, which its title may name as ``{column}``.
    """
    for line in rows_if_any(study, "screen"):
        if of is not None and line["table"] not in of:
            continue
        frame = _chosen(tables[line["table"]], line.get("only", ""))
        if frame.empty:
            continue
        keys, columns, formats = (_parts(line[name]) for name in ("keys", "columns", "format"))
        formatted = dict(zip(columns, cycle(formats), strict=False))
        heads = {name: _heading(name) for name in keys}
        if "across" in line:
            for column, how in formatted.items():
                title = line["title"].format(column=_heading(column))
                yield wide_table(title, frame, heads, line["across"], column, how)
        else:
            means = frame.groupby(keys, sort=False, dropna=False)[columns].mean().reset_index()
            measured = {name: (_heading(name), how) for name, how in formatted.items()}
            yield columns_of(line["title"], means, {**heads, **measured})


def _heading(column: str) -> str:
    unit = " (s)" if column.endswith("_s") else ""
    return column.removesuffix("_s").replace("_", " ") + unit


def _chosen(frame: pd.DataFrame, only: str) -> pd.DataFrame:
    for condition in _parts(only):
        column, _, values = condition.partition("=")
        frame = frame[frame[column].isin([value_of(text) for text in values.split("|")])]
    return frame


def _published_key(names: Mapping[str, str], column: str, **group: Any) -> float | None:
    value = group.get(names[column].format(column=column))
    return None if pd.isna(value) else value


def _parts(text: str) -> list[str]:
    return text.split("; ") if text else []


def _text(text: str | Callable[..., str], column: str, group: Mapping[str, Any]) -> str:
    return (text.format if isinstance(text, str) else text)(column=column, **group)


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


def changes_against(
    runs: pd.DataFrame, by: str, baseline: str, axes: Sequence[str], metric: str
) -> pd.DataFrame:
    """Compare each value of an axis with the baseline, seed by seed (`comparison.compare`).

    Beside ``change`` are ``change_low`` and ``change_high``: its 95 % interval by paired t, all
    three as fractions of the baseline's mean.
    """
    table = compare(runs, by, baseline, axes, metric)
    ends = {f"change_{end}": table[end] / table["baseline_mean"] for end in ("low", "high")}
    return table.assign(**ends)


def row_of_change(quantity: str, scheme: str, setting: str, change: Any) -> Row:
    """Return a row of `changes_against` as a result; a single seed has no interval."""
    ends = (change.change_low, change.change_high)
    low, high = (change.change if pd.isna(end) else end for end in ends)
    return Row(quantity, scheme, setting, None, change.change, low, high, "1")


def change_text(change: Any) -> str:
    """Write a row of `changes_against` in per cent with half the width of its interval."""
    if pd.isna(change.change):
        return ""
    text = f"{100 * change.change:+.1f}"
    half = change.change_high - change.change
    return text if pd.isna(half) else f"{text} ± {100 * half:.1f}"


class Study(ABC):
    """A published comparison, or a question of our own: see the module's docstring."""

    default_seeds: ClassVar[int] = 3
    scaled_by: ClassVar[frozenset[str]] = frozenset({"full", "seeds"})
    """Options of the command that have an effect: those by which its stage is larger."""
    float_format: ClassVar[str | None] = None
    """How numbers are written as CSV; None for all their digits."""
    charts: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Figures by file name: the function that draws one, and the results that it is given."""
    titles: ClassVar[Mapping[str, str]] = {}
    """Titles of the rows on the screen, by their table in ``data/rows.csv``."""

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

        By default these are tables of the rows that have a title (`titles`), and those that
        ``data/screen.csv`` lists (`listed_tables`): of what rows are made of, and the rows with a
        value that is ``published``.
        """
        tables = self.row_tables(results)
        for name, title in self.titles.items():
            mine = listed_rows(self.folder(), tables, [name])
            yield shown_rows(title, beside_published(self.folder(), mine))
        compared = [row.as_dict() for row in rows if row.published is not None]
        yield from listed_tables(self.folder(), {**tables, "published": pd.DataFrame(compared)})

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say what came out."""
        return ()
