"""The answer of Prometheus to a range query of something that is 1 while a node is up.

Such as ``up{job="node-exporter"}``: a node fails when it falls below one half, and is up again when
it is back. What is down from the beginning failed before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs.failure_log import FailureLog, Logged, all_nodes

NODE_LABELS = ("node", "instance", "host", "hostname", "exported_instance", "nodename")
CAUSE = "down"
_UP = 0.5

Down = tuple[float, float | None]
"""From when to when; None where it is not seen to come back."""


def read_prometheus(
    path: Path, text: str, nodes: int | None, gpus_per_node: int, span_s: float | None
) -> FailureLog:
    """Read the JSON of a range query.

    Raises
    ------
    UserError
        Names the series that does not fit.
    """
    first_s, last_s = float("inf"), float("-inf")
    downs: dict[str, list[Down]] = {}
    causes: dict[str, str] = {}
    for place, name, cause, values in _series(path, text):
        times = [time_s for time_s, _ in values]
        if times != sorted(times):
            raise UserError(f"{path}: data.result[{place}].values are not in the order of time")
        first_s, last_s = min(first_s, times[0]), max(last_s, times[-1])
        downs.setdefault(name, []).extend(_downs(values))
        causes[name] = cause
    end_s = max(last_s - first_s, span_s or 0.0)
    names = all_nodes(downs, nodes, path)
    number_of = {name: number for number, name in enumerate(names)}
    failures, away_s = [], 0.0
    for name, found in downs.items():
        for since_s, back_s in _merged(found):
            away_s += (last_s if back_s is None else back_s) - since_s
            repair_s = None if back_s is None else back_s - since_s
            where = number_of[name]
            failures.append(
                Logged(since_s - first_s, "host", where, causes[name], "hardware", repair_s)
            )
    return FailureLog(
        str(path),
        "Prometheus",
        tuple(sorted(failures)),
        names,
        gpus_per_node,
        end_s,
        len(names) * end_s - away_s,
    )


def _series(path: Path, text: str) -> Iterator[tuple[int, str, str, list[tuple[float, float]]]]:
    """Yield place, node, cause and values of each series."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: this is no JSON: {error}") from None
    data = told.get("data") if isinstance(told, dict) else None
    series = data.get("result") if isinstance(data, dict) else None
    if not isinstance(data, dict) or data.get("resultType") != "matrix" or not series:
        raise UserError(
            f"{path}: no range of Prometheus: data.resultType has to be matrix, and data.result a "
            "list of series; ask /api/v1/query_range"
        )
    for place, one in enumerate(series):
        metric = one.get("metric") if isinstance(one, dict) else None
        values = one.get("values") if isinstance(one, dict) else None
        if not isinstance(metric, dict) or not isinstance(values, list) or not values:
            raise UserError(
                f"{path}: data.result[{place}] is no series; it has to have metric and values"
            )
        label = next((label for label in NODE_LABELS if isinstance(metric.get(label), str)), None)
        if label is None:
            raise UserError(
                f"{path}: data.result[{place}].metric names no node; it has to have one of "
                f"{', '.join(NODE_LABELS)}"
            )
        name = metric[label].rsplit(":", 1)[0]
        cause = metric.get("cause")
        yield place, name, cause if isinstance(cause, str) else CAUSE, _numbers(path, place, values)


def _numbers(path: Path, place: int, values: list[Any]) -> list[tuple[float, float]]:
    try:
        read = [(float(time_s), float(value)) for time_s, value in values]
        if not all(isfinite(time_s) for time_s, _ in read):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise UserError(
            f'{path}: data.result[{place}].values has to hold pairs such as [1714564800, "1"]'
        ) from None
    # NaN is what Prometheus writes where it knows nothing.
    return [(time_s, value) for time_s, value in read if value == value] or read[:1]  # noqa: PLR0124


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
