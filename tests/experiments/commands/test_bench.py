"""``faultline bench``: that it measures what it says. No timing is asserted."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from time import sleep

import pytest
from faultline.experiments.benchmarks import measurement as fresh_process
from faultline.experiments.benchmarks.measurement import BenchmarkError, Case, Measurement, measured
from faultline.experiments.benchmarks.platform_speed import platform_cases, step_cases, time_timer
from faultline.experiments.benchmarks.run_speed import (
    PUBLISHED_SIMULATOR_S,
    matching_cases,
    rare_failure_cases,
    replay_cases,
    simgrid_cases,
    sweep_cases,
    time_matching,
    time_replay,
    time_sweep,
    time_table,
)
from faultline.experiments.cli import main
from faultline.experiments.commands import machine

from tests.experiments.asking import in_a_process


@pytest.mark.slow
def test_a_quick_bench_from_the_shell() -> None:
    child = in_a_process("bench", "--quick", "--json", cwd=Path(__file__).parents[3], check=True)
    # Signs of life, on a machine that is busy.
    assert all(
        re.fullmatch(r".+: \d+ of \d+, \d+:\d\d", each) for each in child.stderr.splitlines()
    )
    rows = json.loads(child.stdout)["rows"]
    assert len({row["section"] for row in rows}) == 8
    for row in rows:
        assert row["measured"] > 0
        assert row["error"] == ""
        assert row["met"] is None or row["met"] is (row["measured"] <= row["target"])
    compared = {row["ratio_to"] for row in rows if row["ratio"]}
    assert compared == {"published C++", "networkx, from scratch", "SimGrid"}


def test_the_table_for_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    rows = [
        Measurement("one", "slow", 2.0, "s", minimum=1.5, target=1.0, ratio=3.0, ratio_to="snails"),
        Measurement("one", "fast", 0.5, "s", target=1.0),
    ]

    def fail() -> list[Measurement]:
        raise BenchmarkError("no [bold] luck")

    cases = [Case("one", "times", lambda: rows), Case("two", "worse", fail)]
    monkeypatch.setattr(machine, "_cases", lambda quick: cases)
    assert main(["bench"]) == 1
    lines = {
        line.split("│")[1].strip(): line
        for line in capsys.readouterr().out.splitlines()
        if line.count("│") > 1
    }
    assert [cell.strip() for cell in lines["slow"].split("│")[2:6]] == [
        "2 s (min 1.5)",
        "<= 1 s",
        "no",
        "3 x snails",
    ]
    assert "yes" in lines["fast"]
    assert "no [bold] luck" in lines["worse"]


def test_the_whole_bench_covers_every_published_time() -> None:
    assert len(replay_cases(quick=False)) == len(PUBLISHED_SIMULATOR_S)
    for cases in (
        replay_cases,
        rare_failure_cases,
        matching_cases,
        simgrid_cases,
        step_cases,
        platform_cases,
        sweep_cases,
    ):
        assert 0 < len(cases(True)) <= len(cases(False))


def test_the_peak_is_that_of_the_child_alone() -> None:
    """A process made by fork would count what its parent had in memory."""
    ballast = bytearray(os.urandom(1)) * 300_000_000
    answer = measured(time_replay, "spare-study", ["job.groups=24", "job.steps=10"], 1)
    assert len(ballast) / 1e6 > answer["peak_mb"] > 10
    assert len(answer["seconds"]) == len(answer["failures"]) == 1


def test_a_failed_measurement_is_told_in_one_line() -> None:
    with pytest.raises(BenchmarkError, match="no such file") as caught:
        measured(time_replay, "no-such-scenario", [], 1)
    assert "\n" not in str(caught.value)


def test_a_measurement_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh_process, "_TIMEOUT_S", 1.0)
    with pytest.raises(BenchmarkError, match="no end after 1 s"):
        measured(sleep, 60)


def test_the_matching_is_played_until_wipe_out() -> None:
    """By networkx too, which is asked on the way; a different answer would be an error."""
    answer = time_matching(60, 4, orders=3, samples=4)
    assert 3 * 4 <= answer["failures"] <= 3 * 60
    assert answer["networkx_ratio"] > 0


@pytest.mark.slow
def test_a_small_sweep_is_timed() -> None:
    answer = time_sweep(10)
    assert answer["simulation_s"] > 0
    assert answer["overhead_s"] > -answer["simulation_s"]


def test_the_timer_knows_a_step_that_it_was_asked_for() -> None:
    answer = measured(time_timer)
    assert 0 < answer["warm_s"] < 0.1 < answer["cold_s"]


def test_a_table_of_invented_rows_is_drawn() -> None:
    assert time_table(100)["seconds"] > 0
