"""``faultline sweep`` as a user meets it: real processes, exit statuses, and what is printed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from faultline.experiments.commands import sweep as command
from faultline.experiments.runs.table import read_sweep

from tests.experiments.command_line import Cli
from tests.experiments.runs.in_process import Invented, some_record
from tests.experiments.runs.processes import (
    ENDLESS,
    PATIENCE_S,
    gone,
    simulated_by,
    start_python,
    wait_for,
)

COMMAND = ("sweep",)
GRID = """
scenario = "spare-study"
seeds = 20
[set]
job.groups = 24
job.steps = 100
failures.mtbf_s = 3000
[grid]
strategy.redundancy = [2, 3]
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(GRID, encoding="utf-8")
    return path


@pytest.fixture
def invented(monkeypatch: pytest.MonkeyPatch) -> Invented:
    """Return what takes the place of this machine's processors."""
    executor = Invented(some_record)
    monkeypatch.setattr(command, "_executor", lambda arguments: executor)
    return executor


def start(grid: Path, directory: Path, *options: str) -> subprocess.Popen[str]:
    words = ["sweep", str(grid), "-o", str(directory), "--workers", "1", *options]
    pipe, module = subprocess.PIPE, ("-m", "faultline.experiments.cli")
    return start_python(*module, *words, stdout=pipe, stderr=pipe, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what a process printed once it has ended; one that does not end in time is killed."""
    try:
        return process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def at_least(runs: int, directory: Path) -> Callable[[], bool]:
    return lambda: len(list((directory / "runs").glob("*.json"))) >= runs


def test_an_interrupted_sweep_leaves_no_process_and_a_slow_run_becomes_a_row(
    tmp_path: Path,
) -> None:
    """Of the two runs, the first is simulated in no time and the second never ends."""
    grid, directory = tmp_path / "grid.toml", tmp_path / "out"
    grid.write_text(
        f'scenario = "spare-study"\n[set]\njob.groups = 24\n[grid]\njob.steps = [20, '
        f"{ENDLESS.partition('=')[2]}]",
        encoding="utf-8",
    )
    process = start(grid, directory)
    assert wait_for(at_least(1, directory))
    started = simulated_by(process.pid)
    process.send_signal(signal.SIGINT)
    _, complaints = ended(process)
    assert process.returncode == 130
    assert complaints.splitlines()[-2:] == [
        f"{directory}: finished runs are kept; the same command resumes the sweep",
        "faultline: interrupted",
    ]
    assert started
    assert gone(started)
    assert len(read_sweep(directory).frame) == 1
    assert [path.name for path in directory.rglob(".*")] == [".lock"]

    limited = start(grid, directory, "--time-limit", "0.5s")
    printed, complaints = ended(limited)
    assert limited.returncode == 1
    assert "1 runs simulated, 1 already there, 1 failed" in printed
    assert complaints.splitlines()[-1].startswith(
        "faultline: 1 run failed; the first: job.steps = 1000000000, seed 0: "
    )
    assert read_sweep(directory).frame["status"].tolist() == ["ok", "failed"]


def test_a_sweep_prints_its_result_and_the_next_command(
    grid: Path, tmp_path: Path, invented: Invented, cli: Cli
) -> None:
    directory = tmp_path / "out"
    assert cli.all(grid, "-o", directory)[1].splitlines() == [
        "grid: 40 runs simulated, 0 already there, 0 failed",
        f"tables: {directory}/table.parquet, {directory}/table.csv",
        f"next:   faultline compare {directory}",
        f"        faultline report {directory} -o report.html",
    ]
    assert "0 runs simulated, 40 already there, 0 failed" in cli(grid, "-o", directory)
    assert len(invented.simulated) == 40


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        (["--workers", "0"], "--workers"),
        (["--workers", "5000"], "each is a process of some 100 MB; use at most"),
        (["--scheduler", "tcp://127.0.0.1:99999999"], "give a port from 1 to 65535"),
        (["--time-limit", "10"], "'10' has no unit"),
        (["--time-limit", "0s"], "must be greater than 0"),
        (["--memory-limit=-4GB"], "negative"),
        (["--workers", "2", "--scheduler", "tcp://localhost:8786"], "not allowed with"),
    ],
)
def test_bad_options_are_reported_in_one_line(
    options: list[str], printed: str, grid: Path, tmp_path: Path, cli: Cli
) -> None:
    assert printed in cli.refused(grid, "-o", tmp_path / "out", *options)


def test_a_bad_grid_ends_with_status_2_and_makes_no_directory(
    grid: Path, tmp_path: Path, invented: Invented, cli: Cli
) -> None:
    grid.write_text(GRID.replace("[2, 3]", "[2, 99]"), encoding="utf-8")
    message = cli.refused(grid, "-o", tmp_path / "out")
    assert message.startswith(f"faultline: {grid}: point strategy.redundancy = 99: ")
    assert not (tmp_path / "out").exists()


def test_limits_reach_the_executor(
    grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    seen = []

    class Curious(Invented):
        def simulate(self, requests, limits):  # type: ignore[no-untyped-def]
            seen.append((limits.time_s, limits.memory_bytes))
            return super().simulate(requests, limits)

    monkeypatch.setattr(command, "_executor", lambda arguments: Curious(some_record))
    limits = ["--time-limit", "10min", "--memory-limit", "4GB"]
    assert cli.all(grid, "-o", tmp_path / "out", *limits)[0] == 0
    assert seen == [(600.0, 4_000_000_000)]
