"""Goodput event logs: any order, repeated lines, lines that cannot be read."""

from __future__ import annotations

import json
import random
import tracemalloc
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs.goodput_log import GoodputLog, read_goodput_log

BEGAN = datetime(2025, 4, 2, 6, 0, 0)


def entry(time_s: float, kind: str, **more: Any) -> str:
    stamp = (BEGAN + timedelta(seconds=time_s)).isoformat()
    return json.dumps({"timestamp": stamp, "event_type": kind, "job_name": "train", **more})


def started(time_s: float, node: int) -> str:
    return entry(time_s, "job_started", node_rank=node)


LINES = [
    *(started(node, node) for node in range(4)),
    entry(100, "checkpoint_loaded", step=40),
    entry(400, "checkpoint_saved", step=60),
    entry(560, "checkpoint_saved", step=80),
    *(started(700 + 2 * node, node) for node in range(3)),  # Node 3 is late and never starts.
    *(started(900 + node, node) for node in range(4)),
    entry(1020, "checkpoint_loaded", step=80),
    entry(1100, "job_terminated", node_rank=2),
]


def read(folder: Path, lines: list[str]) -> GoodputLog:
    path = folder / "events.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return read_goodput_log(path)


def test_a_life_ends_where_the_next_begins(tmp_path: Path) -> None:
    log = read(tmp_path, LINES)
    first, second, third = log.lives
    assert [life.start_s for life in log.lives] == [0.0, 700.0, 900.0]
    assert [life.end_s for life in log.lives] == [700.0, 900.0, 1100.0]
    assert [life.nodes for life in log.lives] == [4, 3, 4]
    assert first.loaded == (100.0, 40)
    assert first.saves == ((400.0, 60), (560.0, 80))
    assert (second.loaded, second.saves) == (None, ())
    assert third.loaded == (1020.0, 80)
    assert (log.steps_kept, log.span_s, log.nodes, log.jobs) == (40, 1100.0, 4, ("train",))


def test_the_order_of_lines_and_lines_twice_change_nothing(tmp_path: Path) -> None:
    mixed = [*LINES, LINES[0], LINES[5]]
    random.Random(1).shuffle(mixed)
    log = read(tmp_path, mixed)
    assert log.lives == read(tmp_path, LINES).lives
    assert "2 lines twice" in log.note


def test_what_cannot_be_read_is_counted_with_its_first_line(tmp_path: Path) -> None:
    bad = ["not json", '{"event_type": "job_started"}', entry(5, "checkpoint_saved", step="many")]
    bad += ['{"timestamp": %s, "event_type": "checkpoint_saved", "step": 60}' % ("9" * 400)]
    log = read(tmp_path, [*LINES[:2], *bad, *LINES[2:], entry(9, "checkpoint_deleted", step=20)])
    assert log.lives == read(tmp_path, LINES).lives
    assert "4 lines unreadable, first at line 3" in log.note
    assert "1 lines of other events left out (checkpoint_deleted)" in log.note


def test_a_zone_shifts_a_time(tmp_path: Path) -> None:
    there = LINES[4].replace("06:01:40", "08:01:40+02:00")
    assert "+02:00" in there
    assert read(tmp_path, [*LINES[:4], there, *LINES[5:]]).lives == read(tmp_path, LINES).lives


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["{}"], "line 1: no job_started event"),
        ([LINES[5]], "no job_started event"),
        ([], "no job"),
    ],
)
def test_a_log_without_a_start_is_refused(lines: list[str], why: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=why):
        read(tmp_path, lines)


def test_a_log_is_split_at_the_start_nearest_to_a_share(tmp_path: Path) -> None:
    first, second = read(tmp_path, LINES).split(0.5)
    assert [life.start_s for life in first.lives] == [0.0]
    assert [life.start_s for life in second.lives] == [700.0, 900.0]
    assert second.steps_kept == 0
    with pytest.raises(UserError, match="1 starts are too few"):
        read(tmp_path, LINES[:7]).split(0.5)


def test_a_log_is_cut_after_a_time(tmp_path: Path) -> None:
    (life,) = read(tmp_path, LINES).within(500.0).lives
    assert (life.end_s, life.saves) == (500.0, ((400.0, 60),))


def step_entries(*lives: tuple[float, int, int]) -> list[str]:
    """Return entries of lives: start, and first and last step; a step takes 10 s."""
    lines = []
    for start_s, first, last in lives:
        phases = {"job_start_time": 0, "tpu_init_start_time": 1, "tpu_init_end_time": 30}
        lines += [{name: 1.7e9 + start_s + at_s} for name, at_s in phases.items()]
        lines += [
            {"step_count": step, "step_start_time": 1.7e9 + start_s + 60 + 10 * (step - first)}
            for step in range(first, last + 1)
        ]
    return [json.dumps({"job_name": "train", **line}) for line in lines]


def test_a_log_of_steps_tells_its_checkpoints_by_the_steps_it_starts_at(tmp_path: Path) -> None:
    lines = step_entries((0, 0, 25), (1000, 20, 47), (2000, 30, 33), (3000, 30, 52))
    random.Random(1).shuffle(lines)
    log = read(tmp_path, [*lines, lines[3], "not json"])
    assert [life.start_s for life in log.lives] == [0.0, 1000.0, 2000.0, 3000.0]
    assert [life.loaded for life in log.lives] == [
        (60.0, 0), (1060.0, 20), (2060.0, 30), (3060.0, 30)
    ]  # fmt: skip
    # The second life came to step 47, and the third began at 30 all the same.
    saved = [[step for _, step in life.saves] for life in log.lives]
    assert saved == [[10, 20], [30], [], [40, 50]]
    assert log.lives[0].saves[0] == (160.0, 10)
    assert (log.steps_kept, log.nodes, log.jobs) == (50, 0, ("train",))
    assert log.note == (
        f"{len(lines) + 2} lines: 4 starts, 81 steps, a checkpoint every 10 steps (the job starts "
        "again at multiples); 1 lines twice; 1 lines unreadable, first at line 95"
    )


def test_an_export_of_cloud_logging_is_read_like_its_payload(tmp_path: Path) -> None:
    lines = step_entries((0, 0, 25), (1000, 20, 47))
    exported = [json.dumps({"jsonPayload": json.loads(line)}) for line in lines]
    assert read(tmp_path, exported).lives == read(tmp_path, lines).lives


def test_a_job_that_never_starts_again_shows_no_checkpoint(tmp_path: Path) -> None:
    log = read(tmp_path, step_entries((0, 0, 25)))
    assert (log.lives[0].saves, log.steps_kept) == ((), 0)
    assert "checkpoint" not in log.note


@pytest.mark.slow
def test_a_million_starts_take_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with path.open("w") as file:
        for life in range(10_000):
            file.writelines(started(600.0 * life, node) + "\n" for node in range(100))
    tracemalloc.start()
    log = read_goodput_log(path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(log.lives) == 10_000
    assert peak_bytes < 100e6
