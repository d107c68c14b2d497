"""Logs of failures in CSV: by nodes with a cause, or lost time by its names (badput)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from io import StringIO
from math import inf
from pathlib import Path
from typing import NamedTuple, TypeVar

from faultline.experiments.config.errors import UserError, did_you_mean, quote
from faultline.experiments.config.logs.failure_log import FailureLog, LogFile, Logged, Tally
from faultline.experiments.config.logs.slurm_rows import SOUND
from faultline.experiments.config.trace_file import (
    DATE,
    cause_of,
    check_width,
    kind_place,
    numbered_rows,
    parse_timestamp,
    seconds_of,
    wrong_columns,
)
from faultline.simulator.accounting.badput import BADPUT_TYPES
from faultline.simulator.failures.failure import KINDS

_COLUMNS = ("time", "node", "cause", "kind", "repair")
_BADPUT_COLUMNS = ("time", "badput", "seconds", "node")
_RECOVERY = BADPUT_TYPES["restart"]
_DISRUPTED = frozenset(BADPUT_TYPES[cause] for cause in ("restart", "repeated", "reconfigure"))
_BADPUT_NAMES = frozenset(
    (
        *BADPUT_TYPES.values(), "TPU_INITIALIZATION", "TRAINING_PREP", "PROGRAM_STARTUP",
        "DATA_LOADING_SYNC", "DATA_LOADING_ASYNC", "OTHER",
    )
)  # fmt: skip
"""Names of lost time in Google's ml-goodput-measurement."""
_NO_FAILURES = (SOUND - {"PREEMPTED"}) | {"SUCCESS", "SUCCEEDED", "PASS", "PASSED", "OK"}
"""States of jobs that are no cause of a failure."""
_TOUCHING_S = 1.0
"""Lost times with a shorter gap belong to one failure."""
_TIMES = ("time", "repair", "seconds")
_UNITS_S = {
    name: unit_s
    for names, unit_s in (
        ("ms", 0.001),
        ("s sec secs second seconds", 1.0),
        ("m min mins minute minutes", 60.0),
        ("h hr hrs hour hours", 3_600.0),
        ("d day days", 86_400.0),
    )
    for name in names.split()
}
"""Units, in seconds, at the end of the name of a column, as in ``downtime_min``."""
_UNIT = re.compile(rf"(.*[^_ (-])[_ (-]{{1,3}}({'|'.join(_UNITS_S)})\)?")
_ALIKE = {
    "time": ("date", "when", "start", "began"),
    "node": ("host", "machine", "server", "instance"),
    "cause": ("reason", "type", "error", "category"),
    "kind": ("class",),
    "repair": ("downtime", "down", "duration", "lasted"),
    "badput": ("bucket", "state"),
    "seconds": ("duration", "lost"),
}
"""Words in the names that other logs give to the columns."""
_MONTH_FIRST = re.compile(r"\d{1,2}/\d{1,2}/\d{4}\b")
"""Dates in the tables of LANL."""
_LEAST_UNIX_S = 1e9
"""Larger times are seconds since 1970: no cluster is watched for 30 years."""
ENDS_WITH_LAST = "the log ends with its last failure, which makes rates a little high; give --days"


def read_named(file: LogFile) -> FailureLog:
    """Read a CSV file with node names; times are seconds, have a unit, or are timestamps.

    Raises UserError, which names the first wrong line.
    """
    rows, tally, dropped = _rows(file, _COLUMNS, 2, _row)
    times_s = _after_first([when for when, _, _ in rows], file.path)
    nodes = file.all_nodes(name for _, name, _ in rows)
    failures = sorted(
        failure._replace(time_s=time_s, number=nodes[name])
        for time_s, (_, name, failure) in zip(times_s, rows, strict=True)
    )
    notes = [*tally.notes("failures"), *dropped]
    notes += [] if file.span_s else [ENDS_WITH_LAST]
    if file.nodes is None:
        notes.append("the log names only nodes that failed: give the number of all by --nodes")
    return watched(file.log("CSV", failures, nodes, notes=notes), file.span_s)


