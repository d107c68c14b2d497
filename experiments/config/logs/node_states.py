"""Logs of nodes that go down and come back: preemptions, and what Prometheus saw.

Preemptions are lines of ``milliseconds,add|remove,node``, without a header, as Bamboo (NSDI 2023)
and Oobleck (SOSP 2023) record spot instances. A node that is removed has failed; what is added
later under its name has repaired it.

Prometheus answers a range query of something that is 1 while a node is up, such as
``up{job="node-exporter"}``: a node fails when it falls below one half, and is up again when it is
back. What is down from the beginning failed before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import isfinite, isnan
from typing import Any

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import quote
from faultline.experiments.config.logs.failure_log import (
    FailureLog,
    LogFile,
    Logged,
    first_mistake,
)

PREEMPTION = re.compile(r"\s*(\d{1,15})\s*,\s*(add|remove)\s*,\s*([^\s,]{1,100})\s*")
_NODE_LABELS = ("node", "instance", "host", "hostname", "exported_instance", "nodename")
_UP = 0.5

Down = tuple[float, float | None]
"""From when to when; None where it is not seen to come back."""


def read_preemptions(file: LogFile) -> FailureLog:
    """Read a trace of preemptions; it ends with its last line if nobody says when.

    Raises UserError, which names the first line that does not fit.
    """
    mistakes: list[str] = []
    events: list[tuple[float, str, str]] = []
    for number, line in enumerate(file.text.splitlines(), 1):
        if found := PREEMPTION.fullmatch(line):
            events.append((int(found[1]) / 1000.0, found[2], found[3]))
        elif line.strip():
            mistakes.append(
                f"{file.path}:{number}: {quote(line)} is no event; write "
                "milliseconds,add|remove,node, such as 3600000,remove,node4"
            )
    first_mistake(mistakes)
    # Of one instant, what goes comes first: its place may be taken at once.
    events.sort(key=lambda event: (event[0], event[1] == "add"))
    downs: dict[str, list[Down]] = {name: [] for _, _, name in events}
    up_since: dict[str, float] = {}
    gone: dict[str, float] = {}
    node_s = 0.0
    for time_s, what, name in events:
        if what == "add":
            up_since.setdefault(name, time_s)
            if name in gone:
                downs[name].append((gone.pop(name), time_s))
        elif name in up_since:
            node_s += time_s - up_since.pop(name)
            gone[name] = time_s
    for name, lost_s in gone.items():
        downs[name].append((lost_s, None))
    end_s = max(events[-1][0], file.span_s or 0.0)
    node_s += sum(end_s - since_s for since_s in up_since.values())
    causes = dict.fromkeys(downs, "preemption")
    nodes = file.all_nodes(downs)
    failures = _failures(downs, causes, nodes, 0.0)
    return file.log("preemption trace", failures, nodes, end_s, node_s)


def _failures(
    downs: Mapping[str, list[Down]],
    causes: Mapping[str, str],
    nodes: Mapping[str, int],
    begin_s: float,
) -> list[Logged]:
    return sorted(
        Logged(
            since_s - begin_s,
            "host",
            nodes[name],
            causes[name],
            "hardware",
            None if back_s is None else back_s - since_s,
        )
        for name, those in downs.items()
        for since_s, back_s in those
    )


def read_prometheus(file: LogFile) -> FailureLog:
    """Read the JSON of a range query.

    Raises UserError, which names the series that does not fit.
    """
    first_s, last_s = float("inf"), float("-inf")
    seen: dict[str, list[Down]] = {}
    causes: dict[str, str] = {}
    for where, name, cause, values in _series(file):
        times = [time_s for time_s, _ in values]
        if times != sorted(times):
            raise UserError(f"{where}.values are not in the order of time")
        first_s, last_s = min(first_s, times[0]), max(last_s, times[-1])
        seen.setdefault(name, []).extend(_downs(values))
        causes[name] = cause
    end_s = max(last_s - first_s, file.span_s or 0.0)
    nodes = file.all_nodes(seen)
    downs = {name: _merged(those) for name, those in seen.items()}
    away_s = 0.0
    for since_s, back_s in (down for those in downs.values() for down in those):
        away_s += (last_s if back_s is None else back_s) - since_s
    failures = _failures(downs, causes, nodes, first_s)
    return file.log("Prometheus", failures, nodes, end_s, len(nodes) * end_s - away_s)


def _series(file: LogFile) -> Iterator[tuple[str, str, str, list[tuple[float, float]]]]:
    """Yield place, node, cause and values of each series."""
    try:
        told = json.loads(file.text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file.path}: this is no JSON: {error}") from None
    data = told.get("data") if isinstance(told, dict) else None
    series = data.get("result") if isinstance(data, dict) else None
    if not isinstance(data, dict) or data.get("resultType") != "matrix" or not series:
        raise UserError(
            f"{file.path}: no range of Prometheus: data.resultType has to be matrix, and "
            "data.result a list of series; ask /api/v1/query_range"
        )
    for place, one in enumerate(series):
        where = f"{file.path}: data.result[{place}]"
        metric = one.get("metric") if isinstance(one, dict) else None
        values = one.get("values") if isinstance(one, dict) else None
        if not isinstance(metric, dict) or not isinstance(values, list) or not values:
            raise UserError(f"{where} is no series; it has to have metric and values")
        label = next((label for label in _NODE_LABELS if isinstance(metric.get(label), str)), None)
        if label is None:
            raise UserError(
                f"{where}.metric names no node; it has to have one of {', '.join(_NODE_LABELS)}"
            )
        name, cause = metric[label].rsplit(":", 1)[0], metric.get("cause")
        yield where, name, cause if isinstance(cause, str) else "down", _numbers(where, values)


def _numbers(where: str, values: list[Any]) -> list[tuple[float, float]]:
    try:
        read = [(float(time_s), float(value)) for time_s, value in values]
        if not all(isfinite(time_s) for time_s, _ in read):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise UserError(f'{where}.values has to hold pairs such as [1714564800, "1"]') from None
    # NaN is what Prometheus writes where it knows nothing.
    return [(time_s, value) for time_s, value in read if not isnan(value)] or read[:1]


def _downs(values: list[tuple[float, float]]) -> Iterator[Down]:
    since_s: float | None = None
    was_up = values[0][1] >= _UP
    for time_s, value in values[1:]:
        is_up = value >= _UP
        if was_up and not is_up:
            since_s = time_s
        elif is_up and since_s is not None:
            yield since_s, time_s
            since_s = None
        was_up = is_up
    if since_s is not None:
        yield since_s, None


def _merged(downs: list[Down]) -> list[Down]:
    """Return the times in which any of a node's series was down, once each."""
    merged: list[Down] = []
    for since_s, back_s in sorted(downs, key=lambda down: down[0]):
        before = merged[-1] if merged else None
        if before is None or (before[1] is not None and before[1] < since_s):
            merged.append((since_s, back_s))
        elif before[1] is not None:
            merged[-1] = (before[0], None if back_s is None else max(before[1], back_s))
    return merged
