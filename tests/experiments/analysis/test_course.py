"""A run as a trace: what Perfetto shows is what happened."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from faultline.experiments.analysis.course import write_timeline
from faultline.simulator.accounting.timeline import Event, EventKind

from tests.experiments.command_line import Cli

RUN = ("run", "spare-sound", "--set", "job.groups=24", "--set", "job.steps=120", "--seed", "2")

# Steps of 10 s; group 1 fails in the second and is dropped, 2 and 3 in the third, which restarts.
COURSE = [
    Event(10.0, EventKind.STEP, 1, stacks=1),
    Event(18.0, EventKind.MISSING, 1, (1,)),
    Event(18.5, EventKind.REORDERED, 1, (0,), 2, 3),
    Event(24.0, EventKind.STEP, 2, stacks=1),
    Event(26.0, EventKind.CHECKPOINT, 2, (0,)),
    Event(34.0, EventKind.MISSING, 2, (2, 3)),
    Event(34.0, EventKind.WIPE_OUT, 2),
    Event(40.0, EventKind.FAILURE_IN_RESTART, 2, (3,)),
    Event(94.0, EventKind.RESTARTED, 2),
    Event(96.0, EventKind.LOADED, 2),
    Event(106.0, EventKind.STEP, 3, stacks=1),
]
RECORD = {"scenario": "course", "strategy": "spare", "seed": 0, "groups": 4, "step_s": 10.0}


def trace_of(path: Path) -> list[dict[str, Any]]:
    loaded = json.loads(path.read_text(encoding="utf-8"))
    things: list[dict[str, Any]] = loaded["traceEvents"]
    return things


def spans(things: list[dict[str, Any]], pid: int) -> dict[int, list[tuple[str, float, float]]]:
    """Return what each track does from when to when, in seconds."""
    found = defaultdict(list)
    for one in things:
        if one["ph"] == "X" and one["pid"] == pid:
            start_s = one["ts"] / 1e6
            found[one["tid"]].append((one["name"], start_s, start_s + one["dur"] / 1e6))
    return dict(found)


def counts(things: list[dict[str, Any]], name: str) -> list[tuple[float, float]]:
    found = [one for one in things if one["ph"] == "C" and one["name"] == name]
    return [(one["ts"] / 1e6, next(iter(one["args"].values()))) for one in found]


def test_a_short_course_is_recorded_group_by_group(tmp_path: Path) -> None:
    write_timeline(COURSE, tmp_path / "course.json", RECORD)
    things = trace_of(tmp_path / "course.json")
    training = ("training", 96.0, 106.0)
    assert spans(things, 1) == {
        1: [("training", 0.0, 18.0), ("down", 18.0, 34.0), ("restart", 34.0, 96.0), training],
        2: [("training", 0.0, 34.0), ("restart", 34.0, 96.0), training],
        3: [("training", 0.0, 34.0), ("restart", 34.0, 96.0), training],
    }
    failures = [(one["tid"], one["ts"] / 1e6) for one in things if one["name"] == "failure"]
    assert failures == [(1, 18.0), (2, 34.0), (3, 34.0), (3, 40.0)]
    assert counts(things, "groups up") == [(18, 3), (26, 3), (34, 1), (34, 0), (96, 4)]
    assert counts(things, "goodput")[1] == (26.0, pytest.approx(100 * 20 / 26))


def test_a_group_that_works_on_with_less_is_not_down(tmp_path: Path) -> None:
    events = [*COURSE[:2], Event(18.5, EventKind.REORDERED, 1, (0, 1), 2, 0), COURSE[3]]
    write_timeline(events, tmp_path / "course.json", RECORD)
    things = trace_of(tmp_path / "course.json")
    assert spans(things, 1) == {1: [("training", 0.0, 24.0)]}
    assert counts(things, "groups up") == [(18, 4)]


def test_one_that_is_taken_over_is_not_down_and_its_recovery_is_recorded(tmp_path: Path) -> None:
    events = [
        *COURSE[:2],
        Event(19.0, EventKind.PHASE, 1, recovery="detect"),
        Event(21.5, EventKind.PHASE, 1, recovery="state"),
        Event(21.5, EventKind.RECOVERED, 1, (1,), recovery="take-over"),
        Event(21.5, EventKind.REORDERED, 1, (0, 1), 2, 0),
        COURSE[3],
    ]
    write_timeline(events, tmp_path / "course.json", RECORD)
    things = trace_of(tmp_path / "course.json")
    assert counts(things, "groups up") == [(18, 4)]
    (job,) = spans(things, 0).values()
    phases = [one for one in job if one[0] in {"detect", "state"}]
    assert phases == [("detect", 18.0, 19.0), ("state", 19.0, 21.5)]


def test_phases_of_a_restart_are_those_that_are_explained(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    changes = ["recovery.preset=stock", "~times.restart_s"]
    words = ["head-to-head", *(word for change in changes for word in ("--set", change))]
    (explained, *_) = cli.json("explain-recovery", *words, "--schemes", "checkpoint")["recoveries"]
    expected = {phase["name"]: phase["duration_s"] for phase in explained["phases"]}
    named = ["--set", "strategy.name=checkpoint", "--set", "job.steps=200"]
    cli("run", *words, *named, "-o", path)
    since_s, phases_s = 0.0, {}
    for event in pd.read_csv(path).itertuples():
        kind = EventKind(event.kind)
        if kind is EventKind.WIPE_OUT:
            phases_s = {}
        elif kind is EventKind.PHASE:
            phases_s[event.recovery] = event.time_s - since_s
        elif kind is EventKind.LOADED:
            without_load = {name: span for name, span in expected.items() if name != "state"}
            assert phases_s == pytest.approx(without_load, abs=1e-6)
        elif kind is EventKind.RESTARTED:
            assert event.time_s == since_s
        since_s = event.time_s if kind is not EventKind.FAILURE_IN_RESTART else since_s
    assert phases_s


def test_a_run_is_recorded_without_gaps(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    record = cli.json(*RUN, "-o", path)
    things = trace_of(path)
    (job,) = spans(things, 0).values()
    assert job[0][1] == 0.0
    assert job[-1][2] == pytest.approx(record["time_s"])
    assert all(one[2] == pytest.approx(next_[1]) for one, next_ in pairwise(job))
    assert all(0 <= up <= 24 for _, up in counts(things, "groups up"))
    last_s, share = counts(things, "goodput")[-1]
    assert 0 < share < 100
    assert last_s <= record["time_s"] * (1 + 1e-9)
    failed = sum(one["name"] == "failure" for one in things)
    assert 0 < failed <= record["events"]


def test_tables_hold_the_same_events(cli: Cli, tmp_path: Path) -> None:
    for kind in (".csv", ".parquet"):
        cli(*RUN, "-o", tmp_path / f"run{kind}")
    table = pd.read_parquet(tmp_path / "run.parquet")
    table["groups"] = table["groups"].map(lambda groups: " ".join(map(str, groups)))
    kept = pd.read_csv(tmp_path / "run.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(table, kept, check_dtype=False, check_exact=True)
    assert kept["groups"].str.contains(" ").any()


def test_another_suffix_is_refused_before_anything_is_simulated(cli: Cli, tmp_path: Path) -> None:
    printed = cli.refused(*RUN, "-o", tmp_path / "run.txt")
    assert "name a file that ends in .json, .jsonl, .csv, .parquet, .png, .svg or .pdf" in printed
    assert not list(tmp_path.iterdir())