def read_badput(file: LogFile) -> FailureLog:
    """Read lost time by the names of ml-goodput-measurement: ``time,badput,seconds,node``.

    A failure starts with the recovery from a disruption, or with its lost progress. Lost time that
    follows without a gap belongs to it. The named node has failed, or an unknown one. The failure
    is repaired when the infrastructure has recovered.

    Raises UserError, which names the first wrong line, or if the number of nodes is unknown.
    """
    rows, tally, dropped = _rows(file, _BADPUT_COLUMNS, 3, _badput)
    if file.nodes is None:
        raise UserError(f"{file.path}: badput does not state the number of nodes; give --nodes N")
    lost = sorted(zip(_after_first([row[0] for row in rows], file.path), rows, strict=True))
    nodes = file.all_nodes(node for *_, node in rows if node)
    failures: list[Logged] = []
    by_type: dict[str, float] = {}
    open_until_s = -inf
    for begin_s, (_, name, lasts_s, node) in lost:
        by_type[name] = by_type.get(name, 0.0) + lasts_s
        if begin_s > open_until_s + _TOUCHING_S:
            if name not in _DISRUPTED:
                continue
            failures.append(Logged(begin_s, "host", None, "disruption", "hardware", None))
        open_until_s = max(open_until_s, begin_s + lasts_s)
        failure = failures.pop()
        if node:
            failure = failure._replace(number=nodes[node])
        if name == _RECOVERY:
            failure = failure._replace(repair_s=(failure.repair_s or 0.0) + lasts_s)
        failures.append(failure)
    log = file.log("badput", failures, nodes)
    if not failures:
        return log
    log = watched(log, file.span_s or max(begin_s + row[2] for begin_s, row in lost))
    shares = sorted(by_type.items(), key=lambda item: -item[1])
    note = ", ".join(f"{name} {lost_s / log.span_s:.2%}" for name, lost_s in shares)
    notes = f"share of the time: {note}", *tally.notes("lost times"), *dropped
    return replace(log, notes=notes)


def delimiter_of(first: str) -> str:
    """Return the character that separates the columns of a CSV file."""
    return max(",;\t", key=first.count)


def watched(log: FailureLog, span_s: float | None) -> FailureLog:
    """Return a log with all nodes watched for a span; by default, until the last failure.

    Raises UserError if a failure is after the end of the span, or if the span is empty.
    """
    last_s = log.failures[-1].time_s
    if span_s is not None and last_s > span_s:
        raise UserError(
            f"--days {span_s / 86_400:g}: {log.name} has a failure after {last_s / 86_400:g} "
            "days; give at least that"
        )
    end_s = last_s if span_s is None else span_s
    if end_s <= 0.0:
        raise UserError(f"{log.name}: all failures are at time 0; give its length by --days")
    return replace(log, span_s=end_s, node_s=end_s * len(log.nodes))


_Read = TypeVar("_Read")


def _rows(
    file: LogFile, columns: Sequence[str], needed: int, read_row: Callable[[_Cells], _Read]
) -> tuple[list[_Read], Tally, list[str]]:
    """Read the rows of a CSV file; of its possible `columns`, the first `needed` are required.

    Returns the rows, the tally of all, and a note on left-out columns.
    """
    tally, mistakes = Tally(file.path), list[str]()
    rows: list[_Read] = []
    seen: set[tuple[str, ...]] = set()
    names: list[str] = []
    header: _Header | None = None
    first = next((line for line in file.text.splitlines() if line.strip()), "")
    lines = StringIO(file.text, newline="")
    for line, cells in numbered_rows(file.path, lines, mistakes, delimiter=delimiter_of(first)):
        if header is None:
            names, header = (
                cells,
                _header(cells, f"{file.path}:{line}", columns, needed, file.columns),
            )
            continue
        tally.read += 1
        if tuple(cells) in seen:
            tally.leave_out("exact duplicates", line)
            continue
        seen.add(tuple(cells))
        try:
            check_width(cells, names)
            rows.append(read_row(header.cells(cells)))
        except _NoFailureError as error:
            tally.leave_out(str(error), line)
        except ValueError as error:
            tally.cannot_read(line, error)
    if mistakes:
        raise UserError(mistakes[0])
    if header is None or not tally.read:
        raise UserError(f"{file.path}: there is no failure in it; write one row per failure")
    tally.check()
    if not rows:
        raise UserError(f"{file.path}: no row is a failure: {tally.notes('failures')[1]}")
    unread = ", ".join(map(quote, header.unread))
    return rows, tally, [f"left out: columns {unread}"] if unread else []


