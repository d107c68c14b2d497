"""Any of the logs, by what shows in its first line; and those that are CSV files.

These are of failures by node, of badput, and Faultline's own traces.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from io import StringIO
from math import inf, isfinite
from pathlib import Path
from typing import NamedTuple, TypeVar

from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.keys import quote
from faultline.experiments.config.logs.failure_log import (
    FailureLog,
    LogFile,
    Logged,
    first_mistake,
    left_out,
)
from faultline.experiments.config.logs.fault_records import is_fault_records, read_fault_records
from faultline.experiments.config.logs.slurm import is_sacct, read_sacct
from faultline.experiments.config.trace_file import (
    DATE,
    LARGEST_BYTES,
    cause_of,
    kind_place,
    parse_timestamp,
    read_trace,
    seconds_of,
    wrong_columns,
)
from faultline.platforms.files import read_text
from faultline.simulator.badput import BADPUT_TYPES
from faultline.simulator.failures.failure import KINDS, JobLayout

_FORMATS = (
    "sacct --parsable2, a CSV file with columns time,node,cause,kind,repair or "
    "time,badput,seconds,node, a JSON list of fault records, or a trace with time,component"
)
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
"""What Google's ml-goodput-measurement calls lost time."""
_TOUCHING_S = 1.0
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
"""Units, in seconds, that the name of a column may end with, as in ``downtime_min``."""
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
"""What other people call the columns."""
_MONTH_FIRST = re.compile(r"\d{1,2}/\d{1,2}/\d{4}\b")
"""Dates as the tables of LANL write them."""
_LEAST_UNIX_S = 1e9
_NONE = "leave the option out"
_ENDS_WITH_LAST = "the log ends with its last failure, which makes rates a little high; give --days"


def read_log(
    path: Path,
    nodes: int | None = None,
    gpus_per_node: int = 8,
    span_s: float | None = None,
    columns: Mapping[str, str] | None = None,
) -> FailureLog:
    """Read a log of failures, whatever its format.

    Parameters
    ----------
    path : Path
        The file.
    nodes : int, optional
        Nodes of the cluster; those that the log names if None.
    gpus_per_node : int
        GPUs of each.
    span_s : float, optional
        For how many seconds the cluster was watched, if longer than the log shows.
    columns : mapping, optional
        What a CSV file calls its columns, by the names that they have here; others are left out.

    Raises
    ------
    UserError
        If there is no such file, or it is none of these; names the place of the first mistake.
    """
    try:
        text = read_text(path, LARGEST_BYTES)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a log of failures") from error
    first = next((line for line in text.splitlines() if line.strip()), "")
    file = LogFile(path, text, nodes, gpus_per_node, span_s, dict(columns or {}))
    log = _reader_of(file, first)(file)
    if not log.failures:
        raise UserError(f"{path}: nothing fails in it ({log.form}); choose a longer time")
    if not (isfinite(log.node_s) and log.node_s > 0.0):
        raise UserError(f"{path}: no node was ever up in it; there is nothing to make rates of")
    return log


def _reader_of(file: LogFile, first: str) -> Callable[[LogFile], FailureLog]:
    """Return what reads a log with this first line.

    Raises UserError: it is unknown, or an option has no effect on such a log.
    """
    cells = [cell.strip().lower() for cell in first.split(",")]
    is_csv = False
    read: Callable[[LogFile], FailureLog]
    if is_sacct(first):
        read = read_sacct
    elif is_fault_records(first):
        read = read_fault_records
    elif "component" in cells and not file.columns:
        read = _read_own_trace
    elif len(cells) > 1:
        is_csv = True
        read = _read_badput if {"badput"} & {*cells, *file.columns} else _read_named
    else:
        raise UserError(f"{file.path}:1: this is no log that is known here; give {_FORMATS}")
    if file.columns and not is_csv:
        raise UserError(f"--columns: {file.path} is no CSV file with columns of its own; {_NONE}")
    return read


