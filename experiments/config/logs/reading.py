"""Any of the logs, by what shows in its first line; and those that are CSV files.

These are of failures by node, of badput, and Faultline's own traces.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from io import StringIO
from math import inf, isfinite
from pathlib import Path
from typing import TypeVar

from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.keys import quote
from faultline.experiments.config.logs.failure_log import (
    FailureLog,
    LogFile,
    Logged,
    first_mistake,
)
from faultline.experiments.config.logs.node_states import (
    PREEMPTION,
    read_preemptions,
    read_prometheus,
)
from faultline.experiments.config.logs.slurm import is_sacct, read_sacct
from faultline.experiments.config.trace_file import (
    DATE,
    LARGEST_BYTES,
    cause_of,
    kind_place,
    parse_timestamp,
    read_trace,
    seconds_of,
)
from faultline.platforms.files import read_text
from faultline.simulator.badput import BADPUT_TYPES
from faultline.simulator.failures.failure import KINDS, JobLayout

_FORMATS = (
    "sacct --parsable2, a range of Prometheus in JSON, lines of milliseconds,add|remove,node, a "
    "CSV file with columns time,node,cause,kind,repair or time,badput,seconds,node, or a trace "
    "with time,component"
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
_ENDS_WITH_LAST = "the log ends with its last failure, which makes rates a little high; give --span"


def read_log(
    path: Path, nodes: int | None = None, gpus_per_node: int = 8, span_s: float | None = None
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

    Raises
    ------
    UserError
        If there is no such file, or it is none of these; names the place of the first mistake.
    """
    try:
        text = read_text(path, LARGEST_BYTES)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a log of failures") from error
    file = LogFile(path, text, nodes, gpus_per_node, span_s)
    first = next((line for line in text.splitlines() if line.strip()), "")
    columns = [cell.strip().lower() for cell in first.split(",")]
    if first.lstrip().startswith(("{", "[")):
        log = read_prometheus(file)
    elif is_sacct(first):
        log = read_sacct(file)
    elif "component" in columns:
        log = _read_own_trace(file)
    elif "badput" in columns:
        log = _read_badput(file)
    elif "node" in columns or "time" in columns:
        log = _read_named(file)
    elif first and (PREEMPTION.fullmatch(first) or columns[1:2] in (["add"], ["remove"])):
        log = read_preemptions(file)
    else:
        raise UserError(f"{path}:1: this is no log that is known here; give {_FORMATS}")
    if not log.failures:
        raise UserError(f"{path}: nothing fails in it ({log.form}); choose a longer time")
    if not (isfinite(log.node_s) and log.node_s > 0.0):
        raise UserError(f"{path}: no node was ever up in it; there is nothing to make rates of")
    return log


def _read_named(file: LogFile) -> FailureLog:
    """Read a CSV file with node names; times are seconds, carry a unit, or are timestamps.

    Raises UserError, which names the first line that does not fit.
    """
    read = _rows(file, _COLUMNS, 2, _row)
    times = _seconds([when for when, _, _ in read], file.path)
    nodes = file.all_nodes(name for _, name, _ in read)
    failures = sorted(
        one._replace(time_s=time_s, number=nodes[name])
        for time_s, (_, name, one) in zip(times, read, strict=True)
    )
    notes = [] if file.span_s else [_ENDS_WITH_LAST]
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
    rows = _rows(file, _BADPUT_COLUMNS, 3, _badput)
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
    return replace(log, notes=(f"share of the time: {note}",))


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
    failures = [Logged(*one[:6]) for one in read_trace(file.path, layout)]
    names = (f"host-{number}" for number in range(file.nodes))
    notes = () if file.span_s else (_ENDS_WITH_LAST,)
    return _watched(file.log("trace", failures, names, notes=notes), file.span_s)