class _NoFailureError(ValueError):
    """A row is of something that did not fail; its text names such rows in the plural."""


class _Cells(NamedTuple):
    """The cells of a row."""

    texts: Mapping[str, str]  # By Faultline's names of the columns.
    units_s: Mapping[str, float]  # Units in seconds, of columns whose names have a unit.

    def text(self, name: str) -> str:
        """Return the text of a cell; empty if there is no such column."""
        return self.texts.get(name, "")

    def seconds(self, name: str) -> float:
        """Return a time in seconds; a number without a unit has that of its column."""
        return seconds_of(name, self.texts[name], self.units_s.get(name, 1.0))

    def when(self) -> float | datetime:
        """Return the row's time."""
        text = self.texts["time"]
        if _MONTH_FIRST.match(text):
            return _month_first(text)
        return parse_timestamp(text) if DATE.match(text) else self.seconds("time")


def _month_first(text: str) -> datetime:
    """Read a date such as ``12/31/2001 13:56``, in UTC.

    Raises ValueError; the message names the remedy.
    """
    try:
        moment = datetime.strptime(text, "%m/%d/%Y %H:%M" if ":" in text else "%m/%d/%Y")
    except ValueError:
        remedy = "write month/day/year as in 12/31/2001 13:56"
        raise ValueError(f"{quote(text)} is no date; {remedy}") from None
    return moment.replace(tzinfo=timezone.utc)


class _Header(NamedTuple):
    """The first line of a CSV file."""

    # Positions of the columns that are read, by Faultline's names: the first filled cell counts.
    places: Mapping[str, Sequence[int]]
    units_s: Mapping[str, float]  # Units at the end of the names of columns of times.
    unread: Sequence[str]  # Columns that are left out, by their names in the file.

    def cells(self, row: Sequence[str]) -> _Cells:
        """Return those cells of a row that are read."""
        texts = {
            name: next(filter(None, (row[at] for at in places)), "")
            for name, places in self.places.items()
        }
        return _Cells(texts, self.units_s)


def _header(
    found: list[str], place: str, columns: Sequence[str], needed: int, mapped: Mapping[str, str]
) -> _Header:
    """Read the first line of a CSV file, with the names that ``--columns`` gives its columns."""
    lower = [cell.lower() for cell in found]
    chosen = _chosen(found, place, columns, mapped)
    names, places, units_s = [], dict[str, list[int]](), dict[str, float]()
    for at, column in enumerate(lower):
        stem, unit = _stem_and_unit(column)
        if column in chosen:
            name, unit = chosen[column][0], chosen[column][1] or unit
        else:
            name = stem if unit and stem in _TIMES else column
            if name in mapped:
                # A column that is chosen for a name leaves out others of that name.
                name = unit = ""
        names.append(name)
        places.setdefault(name, []).append(at)
        if unit and name in _TIMES:
            units_s[name] = _UNITS_S[unit]
    columns_found = list(zip(found, lower, names, strict=True))
    unread = [column for column, _, name in columns_found if mapped and name not in columns]
    first_of: dict[str, str] = {}
    for column, (name, _) in chosen.items():
        first_of.setdefault(name, column)
    # Several columns that are chosen for one name count as one.
    checked = [
        (column, name)
        for column, low, name in columns_found
        if column not in unread and first_of.get(name, low) == low
    ]
    columns_read, names_read = [column for column, _ in checked], [name for _, name in checked]
    if wrong := wrong_columns(columns_read, names_read, columns, needed):
        raise UserError(
            f"{place}: {wrong}; name the columns by {_likely_option(found, columns, needed)}"
        )
    read = {name: places[name] for name in columns if name in places}
    return _Header(read, units_s, unread)