def _read_named(file: LogFile) -> FailureLog:
    """Read a CSV file with node names; times are seconds, carry a unit, or are timestamps.

    Raises UserError, which names the first line that does not fit.
    """
    read, dropped = _rows(file, _COLUMNS, 2, _row)
    times = _seconds([when for when, _, _ in read], file.path)
    nodes = file.all_nodes(name for _, name, _ in read)
    failures = sorted(
        one._replace(time_s=time_s, number=nodes[name])
        for time_s, (_, name, one) in zip(times, read, strict=True)
    )
    notes = dropped if file.span_s else [*dropped, _ENDS_WITH_LAST]
    if file.nodes is None:
        notes.append("only nodes that failed are named: give --nodes for those there are")
    return _watched(file.log("CSV", failures, nodes, notes=notes), file.span_s)


def _read_badput(file: LogFile) -> FailureLog:
    """Read lost time by the names of ml-goodput-measurement: ``time,badput,seconds,node``.

    A failure is where recovery from a disruption, or its lost progress, begins; what follows
    without a gap belongs to it. It is of the node that is named, else of the whole job, and is
    repaired when the infrastructure has recovered.

    Raises UserError, which names the first line that does not fit, or nobody says how many nodes
    there are.
    """
    rows, dropped = _rows(file, _BADPUT_COLUMNS, 3, _badput)
    if file.nodes is None:
        raise UserError(
            f"{file.path}: badput does not say how many nodes there are; give --nodes N"
        )
    lost = sorted(zip(_seconds([when for when, _, _, _ in rows], file.path), rows, strict=True))
    nodes = file.all_nodes(node for *_, node in rows if node)
    failures: list[Logged] = []
    by_type: dict[str, float] = {}
    open_until_s = -inf
    for begin_s, (_, name, lasts_s, node) in lost:
        by_type[name] = by_type.get(name, 0.0) + lasts_s
        if begin_s > open_until_s + _TOUCHING_S:
            if name not in _DISRUPTED:
                continue
            failures.append(Logged(begin_s, "job", 0, "disruption", "hardware", None))
        open_until_s = max(open_until_s, begin_s + lasts_s)
        one = failures.pop()
        if node:
            one = one._replace(level="host", number=nodes[node])
        if name == _RECOVERY:
            one = one._replace(repair_s=(one.repair_s or 0.0) + lasts_s)
        failures.append(one)
    log = file.log("badput", failures, nodes)
    if not failures:
        return log
    log = _watched(log, file.span_s or max(begin_s + row[2] for begin_s, row in lost))
    shares = sorted(by_type.items(), key=lambda one: -one[1])
    note = ", ".join(f"{name} {lost_s / log.span_s:.2%}" for name, lost_s in shares)
    return replace(log, notes=(f"share of the time: {note}", *dropped))


def _read_own_trace(file: LogFile) -> FailureLog:
    """Read a trace of Faultline, which does not say how many nodes there are.

    Raises UserError: it is no trace, or nobody says how many nodes there are.
    """
    if file.nodes is None:
        raise UserError(
            f"{file.path}: a trace does not say how many nodes there are; give --nodes N"
        )
    # Which groups, domains and switches there are counts for nothing here.
    layout = JobLayout(file.nodes * file.gpus_per_node, 1, file.gpus_per_node, 1, 1)
    traced = list(read_trace(file.path, layout))
    different = dict.fromkeys(traced)
    failures = [Logged(*one[:6]) for one in different]
    names = (f"host-{number}" for number in range(file.nodes))
    notes = left_out({"exact duplicates": len(traced) - len(different)})
    notes += [] if file.span_s else [_ENDS_WITH_LAST]
    return _watched(file.log("trace", failures, names, notes=notes), file.span_s)


def _watched(log: FailureLog, span_s: float | None) -> FailureLog:
    """Return a log all of whose nodes were watched for a span; until the last failure if None.

    Raises UserError: there are failures behind the end of the span, or there is no span.
    """
    last_s = log.failures[-1].time_s
    if span_s is not None and last_s > span_s:
        raise UserError(
            f"--days {span_s / 86_400:g}: {log.name} has a failure after {last_s / 86_400:g} "
            "days; give at least that"
        )
    end_s = last_s if span_s is None else span_s
    if end_s <= 0.0:
        raise UserError(f"{log.name}: all failures are at time 0; say with --days how long it is")
    return replace(log, span_s=end_s, node_s=end_s * len(log.nodes))


