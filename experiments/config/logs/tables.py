"""CSV files with node names, ``time,node,cause,kind,repair``, and Faultline's own traces."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import datetime
from io import StringIO
from pathlib import Path

from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.keys import quote
from faultline.experiments.config.logs.failure_log import (
    FailureLog,
    Logged,
    all_nodes,
    first_mistake,
)
from faultline.experiments.config.trace_file import (
    DATE,
    cause_of,
    kind_place,
    parse_timestamp,
    read_trace,
    seconds_of,
)
from faultline.simulator.failures.failure import KINDS, JobLayout

COLUMNS = ("time", "node", "cause", "kind", "repair")
ENDS_WITH_LAST = "the log ends with its last failure, which makes rates a little high; give --span"


def read_named(
    path: Path, text: str, nodes: int | None, gpus_per_node: int, span_s: float | None
) -> FailureLog:
    """Read a CSV file with node names; times are seconds, carry a unit, or are timestamps.

    Raises
    ------
    UserError
        Names the first line that does not fit.
    """
    lines = csv.reader(StringIO(text, newline=""), strict=True, skipinitialspace=True)
    read: list[tuple[float | datetime, str, Logged]] = []
    mistakes: list[str] = []
    header: list[str] = []
    try:
        for row in lines:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            place = f"{path}:{lines.line_num}"
            if not header:
                header = _header(cells, place)
            elif len(cells) != len(header):
                mistakes.append(
                    f"{place}: has {len(cells)} cells where the header has {len(header)}: "
                    f"{', '.join(header)}"
                )
            else:
                try:
                    read.append(_row(dict(zip(header, cells, strict=True))))
                except ValueError as error:
                    mistakes.append(f"{place}: {error}")
    except csv.Error as error:
        mistakes.append(f"{path}:{lines.line_num}: this is no CSV: {error}")
    first_mistake(mistakes)
    if not read:
        raise UserError(f"{path}: there is no failure in it; write a row a failure")
    times = _seconds([when for when, _, _ in read], path)
    names = all_nodes((name for _, name, _ in read), nodes, path)
    number_of = {name: place for place, name in enumerate(names)}
    failures = sorted(
        one._replace(time_s=time_s, number=number_of[name])
        for time_s, (_, name, one) in zip(times, read, strict=True)
    )
    notes = [] if span_s else [ENDS_WITH_LAST]
    if nodes is None:
        notes.append("only nodes that failed are named: give --nodes for those there are")
    log = FailureLog(str(path), "CSV", tuple(failures), names, gpus_per_node, 0.0, 0.0)
    return watched(log, span_s, tuple(notes))


def read_own_trace(
    path: Path, nodes: int | None, gpus_per_node: int, span_s: float | None
) -> FailureLog:
    """Read a trace of Faultline, which does not say how many nodes there are.

    Raises
    ------
    UserError
        It is no trace, or nobody says how many nodes there are.
    """
    if nodes is None:
        raise UserError(f"{path}: a trace does not say how many nodes there are; give --nodes N")
    # Which groups, domains and switches there are counts for nothing here.
    layout = JobLayout(nodes * gpus_per_node, 1, gpus_per_node, 1, 1)
    failures = [Logged(*one[:6]) for one in read_trace(path, layout)]
    names = tuple(f"host-{number}" for number in range(nodes))
    log = FailureLog(str(path), "trace", tuple(failures), names, gpus_per_node, 0.0, 0.0)
    return watched(log, span_s, () if span_s else (ENDS_WITH_LAST,))


def watched(log: FailureLog, span_s: float | None, notes: tuple[str, ...]) -> FailureLog:
    """Return a log all of whose nodes were watched for a span; until the last failure if None.

    Raises
    ------
    UserError
        There are failures behind the end of the span, or there is no span.
    """
    last_s = log.failures[-1].time_s
    if span_s is not None and last_s > span_s:
        raise UserError(
            f"--span {span_s:g}s: {log.name} has a failure at {last_s:g} s; give at least that"
        )
    end_s = last_s if span_s is None else span_s
    if end_s <= 0.0:
        raise UserError(f"{log.name}: all failures are at time 0; say with --span how long it is")
    return replace(log, span_s=end_s, node_s=end_s * len(log.nodes), notes=notes)


def _header(cells: list[str], place: str) -> list[str]:
    names = [cell.lower() for cell in cells]
    for name in names:
        if name not in COLUMNS:
            remedy = did_you_mean(name, list(COLUMNS))
            raise UserError(f"{place}: unknown column {quote(name)}; {remedy}")
    for name in COLUMNS[:2]:
        if name not in names:
            raise UserError(f"{place}: column {name} is missing; write {','.join(COLUMNS)}")
    if len(set(names)) < len(names):
        raise UserError(f"{place}: a column is there twice; keep one of each")
    return names


def _row(cells: dict[str, str]) -> tuple[float | datetime, str, Logged]:
    text = cells["time"]
    when = parse_timestamp(text) if DATE.match(text) else seconds_of("time", text)
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
