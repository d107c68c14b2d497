"""Traces of failures in CSV: read, with all mistakes counted, and written."""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from difflib import get_close_matches
from functools import lru_cache
from io import BytesIO, StringIO, TextIOWrapper
from math import isfinite, nan
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
from faultline.experiments.config.errors import FORMULA, UserError, and_more, quote
from faultline.platforms.errors import PlatformError
from faultline.platforms.files import read_file, write_file
from faultline.platforms.units import parse_time_s
from faultline.simulator.failures.failure import (
    KINDS,
    LEVELS,
    RULES,
    STOPPING,
    Failure,
    JobLayout,
    Kind,
    Level,
)
from faultline.simulator.failures.failure import UNSTATED_CAUSE as UNSTATED
from faultline.simulator.failures.recorded import COLUMN_TYPES, RecordedFailures

COLUMNS = ("time", "component", "cause", "kind", "repair", "lasts", "factor")
REQUIRED = ("time", "component")
LARGEST_BYTES = 2**28
MOST_CAUSES = 200
MOST_MISTAKES = 99
_MOST_PARTS = 10**7
_MOST_REMEMBERED = 200_000


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_COMPONENT = re.compile(rf"({'|'.join(LEVELS[:-1])})-(\d{{1,15}})|job")
_LATEST_S = 1e15


_Read = TypeVar("_Read")


class _CellError(ValueError):
    """A mistake in a cell, and its remedy."""


@dataclass(slots=True)
class _TraceReader:
    """Turns the cells of a row into values of the columns of `RecordedFailures`."""

    layout: JobLayout  # The components, and the groups that fail with each.
    start: datetime | None  # Time 0, if times are timestamps.
    causes: dict[str, int] = field(default_factory=dict)
    read_rest: Callable[..., tuple[float, ...]] = field(init=False)

    def __post_init__(self) -> None:
        """Remember rows that differ by their times only."""
        self.read_rest = lru_cache(_MOST_REMEMBERED)(self._rest)

    def of_rows(self, cells: list[str], place: str) -> Callable[[list[str]], tuple[float, ...]]:
        """Return the reader of rows below a header."""
        header = _header(cells, place)
        # A missing column is empty in all rows.
        chosen = itemgetter(*(header.index(c) if c in header else -1 for c in COLUMNS))

        def read(row: list[str]) -> tuple[float, ...]:
            time, *rest = chosen([*row, ""])
            return self.time_s(time), *self.read_rest(*rest)

        return read

    def _rest(self, *cells: str) -> tuple[float, ...]:
        """Return the values of a row but its time; the cells are in the order of `COLUMNS`."""
        component, cause, kind, repair, lasts, factor = cells
        level, number, first, end = self._component(component)
        known_cause = self.causes.setdefault(cause_of(cause), len(self.causes))
        place = kind_place(kind)
        repair_s, lasts_s = _seconds_or(nan, "repair", repair), _seconds_or(0.0, "lasts", lasts)
        more = lasts_s, _factor(factor)
        _check_kind(KINDS[place], lasts=lasts, factor=factor)
        return level, number, known_cause, place, repair_s, first, end, *more

    def time_s(self, text: str) -> float:
        if DATE.match(text):
            if self.start is None:
                raise _CellError(
                    f"time {quote(text)} is a timestamp: set failures.trace_start to the moment at "
                    "which the job starts"
                )
            return (parse_timestamp(text) - self.start).total_seconds()
        if self.start is not None:
            raise _CellError(
                f"time {quote(text)} is no timestamp, but failures.trace_start is set; write "
                "2024-05-01T12:00:00, or unset it"
            )
        return seconds_of("time", text)

    def _component(self, text: str) -> tuple[int, int, int, int]:
        """Return level and number of a component, its first group and the one after its last."""
        match = _COMPONENT.fullmatch(text)
        if match is None:
            raise _CellError(
                f"component {quote(text)} is unknown: write "
                f"{', '.join(f'{level}-0' for level in LEVELS[:-1])} or job"
            )
        level: Level = next(known for known in LEVELS if known == (match[1] or "job"))
        number, existing = int(match[2] or 0), self.layout.components(level)
        if not self.layout.gpus_per_component(level):
            # Only the platform knows their number.
            existing = _MOST_PARTS
        if number >= existing:
            raise _CellError(f"component {text}: the job has {level}-0 to {level}-{existing - 1}")
        groups = self.layout.groups_of(level, number)
        return LEVELS.index(level), number, groups.start, groups.stop


def _check_kind(kind: Kind, **cells: str) -> None:
    """Refuse a failure whose kind needs an empty cell, or has no use for a filled one."""
    rule = RULES[kind]
    for name, has in (("lasts", rule.lasts), ("factor", rule.factor)):
        if not cells[name] and has == "always":
            raise _CellError(f"a failure of kind {kind} needs a cell {name}")
        if cells[name] and has == "never":
            raise _CellError(f"a failure of kind {kind} has no {name}; leave it empty")


