"""Disks that are full: one line, nothing half written, and the same command goes on later."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterable, Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.sweep_plan import Plan
from faultline.experiments.runs.table import read_sweep

from tests.child_processes import run_program
from tests.experiments.runs.in_process import Invented, plan_of, some_record, sweep, tables_in
from tests.experiments.runs.processes import PATIENCE_S

GRID = 'scenario = "spare-study"\nseeds = 4\n[grid]\nstrategy.redundancy = [2, 3]'
LARGER_GRID = GRID.replace("seeds = 4", "seeds = 150")


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(tmp_path, GRID)


def drafts_in(directory: Path) -> list[Path]:
    return list(directory.rglob("*.tmp"))


@pytest.mark.parametrize(
    ("number", "rooms"), [(errno.ENOSPC, range(11)), (errno.EDQUOT, [4]), (errno.EFBIG, [4])]
)
def test_whichever_write_finds_the_disk_full_the_sweep_goes_on_later(
    number: int, rooms: Iterable[int], tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writes are the manifest, eight runs and two tables, and then the disk suffices."""
    sweep(plan, tmp_path / "undisturbed", Invented(some_record))
    flush = os.fsync
    for room in rooms:
        left = iter(range(room))

        def fill(descriptor: int, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise OSError(number, os.strerror(number))
            flush(descriptor)

        directory = tmp_path / f"room-{room}"
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fill)
            with pytest.raises(UserError) as caught:
                sweep(plan, directory, Invented(some_record))
        kept = min(max(room - 1, 0), 8)
        assert f"{os.strerror(number)}: {kept} of 8 runs are kept; make room" in str(caught.value)
        assert drafts_in(directory) == []
        if room > 0:
            assert len(read_sweep(directory).frame) == kept
        rest = Invented(some_record)
        sweep(plan, directory, rest)
        assert len(rest.simulated) == 8 - kept
        assert tables_in(directory) == tables_in(tmp_path / "undisturbed")


def test_a_directory_that_cannot_be_written_is_told(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UserError, match="cannot be written: Input/output error"):
        sweep(plan, tmp_path / "out", Invented(some_record))


def simulate_with_files_of(bytes_: int, folder: Path, directory: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, resource.RLIM_INFINITY))
    try:
        sweep(plan_of(folder, LARGER_GRID), directory, Invented(some_record))
    except UserError as error:
        (folder / "said").write_text(str(error), encoding="utf-8")


def test_files_that_may_not_grow_are_told(tmp_path: Path, forks: ForkServerContext) -> None:
    plan = plan_of(tmp_path, LARGER_GRID)
    sweep(plan, tmp_path / "undisturbed", Invented(some_record))
    sizes = [
        len(plan.manifest.encoded()),
        max(path.stat().st_size for path in (tmp_path / "undisturbed" / "runs").iterdir()),
        *map(len, tables_in(tmp_path / "undisturbed")),
    ]
    assert max(sizes[0], sizes[1], sizes[3]) < sizes[2], "one table alone must not fit"
    directory = tmp_path / "out"
    process = forks.Process(target=simulate_with_files_of, args=(sizes[2] - 1, tmp_path, directory))
    process.start()
    process.join(PATIENCE_S)
    said = (tmp_path / "said").read_text(encoding="utf-8")
    assert said.startswith(f"{directory}: File too large: 300 of 300 runs are kept")
    assert drafts_in(directory) == []
    outcome, _ = sweep(plan, directory, Invented(some_record))
    assert outcome.simulated == 0
    assert tables_in(directory) == tables_in(tmp_path / "undisturbed")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a file system that has room for 28 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = run_program("mount", "-t", "tmpfs", "-o", "size=28k", "tmpfs", folder)
    if mounted.returncode != 0:
        pytest.skip("may not mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True, timeout=60)


def test_a_disk_that_is_really_full_is_told_and_a_larger_one_goes_on(
    small_disk: Path, tmp_path: Path, plan: Plan
) -> None:
    directory = small_disk / "out"
    with pytest.raises(UserError) as caught:
        sweep(plan, directory, Invented(some_record))
    found = read_sweep(directory)
    kept = len(found.frame)
    assert 0 < kept < 8
    assert str(caught.value).startswith(
        f"{directory}: No space left on device: {kept} of 8 runs are kept; make room"
    )
    assert (drafts_in(directory), found.problems) == ([], ())
    subprocess.run(["mount", "-o", "remount,size=2M", str(small_disk)], check=True, timeout=60)
    outcome, _ = sweep(plan, directory, Invented(some_record))
    assert (outcome.simulated, outcome.already_there) == (8 - kept, kept)
    sweep(plan, tmp_path / "undisturbed", Invented(some_record))
    assert tables_in(directory) == tables_in(tmp_path / "undisturbed")
