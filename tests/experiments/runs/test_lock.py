"""Two sweeps in one directory at once."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.runs.point import Request
from faultline.experiments.runs.store import locked
from faultline.experiments.runs.sweep_plan import Plan

from tests.experiments.runs.in_process import Invented, plan_of, some_record, sweep, tables_in
from tests.experiments.runs.processes import PATIENCE_S, wait_for

GRID = 'scenario = "spare-study"\nseeds = 10\n[grid]\nstrategy.redundancy = [2, 3, 4]'


def play_slowly(plan: Plan, directory: Path, said_in: Path) -> None:
    def slowly(request: Request) -> dict[str, Any]:
        time.sleep(0.01)
        return some_record(request)

    outcome, said = sweep(plan, directory, Invented(slowly))
    said_in.write_text(f"{outcome.played}\n{said}", encoding="utf-8")


def hold(directory: Path) -> None:
    with locked(directory, print):
        (directory / "held").touch()
        time.sleep(600)


@pytest.fixture
def holder(tmp_path: Path, forks: ForkServerContext) -> Iterator[BaseProcess]:
    """Return a process that holds the lock of tmp_path for good."""
    process = forks.Process(target=hold, args=(tmp_path,))
    process.start()
    assert wait_for((tmp_path / "held").exists)
    yield process
    process.kill()
    process.join(PATIENCE_S)


def test_the_second_waits_and_both_end_with_the_same_table(
    tmp_path: Path, forks: ForkServerContext
) -> None:
    plan = plan_of(tmp_path, GRID)
    notes = [tmp_path / "first.txt", tmp_path / "second.txt"]
    processes = [
        forks.Process(target=play_slowly, args=(plan, tmp_path / "out", note)) for note in notes
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_S)
    said = [note.read_text(encoding="utf-8") for note in notes]
    # All runs are played once, by either of them.
    assert sum(int(text.splitlines()[0]) for text in said) == 30
    assert sum("waiting for another sweep to end" in text for text in said) == 1
    sweep(plan, tmp_path / "alone", Invented(some_record))
    assert tables_in(tmp_path / "out") == tables_in(tmp_path / "alone")


def test_whoever_waits_is_told_for_whom_and_a_killed_holder_lets_go(
    tmp_path: Path, holder: BaseProcess
) -> None:
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(line)
        holder.kill()

    with locked(tmp_path, hear) as alone:
        assert alone
    assert len(said) == 1
    assert f"(process {holder.pid} on {os.uname().nodename})" in said[0]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_where_there_are_no_locks_a_sweep_goes_on_and_says_so(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    plan = plan_of(tmp_path, GRID)
    draft = tmp_path / "out" / "runs" / ".other.json.elsewhere-1.tmp"
    draft.parent.mkdir(parents=True)
    draft.touch()
    outcome, said = sweep(plan, tmp_path / "out", Invented(some_record))
    assert outcome.played == 30
    assert said.splitlines()[0].endswith("no locks; start no second sweep there meanwhile")
    # It may belong to a sweep that is still under way.
    assert draft.exists()


def test_without_locks_two_sweeps_at_once_still_give_the_same_table(tmp_path: Path) -> None:
    """The second comes and goes in the middle of the first."""
    plan = plan_of(tmp_path, GRID)
    sweep(plan, tmp_path / "alone", Invented(some_record))

    def disturb(request: Request) -> dict[str, Any]:
        if request.task.seed == 5:
            outcome, _ = sweep(plan, tmp_path / "out", Invented(some_record))
            assert outcome.failed == 0
        return some_record(request)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        sweep(plan, tmp_path / "out", Invented(disturb))
    assert tables_in(tmp_path / "out") == tables_in(tmp_path / "alone")