def read_trace(path: Path, layout: JobLayout, start: datetime | None = None) -> RecordedFailures:
    """Read a trace: a CSV file whose header names some of `COLUMNS`, at least those `REQUIRED`.

    Times are in seconds, or have a unit. `time` may be a timestamp: `start` is then time 0, and
    earlier failures are left out. Rows of the same time keep their order.

    Raises UserError if there is no such file, or it is no trace; names the line of the first
    mistake and the number of others.
    """
    reader = _TraceReader(layout, start)
    columns: dict[str, Any] = {
        name: array(np.dtype(kind).char) for name, kind in COLUMN_TYPES.items()
    }
    # Row by row: the columns take less memory than their texts.
    appends = [column.append for column in columns.values()]
    try:
        for values in rows_of(path, _lines_of(path), reader.of_rows):
            for append, value in zip(appends, values, strict=True):
                append(value)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: this is no CSV: it is not UTF-8 text") from error
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    recorded = RecordedFailures(**arrays, causes=tuple(reader.causes))
    if recorded and recorded.time_s.min() < 0.0:
        recorded = recorded.select(np.flatnonzero(recorded.time_s >= 0.0))
    recorded = recorded.in_order_of_time()
    _check_causes(recorded.causes, path)
    if not recorded:
        after = "" if start is None else " from failures.trace_start on"
        raise UserError(f"{path}: there is no failure in it{after}; write one row per failure")
    return recorded


def _check_causes(causes: Collection[str], path: Path) -> None:
    if len(causes) > MOST_CAUSES:
        raise UserError(
            f"{path}: has {len(causes):,} causes; sum them up to at most {MOST_CAUSES}, "
            "such as gpu, host, network, software"
        )


def rows_of(
    path: Path,
    lines: Iterable[str],
    reader_of: Callable[[list[str], str], Callable[[list[str]], _Read]],
    **form: Any,
) -> Iterator[_Read]:
    """Yield the value that a reader makes of each row of a CSV file.

    `reader_of` takes the cells of the header and its place. The function that it returns reads the
    cells of a row, and raises ValueError for a mistake. Cells have no blanks around them. Empty
    rows are left out. `form` is as in `csv.reader`.

    Raises UserError after the last row, or after `MOST_MISTAKES`; names the first mistake and the
    number of others.
    """
    header: list[str] = []
    mistakes: list[str] = []
    read: Callable[[list[str]], _Read] | None = None
    for line, cells in numbered_rows(path, lines, mistakes, **form):
        if read is None:
            header, read = cells, reader_of(cells, f"{path}:{line}")
            continue
        try:
            check_width(cells, header)
            found = read(cells)
        except ValueError as error:
            mistakes.append(f"{path}:{line}: {error}")
            if len(mistakes) > MOST_MISTAKES:
                break
        else:
            yield found
    if mistakes:
        # Reading has stopped after `MOST_MISTAKES`, so there may be more.
        at_least = "at least " if len(mistakes) > MOST_MISTAKES else ""
        raise UserError(mistakes[0] + and_more(len(mistakes) - 1, at_least))


