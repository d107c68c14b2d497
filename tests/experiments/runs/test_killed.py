"""Sweeps whose workers and whose own process are killed at random moments."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from faultline.experiments.runs.table import read_sweep

from tests.experiments.runs.in_process import csv_of
from tests.experiments.runs.processes import PATIENCE_S, gone, simulated_by, start_python

pytestmark = [pytest.mark.system, pytest.mark.slow]

KILLS = 50
GRID = """
scenario = "spare-study"
seeds = 1500
[set]
job.groups = 24
job.steps = 300
[grid]
strategy.redundancy = [2, 3]
failures.mtbf_s = [1200, 3600]
"""


def start(grid: Path, file: Path, workers: int) -> subprocess.Popen[bytes]:
    command = ["-m", "faultline.experiments.cli", "sweep", str(grid), "-o", str(file), "-q"]
    return start_python(*command, "--workers", str(workers), stdout=subprocess.DEVNULL)


def test_fifty_kills_lose_no_finished_run_and_change_no_byte(tmp_path: Path) -> None:
    """Workers and the coordinator are killed in turn; the latter is started again."""
    grid, file = tmp_path / "grid.toml", tmp_path / "killed.sqlite"
    grid.write_text(GRID, encoding="utf-8")
    undisturbed = tmp_path / "undisturbed.sqlite"
    assert start(grid, undisturbed, 2).wait(10 * PATIENCE_S) == 0

    chance, kills, kept = random.Random(7), 0, 0
    sweep = start(grid, file, 2)
    while sweep.poll() is None:
        time.sleep(chance.uniform(0.05, 1.0))
        workers = simulated_by(sweep.pid)
        if not workers or kills == KILLS:
            continue
        kills += 1
        if kills % 5:
            for worker in workers[: chance.choice([1, 1, 2])]:
                worker.kill()
            continue
        started = psutil.Process(sweep.pid).children(recursive=True)
        sweep.kill()
        sweep.wait(PATIENCE_S)
        assert gone(started)
        finished = len(read_sweep(file).frame)
        assert finished >= kept
        kept = finished
        sweep = start(grid, file, 2)
    assert sweep.returncode == 0
    assert kills == KILLS
    assert csv_of(file) == csv_of(undisturbed)
