"""Paired fault records: a JSON list of starts and ends of faults of nodes.

The format is that of stepfun-ai/InfiniteHBD-Trace (fault_trace.json): ``node_id``, ``event_time``
in days, ``event_type`` (``fault_start`` or ``fault_end``), ``fault_type`` with Level, Class, Desc.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from faultline.experiments.config.errors import UserError, quote
from faultline.experiments.config.logs.failure_log import FailureLog, LogFile, Logged
from faultline.simulator.failures.failure import Kind

_DAY_S = 86_400.0
_START, _END = "fault_start", "fault_end"
_NETWORK = ("NIC", "Cable")
_FORMAT = (
    '[{"node_id": "a", "event_time": 3.5, "event_type": "fault_start", "fault_type": '
    '{"Level": "Hardware Failure", "Class": "GPU", "Desc": "GPU Lost"}}, ...]'
)


class LoggedOutage(NamedTuple):
    """A period in which a node has faults, in seconds since the log begins."""

    start_s: float
    end_s: float
    node: str
    cause: str
    kind: Kind
    has_end: bool  # Whether it ended within the log.


def is_fault_records(first_line: str) -> bool:
    """Return whether a file with this first line is a JSON list."""
    return first_line.lstrip().startswith("[")


def read_fault_records(file: LogFile) -> FailureLog:
    """Read paired fault records.

    Overlapping faults of a node are one failure, which is repaired when all of them have ended. A
    fault without an end is under repair when the log ends. An end without a start is left out.

    Raises UserError, which names the first wrong entry.
    """
    outages, note, span_s = outages_of(file)
    nodes = file.all_nodes(outage.node for outage in outages)
    failures = [
        Logged(start_s, "host", nodes[node], cause, kind, end_s - start_s if has_end else None)
        for start_s, end_s, node, cause, kind, has_end in outages
    ]
    down_s = sum(outage.end_s - outage.start_s for outage in outages)
    up_s = len(nodes) * span_s - down_s
    share = f"nodes down: {down_s / (len(nodes) * span_s):.2%} of the time"
    return file.log("fault records", sorted(failures), nodes, span_s, up_s, (note, share))


def outages_of(file: LogFile) -> tuple[list[LoggedOutage], str, float]:
    """Return the outages of all nodes, a line about them, and the log's length in seconds.

    Raises UserError as `read_fault_records`.
    """
    entries = _entries(file)
    if file.nodes is None:
        raise UserError(f"{file.path}: healthy nodes are not in fault records; give --nodes N")
    span_s = max(file.span_s or 0.0, *(entry.time_s for entry in entries))
    return *_outages(entries, span_s), span_s


class _Entry(NamedTuple):
    time_s: float
    is_start: bool
    node: str
    fault: tuple[str, str, str]


def _entries(file: LogFile) -> list[_Entry]:
    """Return the entries in the order of time, ends before starts."""
    try:
        records = json.loads(file.text)
    except ValueError as error:
        raise UserError(f"{file.path}: no JSON ({error}); write {_FORMAT}") from error
    if not records:
        raise UserError(f"{file.path}: has no failure; write {_FORMAT}")
    return sorted(_entry(entry, f"{file.path}: entry {n}") for n, entry in enumerate(records, 1))


def _entry(entry: Mapping[str, Any], place: str) -> _Entry:
    try:
        kind, time_days = entry["event_type"], float(entry["event_time"])
        fault = entry["fault_type"]
        words = str(fault["Level"]), str(fault["Class"]), str(fault.get("Desc", ""))
        node = str(entry["node_id"])
    except KeyError as error:
        raise UserError(
            f"{place}: has no {error}, so this JSON holds something other than faults of nodes; "
            f"write {_FORMAT}, or a CSV file with time,node,cause"
        ) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{place}: {error}; write {_FORMAT}") from error
    if kind not in (_START, _END):
        raise UserError(f"{place}: event_type {quote(kind)} is neither {_START} nor {_END}")
    if not (isfinite(time_days) and time_days >= 0.0):
        raise UserError(f"{place}: event_time {time_days} is no number of days")
    return _Entry(time_days * _DAY_S, kind == _START, node, words)


def _outages(entries: Sequence[_Entry], span_s: float) -> tuple[list[LoggedOutage], str]:
    """Return the outages, and a line about how starts and ends were paired."""
    under_way: dict[tuple[str, tuple[str, str, str]], list[float]] = {}
    faults: dict[str, list[LoggedOutage]] = {}
    unpaired = 0
    for time_s, is_start, node, fault in entries:
        starts = under_way.setdefault((node, fault), [])
        if is_start:
            starts.append(time_s)
        elif starts:
            outage = LoggedOutage(starts.pop(0), time_s, node, fault[1], _kind(fault), True)
            faults.setdefault(node, []).append(outage)
        else:
            unpaired += 1
    open_ends = sum(map(len, under_way.values()))
    for (node, fault), starts in under_way.items():
        for start_s in starts:
            outage = LoggedOutage(start_s, span_s, node, fault[1], _kind(fault), False)
            faults.setdefault(node, []).append(outage)
    merged = [outage for node in faults.values() for outage in _merged(sorted(node))]
    total = sum(map(len, faults.values()))
    note = (
        f"{len(entries):,} records: {total:,} faults of {len(faults):,} nodes, {open_ends:,} under "
        f"way at the end; {total - len(merged):,} overlap another of their node; left out: "
        f"{unpaired:,} ends without a start"
    )
    return sorted(merged), note


def _merged(faults: Iterable[LoggedOutage]) -> list[LoggedOutage]:
    """Return the outages of a node: overlapping faults are one, with the cause of the first."""
    outages: list[LoggedOutage] = []
    for fault in faults:
        if outages and fault.start_s <= outages[-1].end_s:
            last = outages.pop()
            later = max(last, fault, key=lambda outage: outage.end_s)
            outages.append(last._replace(end_s=later.end_s, has_end=later.has_end))
        else:
            outages.append(fault)
    return outages


def _kind(fault: tuple[str, str, str]) -> Kind:
    level, part, _ = fault
    if level.startswith("Software"):
        return "software"
    return "network" if any(word in part for word in _NETWORK) else "hardware"