def numbered_rows(
    path: Path, lines: Iterable[str], mistakes: list[str], **form: Any
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the cells of each row that is not empty, without blanks around cells.

    What is no CSV ends the rows and is appended to `mistakes`, with its place.
    """
    rows = csv.reader(lines, strict=True, skipinitialspace=True, **form)
    try:
        for row in rows:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield rows.line_num, cells
    except csv.Error as error:
        mistakes.append(f"{path}:{rows.line_num}: this is no CSV: {error}")


def check_width(cells: Sequence[str], header: Sequence[str]) -> None:
    """Raise a ValueError if a row has more or fewer cells than its header."""
    if len(cells) != len(header):
        raise _CellError(
            f"has {len(cells)} cells where the header has {len(header)}: {', '.join(header)}"
        )


def write_trace(failures: Iterable[Failure], path: Path) -> None:
    """Write failures so that `read_trace` returns equal ones.

    Raises UserError if there are more causes than a trace may have, and OSError if the file cannot
    be written.
    """
    text = StringIO(newline="")
    rows = csv.writer(text)
    written = list(failures)
    _check_causes({failure.cause for failure in written}, path)
    # Failures that stop a component need no lasts and no factor.
    more = any(failure.kind not in STOPPING for failure in written)
    rows.writerow(COLUMNS if more else COLUMNS[:-2])
    for failure in written:
        repair = "" if failure.repair_s is None else repr(failure.repair_s)
        row = [repr(failure.time_s), failure.component, failure.cause, failure.kind, repair]
        if more:
            row.append(repr(failure.lasts_s) if RULES[failure.kind].lasts != "never" else "")
            row.append(repr(failure.factor) if RULES[failure.kind].factor != "never" else "")
        rows.writerow(row)
    write_file(path, text.getvalue())


def parse_timestamp(text: str) -> datetime:
    """Read a timestamp of ISO 8601, in UTC if it has no time zone.

    Raises ValueError if it is invalid; the message names the remedy.
    """
    try:
        # Python 3.10 does not read the Z.
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text.strip()))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise _CellError(f"{quote(text)} is no timestamp; write 2024-05-01T12:00:00") from None


def _lines_of(path: Path) -> Iterable[str]:
    try:
        content = read_file(path, LARGEST_BYTES)
    except OSError as error:
        raise UserError(
            f"failures.trace = {quote(str(path))}: {error.strerror}; name a CSV file"
        ) from error
    # Spreadsheets write a byte order mark.
    return TextIOWrapper(BytesIO(content), encoding="utf-8-sig", newline="")


def _header(cells: list[str], place: str) -> list[str]:
    names = [cell.lower() for cell in cells]
    if wrong := wrong_columns(names, names, COLUMNS, len(REQUIRED)):
        raise UserError(
            f"{place}: {wrong}; the first line names the columns; 'faultline failures import' "
            "makes a trace of a CSV file with other columns"
        )
    return names


def wrong_columns(
    found: Sequence[str], names: Sequence[str], columns: Sequence[str], needed: int
) -> str:
    """Return all mistakes in the columns of a CSV file, as one text; empty if there are none.

    The header has the columns `found`, which are read as `names`. A file may have the `columns`,
    and the first `needed` of them are required.
    """
    unknown = [column for column, name in zip(found, names, strict=True) if name not in columns]
    missing = [name for name in columns[:needed] if name not in names]
    twice = sorted({name for name in names if name in columns and names.count(name) > 1})
    quoted = []
    for column in unknown:
        likely = get_close_matches(column.lower(), columns, n=1)
        quoted.append(quote(column) + "".join(f" (did you mean {name!r}?)" for name in likely))
    mistakes = [f"unknown column {', '.join(quoted)}"] if quoted else []
    if missing:
        mistakes.append(f"{_columns(missing)} missing")
    if twice:
        mistakes.append(f"{_columns(twice)} stated twice")
    if not mistakes:
        return ""
    return (
        f"{'; '.join(mistakes)}; found: {', '.join(map(quote, found))}; required: "
        f"{', '.join(columns[:needed])}; optional: {', '.join(columns[needed:])}"
    )


def _columns(names: Sequence[str]) -> str:
    plural = len(names) > 1
    return f"column{'s' * plural} {', '.join(names)} {'are' if plural else 'is'}"


def cause_of(text: str) -> str:
    """Read a cause; an empty one is `UNSTATED`.

    Raises ValueError if it is invalid, as the other readers of cells; the message names the remedy.
    """
    if len(text) > 60 or not text.isprintable():
        raise _CellError(
            f"cause {quote(text)} is too long or unprintable; write at most 60 characters"
        )
    if text.startswith(FORMULA):
        raise _CellError(
            f"cause {quote(text)} is a formula to a spreadsheet; begin it with a letter"
        )
    return text or UNSTATED


def kind_place(text: str) -> int:
    """Return the place of a kind of failure in `KINDS`; an empty one is hardware."""
    found = {kind: place for place, kind in enumerate(KINDS)} | {"": KINDS.index("hardware")}
    if text.lower() not in found:
        raise _CellError(
            f"kind {quote(text)} is unknown; write {', '.join(get_args(Kind))} or nothing"
        )
    return found[text.lower()]


def _seconds_or(default_s: float, column: str, text: str) -> float:
    return seconds_of(column, text) if text else default_s


def _factor(text: str) -> float:
    if text and not (_NUMBER.fullmatch(text) and 1.0 <= float(text) <= 1000.0):
        raise _CellError(f"factor {quote(text)} is invalid; write a number from 1 to 1000")
    return float(text) if text else 1.0


def seconds_of(column: str, text: str, unit_s: float = 1.0) -> float:
    """Return a time in seconds; a number without a unit counts units of `unit_s` seconds."""
    try:
        seconds = float(text) * unit_s if _NUMBER.fullmatch(text) else parse_time_s(text)
    except PlatformError:
        raise _CellError(
            f"{column} {quote(text)} is no time; write seconds, or 90min or 3h"
        ) from None
    if not isfinite(seconds) or not 0.0 <= seconds <= _LATEST_S:
        raise _CellError(
            f"{column} {quote(text)} is out of range: write 0 to {_LATEST_S:g} seconds"
        )
    return seconds