_Read = TypeVar("_Read")


def _rows(
    file: LogFile, columns: Sequence[str], needed: int, read_row: Callable[[_Cells], _Read]
) -> tuple[list[_Read], list[str]]:
    """Read the rows of a CSV file with some columns, the first of which are needed.

    Returns what they say, and a note of what was left out: rows that are there twice, columns that
    nobody asked for.
    """
    path = file.path
    seen: set[tuple[str, ...]] = set()
    duplicates = 0
    lines = csv.reader(StringIO(file.text, newline=""), strict=True, skipinitialspace=True)
    read: list[_Read] = []
    mistakes: list[str] = []
    header = _Header([], {})
    try:
        for row in lines:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            place = f"{path}:{lines.line_num}"
            if not header.found:
                header = _header(cells, place, columns, needed, file.columns)
            elif len(cells) != len(header.found):
                mistakes.append(
                    f"{place}: has {len(cells)} cells where the header has {len(header.found)}: "
                    f"{', '.join(header.found)}"
                )
            elif (row_as_it_is := tuple(cells)) in seen:
                duplicates += 1
            else:
                seen.add(row_as_it_is)
                try:
                    read.append(read_row(header.cells(cells)))
                except ValueError as error:
                    mistakes.append(f"{place}: {error}")
    except csv.Error as error:
        mistakes.append(f"{path}:{lines.line_num}: this is no CSV: {error}")
    first_mistake(mistakes)
    if not read:
        raise UserError(f"{path}: there is no failure in it; write a row a failure")
    dropped = {"exact duplicates": duplicates}
    if header.unread:
        named = ", ".join(map(quote, header.unread))
        dropped[f"{'column' if len(header.unread) == 1 else 'columns'} ({named})"] = len(
            header.unread
        )
    return read, left_out(dropped)


