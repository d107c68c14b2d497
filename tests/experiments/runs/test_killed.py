"""Sweeps that are killed at any moment go on, and end as if nothing had been."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.point import Request
from faultline.experiments.runs.table import read_sweep

from tests.experiments.runs.in_process import Invented, plan_of, some_record, sweep, tables_in
from tests.experiments.runs.processes import PATIENCE_S

SMALL = 'scenario = "spare-study"\nseeds = 2\n[grid]\nstrategy.redundancy = [2, 3]'
GRID = 'scenario = "spare-study"\nseeds = 20\n[grid]\nstrategy.redundancy = [2, 3, 4]'


def play(folder: Path, directory: Path) -> None:
    def slowly(request: Request) -> dict[str, Any]:
        time.sleep(0.002)
        return some_record(request)

    sweep(plan_of(folder, GRID), directory, Invented(slowly))


def play_until(folder: Path, directory: Path, moment: int) -> None:
    """Play; this process kills itself before the given change to the disk, counted from 0."""
    moments = iter(range(moment))

    def dying(change: Callable[..., Any]) -> Callable[..., Any]:
        def change_or_die(*arguments: Any, **named: Any) -> Any:
            if next(moments, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(*arguments, **named)

        return change_or_die

    os.fsync = dying(os.fsync)
    for name in ("mkdir", "replace", "rename", "unlink"):
        setattr(Path, name, dying(getattr(Path, name)))
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
    assert not (directory / "set-aside").exists()
    assert [path.name for path in directory.rglob(".*")] == [".lock"]


@pytest.mark.slow
def test_a_sweep_killed_before_any_change_to_the_disk_goes_on(
    tmp_path: Path, forks: ForkServerContext
) -> None:
    plan = plan_of(tmp_path, SMALL)
    sweep(plan, tmp_path / "undisturbed", Invented(some_record))
    for moment in range(1000):
        directory = tmp_path / f"killed-{moment}"
        process = forks.Process(target=play_until, args=(tmp_path, directory, moment))
        process.start()
        process.join(PATIENCE_S)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        check_sound(directory)
        kept = len(results_in(directory))
        outcome, _ = sweep(plan, directory, Invented(some_record))
        assert (outcome.already_there, outcome.played) == (kept, 4 - kept)
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
    undisturbed = forks.Process(target=play, args=(tmp_path, tmp_path / "undisturbed"))
    undisturbed.start()
    undisturbed.join(PATIENCE_S)
    took_s = time.monotonic() - began_s

    directory = tmp_path / "killed"
    random = np.random.default_rng(1)
    kept: dict[str, bytes] = {}
    while True:
        process = forks.Process(target=play, args=(tmp_path, directory))
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
