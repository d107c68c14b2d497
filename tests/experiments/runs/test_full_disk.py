"""Disks that are full: one line, nothing half written, and the same command goes on later."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.sweep_plan import SweepPlan
from faultline.experiments.runs.table import read_sweep

from tests.experiments.runs.in_process import Invented, plan_of, some_record, sweep, tables_in

pytestmark = pytest.mark.system

GRID = 'scenario = "spare-study"\nseeds = 4\n[grid]\nstrategy.redundancy = [2, 3]'


@pytest.fixture
def plan(tmp_path: Path) -> SweepPlan:
    return plan_of(tmp_path, GRID)


def drafts_in(directory: Path) -> list[Path]:
    return list(directory.rglob("*.tmp"))


@pytest.mark.parametrize(
    ("number", "rooms"), [(errno.ENOSPC, range(11)), (errno.EDQUOT, [4]), (errno.EFBIG, [4])]
)
def test_whichever_write_finds_the_disk_full_the_sweep_goes_on_later(
    number: int,
    rooms: Iterable[int],
    tmp_path: Path,
    plan: SweepPlan,
    monkeypatch: pytest.MonkeyPatch,
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


def test_a_directory_that_cannot_be_written_is_reported(
    tmp_path: Path, plan: SweepPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UserError, match="cannot be written: Input/output error"):
        sweep(plan, tmp_path / "out", Invented(some_record))