def _chosen(
    found: Sequence[str], place: str, columns: Sequence[str], mapped: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Return the name and the unit that ``--columns`` gives columns, by their names in the file."""
    lower, chosen = [cell.lower() for cell in found], dict[str, tuple[str, str]]()
    for name, stated in mapped.items():
        if name not in columns:
            raise UserError(f"--columns {name}=...: {did_you_mean(name, list(columns))}")
        those, unit = _columns_meant(stated.lower(), lower)
        for column in those:
            why = "gives that column two names" if column in chosen else ""
            if column not in lower:
                listed = ", ".join(map(quote, found))
                why = f"{place} has no column {quote(column)}; it has {listed}"
            if why:
                raise UserError(f"--columns {name}={stated}: {why}")
            chosen[column] = name, unit
    return chosen


def _columns_meant(stated: str, found: Sequence[str]) -> tuple[list[str], str]:
    """Return the columns that a text of ``--columns`` names, and the unit at its end.

    ``down time min`` is the column ``down time`` in minutes. ``hardware+software`` are two columns,
    and the filled one counts.
    """
    stem, unit = _stem_and_unit(stated)
    if stated not in found and stem in found:
        return [stem], unit
    return ([stated] if stated in found else [name.strip() for name in stated.split("+")]), ""


def _stem_and_unit(name: str) -> tuple[str, str]:
    """Split the name of a column into the rest and the unit at its end, if there is one."""
    match = _UNIT.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def _likely_option(found: Sequence[str], columns: Sequence[str], needed: int) -> str:
    """Return the ``--columns`` that the names of the columns of a file suggest."""
    unused, pairs = list(found), []
    for place, name in enumerate(columns):
        words = (name, *_ALIKE[name])
        likely = next((one for word in words for one in unused if word in one.lower()), None)
        if likely is not None:
            unused.remove(likely)
        if likely is not None or place < needed:
            pairs.append(f"{name}={shlex.quote(likely or 'COLUMN')}")
    return f"--columns {','.join(pairs)} (other columns are then left out)"


def _badput(cells: _Cells) -> tuple[float | datetime, str, float, str]:
    name = cells.text("badput").upper()
    if name not in _BADPUT_NAMES:
        remedy = did_you_mean(name, sorted(_BADPUT_NAMES))
        raise ValueError(f"badput {quote(cells.text('badput'))} is unknown; {remedy}")
    return cells.when(), name, cells.seconds("seconds"), cells.text("node")


def _row(cells: _Cells) -> tuple[float | datetime, str, Logged]:
    when = cells.when()
    if not cells.text("node"):
        raise ValueError("names no node; write the name of the node that failed")
    word = cells.text("cause").upper().partition(" ")[0]
    if word in _NO_FAILURES:
        raise _NoFailureError(f"rows of the cause {word}, which is no failure")
    stated = cells.text("kind")
    if not stated and word.startswith("PREEMPT"):
        stated = "preemption"
    kind = KINDS[kind_place(stated)]
    repair_s = cells.seconds("repair") if cells.text("repair") else None
    cause = cause_of(cells.text("cause"))
    return when, cells.text("node"), Logged(0.0, "host", 0, cause, kind, repair_s)


def _after_first(times: list[float | datetime], path: Path) -> list[float]:
    """Return times in seconds after the first one; small numbers stay as they are."""
    moments = [time for time in times if isinstance(time, datetime)]
    if not moments:
        seconds = [time for time in times if not isinstance(time, datetime)]
        begin_s = min(seconds) if min(seconds) >= _LEAST_UNIX_S else 0.0
        return [time - begin_s for time in seconds]
    if len(moments) < len(times):
        raise UserError(f"{path}: some times are timestamps and some are not; write either")
    begin = min(moments)
    return [(moment - begin).total_seconds() for moment in moments]
