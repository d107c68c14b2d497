"""Odd surroundings of a command: environment, streams, limits and folders."""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from faultline.experiments.commands import preparing
from faultline.experiments.runs.point import cores

from tests.child_processes import run_program
from tests.experiments.command_line import Cli, in_a_process

RUN = ("run", "spare-study", "--set", "job.steps=5", "--set", "job.groups=12")


@pytest.mark.parametrize("columns", ["0", "00", "", "1", "39", "-80", "many", "٣", "9" * 30])
def test_columns_that_cannot_be_read_are_as_many_as_usual(
    columns: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = cli(*RUN)
    monkeypatch.setenv("COLUMNS", columns)
    assert cli(*RUN) == usual


def test_columns_limit_the_width_of_a_table(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert max(map(len, cli(*RUN).splitlines())) <= 40


def test_a_long_folder_for_temporary_files_is_no_hindrance(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    done = in_a_process(
        *("run", "spare-sound", "--set", "job.steps=2", "--set", "job.groups=4"),
        *("--engine", "simgrid"),
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_of_errors_leaves_the_status() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ended = in_a_process("run", "nope", capture_output=False, stderr=full)
    assert ended.returncode == 2


MOST_WORKERS = f"each is a process of some 100 MB; use at most {32 * cores()}"
PORTS = "give a port from 1 to 65535"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--workers", "5000", f"--workers 5000: {MOST_WORKERS}"),
        *(("--scheduler", f"tcp://127.0.0.1:{port}", PORTS) for port in ("99999999", "0", "65536")),
    ],
)
def test_workers_and_ports_that_cannot_be_are_reported_at_once(
    option: str, value: str, message: str, tmp_path: Path, cli: Cli
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text('scenario = "spare-study"\n[grid]\nstrategy.redundancy = [2]\n')
    assert message in cli.refused("sweep", grid, "-o", tmp_path / "out", option, value)


@pytest.mark.parametrize("seeds", ["true", "1.5", '"3"', "[true]", "[[1]]"])
def test_seeds_of_another_type_are_named(seeds: str, tmp_path: Path, cli: Cli) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(f'scenario = "spare-study"\nseeds = {seeds}\n')
    printed = cli.refused("sweep", grid, "-o", tmp_path / "out")
    assert f"{grid}:2: seeds = " in printed
    assert "use a count from 1" in printed


@pytest.mark.parametrize("name", ["=1+2", "@SUM(1)"])
def test_no_name_is_a_formula(name: str, cli: Cli) -> None:
    printed = cli.refused(*RUN, "--set", f'name="{name}"')
    assert "name" in printed
    assert "is a formula to a spreadsheet; begin it with a letter" in printed


@pytest.mark.parametrize("cause", ["=cmd|calc", "+1", "-1", "@SUM(1)"])
def test_no_cause_is_a_formula(cause: str, tmp_path: Path, cli: Cli) -> None:
    log = tmp_path / "log.csv"
    log.write_text(f"time,node,cause\n0h,a,gpu\n5h,b,{cause}\n")
    assert "is a formula to a spreadsheet" in cli.refused("failures", "fit", log)


LACKS: dict[str, tuple[Exception, str]] = {
    "memory": (MemoryError(), "out of memory or threads"),
    "processes": (BlockingIOError(errno.EAGAIN, "Try again"), "out of memory or threads"),
    "threads": (RuntimeError("can't start new thread"), "out of memory or threads"),
    "libraries": (
        ImportError("special.so: failed to map segment from shared object"),
        "out of memory or threads",
    ),
    "open files": (
        OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
        "Too many open files; raise ulimit -n (",
    ),
}


@pytest.mark.parametrize("what", LACKS)
def test_a_lack_of_what_the_machine_has_is_reported_in_a_line(
    what: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack, message = LACKS[what]
    monkeypatch.setattr(preparing, "execute_doctor", Mock(side_effect=lack))
    assert message in cli.refused("doctor")


def test_an_interrupt_that_a_library_made_an_error_of_is_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pydantic, written in Rust, does so if it has called a function of ours meanwhile."""

    def execute(_: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("Error building a model") from None

    monkeypatch.setattr(preparing, "execute_doctor", execute)
    assert cli.all("doctor") == (130, "", "faultline: interrupted\n")


def test_a_working_folder_that_is_gone_is_named(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "execute_doctor", lambda _: Path.cwd())
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    printed = cli.refused("doctor")
    assert printed.startswith(
        "faultline: the working folder: No such file or directory; change to one"
    )


@pytest.mark.parametrize("limit", ["-v 150000", "-v 360000", "-s 128"])
def test_a_limit_that_leaves_no_room_is_reported(limit: str) -> None:
    call = "import sys; from faultline.experiments.entry import main; sys.exit(main())"
    ended = run_program("sh", "-c", f'ulimit {limit}; exec "$0" -c "{call}" doctor', sys.executable)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("faultline: too little memory: ulimit ")
    assert ended.stderr.count("\n") == 1


def test_a_seed_of_too_many_digits_is_reported(cli: Cli) -> None:
    assert "is no seed: use a whole number from 0" in cli.refused(*RUN, "--seed", "9" * 5_000)