class _Cells(NamedTuple):
    """The cells of a row."""

    texts: Mapping[str, str]  # By their columns' names here.
    units_s: Mapping[str, float]  # Units of columns whose names in the file say it, in seconds.

    def text(self, name: str) -> str:
        """Return what a cell says; nothing where there is no such column."""
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

    Raises ValueError, whose message names the remedy.
    """
    try:
        moment = datetime.strptime(text, "%m/%d/%Y %H:%M" if ":" in text else "%m/%d/%Y")
    except ValueError:
        remedy = "write month/day/year as in 12/31/2001 13:56"
        raise ValueError(f"{quote(text)} is no date; {remedy}") from None
    return moment.replace(tzinfo=timezone.utc)


class _Header(NamedTuple):
    """The first line of a CSV file."""

    found: Sequence[str]  # Its columns, as the file names them.
    # Where those are that are read, by their names here: one or several, the first filled counts.
    places: Mapping[str, Sequence[int]]
    units_s: Mapping[str, float] = {}  # Units that the names of columns of times end with.
    unread: Sequence[str] = ()  # Those that are left out.

    def cells(self, row: Sequence[str]) -> _Cells:
        """Return the cells of a row of the file that are read."""
        texts = {
            name: next(filter(None, (row[at] for at in places)), "")
            for name, places in self.places.items()
        }
        return _Cells(texts, self.units_s)


def _header(
    found: list[str], place: str, columns: Sequence[str], needed: int, mapped: Mapping[str, str]
) -> _Header:
    """Read the first line of a CSV file, whose columns may be called otherwise (``--columns``)."""
    for name in mapped:
        if name not in columns:
            raise UserError(f"--columns {name}=...: {did_you_mean(name, list(columns))}")
    lower = [cell.lower() for cell in found]
    meant = {name: _columns_meant(theirs.lower(), lower) for name, theirs in mapped.items()}
    own: dict[str, str] = {}
    for name, (those, _) in meant.items():
        for theirs in those:
            if theirs not in lower or theirs in own:
                why = "gives that column two names" if theirs in own else (
                    f"{place} has no column {quote(theirs)}; it has {', '.join(map(quote, found))}"
                )  # fmt: skip
                raise UserError(f"--columns {name}={mapped[name]}: {why}")
            own[theirs] = name
    names, places, units_s = [], dict[str, list[int]](), dict[str, float]()
    for at, theirs in enumerate(lower):
        stem, unit = _stem_and_unit(theirs)
        name = own.get(theirs) or (stem if unit and stem in _TIMES else theirs)
        if name in meant:
            # Columns that are chosen by name leave the others out.
            name, unit = (name, meant[name][1] or unit) if theirs in own else ("", "")
        names.append(name)
        places.setdefault(name, []).append(at)
        if unit and name in _TIMES:
            units_s[name] = _UNITS_S[unit]
    unread = [] if not mapped else [one for one, name in zip(found, names, strict=True)
                                    if name not in columns]  # fmt: skip
    # A cause in several columns is there once.
    joined = {theirs for those, _ in meant.values() for theirs in those[1:]}
    kept = [
        (theirs, name)
        for theirs, low, name in zip(found, lower, names, strict=True)
        if theirs not in unread and low not in joined
    ]
    if wrong := wrong_columns(
        [one for one, _ in kept], [name for _, name in kept], columns, needed
    ):
        raise UserError(f"{place}: {wrong}; say which is which: {_likely(found, columns, needed)}")
    return _Header(found, {name: places[name] for name in columns if name in places}, units_s,
                   unread)  # fmt: skip


def _columns_meant(theirs: str, found: Sequence[str]) -> tuple[list[str], str]:
    """Return the columns that ``--columns`` names, and the unit that it states behind them.

    ``down time min`` is the column ``down time`` in minutes; ``hardware+software`` are two columns,
    the filled one of which counts.
    """
    stem, unit = _stem_and_unit(theirs)
    if theirs not in found and stem in found:
        return [stem], unit
    return ([theirs] if theirs in found else [one.strip() for one in theirs.split("+")]), ""


def _stem_and_unit(name: str) -> tuple[str, str]:
    """Part the name of a column from the unit that it ends with, if it does."""
    match = _UNIT.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def _likely(found: Sequence[str], columns: Sequence[str], needed: int) -> str:
    """Return the option that says which of a file's columns are ours, as far as names tell."""
    left, said = list(found), []
    for place, name in enumerate(columns):
        like = next(
            (one for word in (name, *_ALIKE[name]) for one in left if word in one.lower()), None
        )
        if like is not None:
            left.remove(like)
        if like is not None or place < needed:
            said.append(f"{name}={shlex.quote(like or 'COLUMN')}")
    return f"--columns {' '.join(said)} (other columns are left out then)"


def _badput(cells: _Cells) -> tuple[float | datetime, str, float, str]:
    name = cells.text("badput").upper()
    if name not in _BADPUT_NAMES:
        remedy = did_you_mean(name, sorted(_BADPUT_NAMES))
        raise ValueError(f"badput {quote(cells.text('badput'))} is none of its names; {remedy}")
    return cells.when(), name, cells.seconds("seconds"), cells.text("node")


def _row(cells: _Cells) -> tuple[float | datetime, str, Logged]:
    when = cells.when()
    if not cells.text("node"):
        raise ValueError("names no node; write the name of the one that failed")
    kind = KINDS[kind_place(cells.text("kind"))]
    repair_s = cells.seconds("repair") if cells.text("repair") else None
    cause = cause_of(cells.text("cause"))
    return when, cells.text("node"), Logged(0.0, "host", 0, cause, kind, repair_s)


def _seconds(times: list[float | datetime], path: Path) -> list[float]:
    moments = [time for time in times if isinstance(time, datetime)]
    if not moments:
        seconds = [time for time in times if not isinstance(time, datetime)]
        # Seconds since 1970 begin with the first; no cluster is watched for 30 years.
        begin_s = min(seconds) if min(seconds) >= _LEAST_UNIX_S else 0.0
        return [time - begin_s for time in seconds]
    if len(moments) < len(times):
        raise UserError(f"{path}: some times are timestamps and some are not; write one or other")
    begin = min(moments)
    return [(moment - begin).total_seconds() for moment in moments]
