"""``faultline sweep`` as a user meets it: real processes, exit statuses, and what is printed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments.commands import sweep as command
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.point import Limits
from faultline.experiments.runs.table import read_sweep

from tests.experiments.command_line import Cli
from tests.experiments.runs.in_process import Invented, csv_of, some_record
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
    monkeypatch.setattr(command, "open_executor", lambda *_: nullcontext(executor))
    return executor


def start(grid: Path, file: Path, *options: str) -> subprocess.Popen[str]:
    words = ["sweep", str(grid), "-o", str(file), "--workers", "1", *options]
    pipe, module = subprocess.PIPE, ("-m", "faultline.experiments.cli")
    return start_python(*module, *words, stdout=pipe, stderr=pipe, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what a process printed once it has ended; one that does not end in time is killed."""
    try:
        return process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def at_least(runs: int, file: Path) -> Callable[[], bool]:
    def are_there() -> bool:
        with suppress(UserError):
            return len(read_sweep(file).frame) >= runs
        return False

    return are_there


def test_an_interrupted_sweep_leaves_no_process_and_a_slow_run_becomes_a_row(
    tmp_path: Path,
) -> None:
    """Of the two runs, the first is simulated in no time and the second never ends."""
    grid, file = tmp_path / "grid.toml", tmp_path / "out.sqlite"
    grid.write_text(
        f'scenario = "spare-study"\n[set]\njob.groups = 24\n[grid]\njob.steps = [20, '
        f"{ENDLESS.partition('=')[2]}]",
        encoding="utf-8",
    )
    process = start(grid, file)
    assert wait_for(at_least(1, file))
    started = simulated_by(process.pid)
    process.send_signal(signal.SIGINT)
    _, complaints = ended(process)
    assert process.returncode == 130
    assert complaints.splitlines()[-2:] == [
        f"{file}: finished runs are kept; the same command resumes the sweep",
        "faultline: interrupted",
    ]
    assert started
    assert gone(started)
    assert len(read_sweep(file).frame) == 1
    assert not [*tmp_path.glob("*-wal")]

    limited = start(grid, file, "--time-limit", "0.5s")
    printed, complaints = ended(limited)
    assert limited.returncode == 1
    assert "1 runs simulated, 1 already there, 1 failed" in printed
    assert complaints.splitlines()[-1].startswith(
        "faultline: 1 run failed; the first: job.steps = 1000000000, seed 0: "
    )
    assert read_sweep(file).frame["status"].tolist() == ["ok", "failed"]


def test_a_sweep_prints_its_result_and_the_next_command(
    grid: Path, tmp_path: Path, invented: Invented, cli: Cli
) -> None:
    file = tmp_path / "out.sqlite"
    assert cli.all(grid, "-o", file)[1].splitlines() == [
        "grid: 40 runs simulated, 0 already there, 0 failed",
        f"results: {file}",
        f"next:    faultline compare {file}",
        f"         faultline report {file} -o report.html",
        f"         faultline export {file} -o table.csv",
    ]
    assert "0 runs simulated, 40 already there, 0 failed" in cli(grid, "-o", file)
    assert len(invented.simulated) == 40


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        (["--workers", "0"], "--workers"),
        (["--workers", "5000"], "each is a process of some 100 MB; use at most"),
        (["--scheduler", "tcp://192.0.2.1:8786"], "without TLS, anyone who reaches it can run"),
        (["--time-limit", "10"], "10 what? Write 10s if these are seconds"),
        (["--time-limit", "0s"], "must be greater than 0"),
        (["--memory-limit=-4GB"], "negative"),
        (["--workers", "2", "--scheduler", "tcp://localhost:8786"], "not allowed with"),
    ],
)
def test_bad_options_are_reported_in_one_line(
    options: list[str], printed: str, grid: Path, tmp_path: Path, cli: Cli
) -> None:
    assert printed in cli.refused(grid, "-o", tmp_path / "out.sqlite", *options)


def test_a_bad_grid_ends_with_status_2_and_makes_no_file(
    grid: Path, tmp_path: Path, invented: Invented, cli: Cli
) -> None:
    grid.write_text(GRID.replace("[2, 3]", "[2, 99]"), encoding="utf-8")
    message = cli.refused(grid, "-o", tmp_path / "out.sqlite")
    assert message.startswith(f"faultline: {grid}: point strategy.redundancy = 99: ")
    assert not (tmp_path / "out.sqlite").exists()


def test_limits_reach_the_workers(grid: Path, tmp_path: Path, invented: Invented, cli: Cli) -> None:
    limits = ["--time-limit", "10min", "--memory-limit", "4GB"]
    assert cli.all(grid, "-o", tmp_path / "out.sqlite", *limits)[0] == 0
    assert {request.limits for request in invented.simulated} == {Limits(600.0, 4_000_000_000)}


def test_the_table_is_exported_also_from_an_unfinished_sweep(
    grid: Path, tmp_path: Path, invented: Invented, cli: Cli
) -> None:
    file, export = tmp_path / "out.sqlite", Cli(cli.capsys, "export")
    cli.all(grid, "-o", file)
    assert export(file, "-o", tmp_path / "x.csv").strip() == f"{tmp_path}/x.csv: 40 runs"
    assert (tmp_path / "x.csv").read_bytes() == csv_of(file)
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM runs WHERE seed = 3")
    status, printed, notes = export.all(file, "-o", tmp_path / "x.parquet")
    assert (status, printed.strip()) == (0, f"{tmp_path}/x.parquet: 38 runs")
    assert "not finished: it has 38 of 40 runs" in notes
    assert len(pd.read_parquet(tmp_path / "x.parquet")) == 38
    assert "ends in .csv or .parquet" in export.refused(file, "-o", tmp_path / "x.txt")
