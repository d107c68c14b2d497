"""The lives of a simulated job, as its goodput event log would show them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone

from faultline.experiments.config.logs.goodput_log import (
    LOADED,
    SAVED,
    STARTED,
    GoodputLog,
    LoggedLife,
)
from faultline.simulator.accounting.timeline import Event, EventKind

_STARTS = (EventKind.WIPE_OUT, EventKind.FAILURE_IN_RESTART)
_MOST_NODES = 1_024
_FIRST = datetime(2025, 1, 1, tzinfo=timezone.utc)


def lives_of(events: Iterable[Event], end_s: float, name: str = "simulated") -> GoodputLog:
    """Return the lives of a run of one group, from its events in order.

    A life begins with the failure that ends the previous one: restarts are part of lives.
    """
    lives: list[LoggedLife] = []
    start_s, saves = 0.0, list[tuple[float, int]]()
    known: tuple[float, int] | None = None
    for event in events:
        if event.kind in _STARTS:
            lives.append(LoggedLife(start_s, event.time_s, 1, known, tuple(saves)))
            start_s, known, saves = event.time_s, None, []
        elif event.kind == EventKind.LOADED:
            known = event.time_s, event.step
        elif event.kind == EventKind.CHECKPOINT:
            saves.append((event.time_s, event.step))
    lives.append(LoggedLife(start_s, max(start_s, end_s), 1, known, tuple(saves)))
    return GoodputLog(name, tuple(lives), 1, (), f"{name}: {len(lives):,} lives")


def goodput_log_text(events: Sequence[Event], end_s: float, groups: int, name: str) -> str:
    """Return a run as the goodput event log of a job; each group is a node (1,024 at most)."""
    lines = _entries(lives_of(events, end_s), min(groups, _MOST_NODES))
    return "".join(json.dumps({**entry, "job_name": name}) + "\n" for entry in lines)


def _entries(log: GoodputLog, nodes: int) -> Iterator[dict[str, object]]:
    for life in log.lives:
        for node in range(nodes):
            yield _entry(life.start_s, STARTED, node_rank=node)
        if life.loaded:
            yield _entry(life.loaded[0], LOADED, step=life.loaded[1])
        for time_s, step in life.saves:
            yield _entry(time_s, SAVED, step=step)


def _entry(time_s: float, kind: str, **more: int) -> dict[str, object]:
    moment = _FIRST + timedelta(seconds=time_s)
    stamp = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    return {"timestamp": stamp, "event_type": kind, **more}
