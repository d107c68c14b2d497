"""Sweeps that are killed at any moment, and two in one directory at once."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.point import Request
from faultline.experiments.runs.store import locked
from faultline.experiments.runs.sweep_plan import Plan
from faultline.experiments.runs.table import read_sweep

from tests.experiments.runs.in_process import Invented, plan_of, some_record, sweep, tables_in
from tests.experiments.runs.processes import PATIENCE_S, wait_for

SMALL = 'scenario = "spare-study"\nseeds = 2\n[grid]\nstrategy.redundancy = [2, 3]'


GRID = 'scenario = "spare-study"\nseeds = 20\n[grid]\nstrategy.redundancy = [2, 3, 4]'


def simulate(folder: Path, directory: Path) -> None:
    def slowly(request: Request) -> dict[str, Any]:
        time.sleep(0.002)
        return some_record(request)

    sweep(plan_of(folder, GRID), directory, Invented(slowly))


def simulate_until(folder: Path, directory: Path, moment: int) -> None:
    """Run; this process kills itself before the given change to the disk, counted from 0."""
    moments = iter(range(moment))

    def killing(change: Callable[..., Any]) -> Callable[..., Any]:
        def change_or_be_killed(*arguments: Any, **named: Any) -> Any:
            if next(moments, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(*arguments, **named)

        return change_or_be_killed

    os.fsync = killing(os.fsync)
    for name in ("mkdir", "replace", "rename", "unlink"):
        setattr(Path, name, killing(getattr(Path, name)))
    sweep(plan_of(folder, SMALL), directory, Invented(some_record))


def results_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / "runs").glob("*.json")}


def check_sound(directory: Path) -> None:
    if (directory / "sweep.json").exists():
        found = read_sweep(directory)
        assert found.problems == ()
        assert len(found.frame) == len(results_in(directory))
    else:
        with pytest.raises(UserError):
            read_sweep(directory)


def check_ended_like(directory: Path, undisturbed: Path) -> None:
    assert tables_in(directory) == tables_in(undisturbed)
    assert [path.name for path in directory.rglob(".*")] == [".lock"]


@pytest.mark.slow
def test_a_sweep_killed_before_any_change_to_the_disk_goes_on(
    tmp_path: Path, forks: ForkServerContext
) -> None:
    plan = plan_of(tmp_path, SMALL)
    sweep(plan, tmp_path / "undisturbed", Invented(some_record))
    for moment in range(1000):
        directory = tmp_path / f"killed-{moment}"
        process = forks.Process(target=simulate_until, args=(tmp_path, directory, moment))
        process.start()
        process.join(PATIENCE_S)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        check_sound(directory)
        kept = len(results_in(directory))
        outcome, _ = sweep(plan, directory, Invented(some_record))
        assert (outcome.already_there, outcome.simulated) == (kept, 4 - kept)
        check_ended_like(directory, tmp_path / "undisturbed")
    # Two folders; two tables to take away; manifest, runs and tables, each flushed and renamed.
    assert moment == 2 + 2 + 2 * (1 + 4 + 2)


@pytest.mark.slow
def test_a_sweep_killed_again_and_again_at_random_goes_on(
    tmp_path: Path, forks: ForkServerContext
) -> None:
    # The first process of all takes longer, as it waits for what is imported.
    first = forks.Process(target=plan_of, args=(tmp_path, GRID))
    first.start()
    first.join()
    began_s = time.monotonic()
    undisturbed = forks.Process(target=simulate, args=(tmp_path, tmp_path / "undisturbed"))
    undisturbed.start()
    undisturbed.join(PATIENCE_S)
    took_s = time.monotonic() - began_s

    directory = tmp_path / "killed"
    random = np.random.default_rng(1)
    kept: dict[str, bytes] = {}
    while True:
        process = forks.Process(target=simulate, args=(tmp_path, directory))
        process.start()
        process.join(took_s * random.uniform(0.05, 0.6))
        if process.exitcode is not None:
            if kept:
                break
            # It was through before the first kill: once more, with less time.
            shutil.rmtree(directory)
            took_s /= 3
            continue
        process.kill()
        process.join(PATIENCE_S)
        took_s *= 1.1  # Where the machine has become slower meanwhile, this comes to an end too.
        check_sound(directory)
        now = results_in(directory)
        assert kept.items() <= now.items(), "a kill took results away, or changed them"
        kept = now
    assert process.exitcode == 0
    assert kept
    check_ended_like(directory, tmp_path / "undisturbed")


TEN_SEEDS = 'scenario = "spare-study"\nseeds = 10\n[grid]\nstrategy.redundancy = [2, 3, 4]'


def simulate_slowly(plan: Plan, directory: Path, note: Path) -> None:
    def slowly(request: Request) -> dict[str, Any]:
        time.sleep(0.01)
        return some_record(request)

    outcome, printed = sweep(plan, directory, Invented(slowly))
    note.write_text(f"{outcome.simulated}\n{printed}", encoding="utf-8")


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
    plan = plan_of(tmp_path, TEN_SEEDS)
    notes = [tmp_path / "first.txt", tmp_path / "second.txt"]
    processes = [
        forks.Process(target=simulate_slowly, args=(plan, tmp_path / "out", note)) for note in notes
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_S)
    printed = [note.read_text(encoding="utf-8") for note in notes]
    # All runs are simulated once, by either of them.
    assert sum(int(text.splitlines()[0]) for text in printed) == 30
    assert sum("waiting for another sweep to end" in text for text in printed) == 1
    sweep(plan, tmp_path / "alone", Invented(some_record))
    assert tables_in(tmp_path / "out") == tables_in(tmp_path / "alone")


def test_a_second_sweep_waits_and_a_killed_holder_lets_go(
    tmp_path: Path, holder: BaseProcess
) -> None:
    printed: list[str] = []

    def record_and_kill(line: str) -> None:
        printed.append(line)
        holder.kill()

    with locked(tmp_path, record_and_kill) as alone:
        assert alone
    assert printed == [f"{tmp_path}: waiting for another sweep to end"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_without_locks_a_sweep_goes_on_with_a_warning(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    plan = plan_of(tmp_path, TEN_SEEDS)
    draft = tmp_path / "out" / "runs" / ".other.json.elsewhere-1.tmp"
    draft.parent.mkdir(parents=True)
    draft.touch()
    outcome, printed = sweep(plan, tmp_path / "out", Invented(some_record))
    assert outcome.simulated == 30
    assert printed.splitlines()[0].endswith("no locks; start no second sweep there meanwhile")
    # It may belong to a sweep that is still under way.
    assert draft.exists()


def test_without_locks_two_sweeps_at_once_still_give_the_same_table(tmp_path: Path) -> None:
    """The second comes and goes in the middle of the first."""
    plan = plan_of(tmp_path, TEN_SEEDS)
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
