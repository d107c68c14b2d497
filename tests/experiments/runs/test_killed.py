"""Sweeps that are killed at any moment, and two in one directory at once."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.point import Request
from faultline.experiments.runs.sweep_plan import SweepPlan
from faultline.experiments.runs.table import read_sweep

from tests.experiments.runs.in_process import Invented, plan_of, some_record, sweep, tables_in
from tests.experiments.runs.processes import PATIENCE_S

pytestmark = pytest.mark.system

SMALL = 'scenario = "spare-study"\nseeds = 2\n[grid]\nstrategy.redundancy = [2, 3]'


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


TEN_SEEDS = 'scenario = "spare-study"\nseeds = 10\n[grid]\nstrategy.redundancy = [2, 3, 4]'


def simulate_slowly(plan: SweepPlan, directory: Path, note: Path) -> None:
    def slowly(request: Request) -> dict[str, Any]:
        time.sleep(0.01)
        return some_record(request)

    outcome, printed = sweep(plan, directory, Invented(slowly))
    note.write_text(f"{outcome.simulated}\n{printed}", encoding="utf-8")


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

    draft = tmp_path / "out" / "runs" / ".other.json.elsewhere-1.tmp"
    draft.parent.mkdir(parents=True)
    draft.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        _, printed = sweep(plan, tmp_path / "out", Invented(disturb))
    assert printed.splitlines()[0].endswith("no locks; start no second sweep there meanwhile")
    # It may belong to a sweep that is still under way.
    assert draft.exists()
    assert tables_in(tmp_path / "out") == tables_in(tmp_path / "alone")