def _watched(log: FailureLog, span_s: float | None) -> FailureLog:
    """Return a log all of whose nodes were watched for a span; until the last failure if None.

    Raises UserError: there are failures behind the end of the span, or there is no span.
    """
    last_s = log.failures[-1].time_s
    if span_s is not None and last_s > span_s:
        raise UserError(
            f"--span {span_s:g}s: {log.name} has a failure at {last_s:g} s; give at least that"
        )
    end_s = last_s if span_s is None else span_s
    if end_s <= 0.0:
        raise UserError(f"{log.name}: all failures are at time 0; say with --span how long it is")
    return replace(log, span_s=end_s, node_s=end_s * len(log.nodes))


_Read = TypeVar("_Read")


def _rows(
    file: LogFile, columns: Sequence[str], needed: int, read_row: Callable[[dict[str, str]], _Read]
) -> list[_Read]:
    """Read the rows of a CSV file with some columns, the first of which are needed."""
    path = file.path
    lines = csv.reader(StringIO(file.text, newline=""), strict=True, skipinitialspace=True)
    read: list[_Read] = []
    mistakes: list[str] = []
    header: list[str] = []
    try:
        for row in lines:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            place = f"{path}:{lines.line_num}"
            if not header:
                header = _header(cells, place, columns, needed)
            elif len(cells) != len(header):
                mistakes.append(
                    f"{place}: has {len(cells)} cells where the header has {len(header)}: "
                    f"{', '.join(header)}"
                )
            else:
                try:
                    read.append(read_row(dict(zip(header, cells, strict=True))))
                except ValueError as error:
                    mistakes.append(f"{place}: {error}")
    except csv.Error as error:
        mistakes.append(f"{path}:{lines.line_num}: this is no CSV: {error}")
    first_mistake(mistakes)
    if not read:
        raise UserError(f"{path}: there is no failure in it; write a row a failure")
    return read


def _header(cells: list[str], place: str, columns: Sequence[str], needed: int) -> list[str]:
    names = [cell.lower() for cell in cells]
    for name in names:
        if name not in columns:
            remedy = did_you_mean(name, list(columns))
            raise UserError(f"{place}: unknown column {quote(name)}; {remedy}")
    for name in columns[:needed]:
        if name not in names:
            raise UserError(f"{place}: column {name} is missing; write {','.join(columns)}")
    if len(set(names)) < len(names):
        raise UserError(f"{place}: a column is there twice; keep one of each")
    return names


def _when(text: str) -> float | datetime:
    return parse_timestamp(text) if DATE.match(text) else seconds_of("time", text)


def _badput(cells: dict[str, str]) -> tuple[float | datetime, str, float, str]:
    name = cells["badput"].upper()
    if name not in _BADPUT_NAMES:
        remedy = did_you_mean(name, sorted(_BADPUT_NAMES))
        raise ValueError(f"badput {quote(cells['badput'])} is none of its names; {remedy}")
    lasts_s = seconds_of("seconds", cells["seconds"])
    return _when(cells["time"]), name, lasts_s, cells.get("node", "")


def _row(cells: dict[str, str]) -> tuple[float | datetime, str, Logged]:
    when = _when(cells["time"])
    if not cells["node"]:
        raise ValueError("names no node; write the name of the one that failed")
    kind, repair = KINDS[kind_place(cells.get("kind", ""))], cells.get("repair", "")
    repair_s = seconds_of("repair", repair) if repair else None
    cause = cause_of(cells.get("cause", ""))
    return when, cells["node"], Logged(0.0, "host", 0, cause, kind, repair_s)


def _seconds(times: list[float | datetime], path: Path) -> list[float]:
    moments = [time for time in times if isinstance(time, datetime)]
    if not moments:
        return [time for time in times if not isinstance(time, datetime)]
    if len(moments) < len(times):
        raise UserError(f"{path}: some times are timestamps and some are not; write one or other")
    begin = min(moments)
    return [(moment - begin).total_seconds() for moment in moments]
