"""Results folders whose files were damaged: runs are executed again, or refused."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.manifest import FILE, DamagedError, seal, unseal
from faultline.experiments.runs.store import LOCK
from faultline.experiments.runs.sweep_plan import SweepPlan
from faultline.experiments.runs.table import CSV, PARQUET, read_sweep
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.experiments.command_line import Cli
from tests.experiments.runs.in_process import (
    Invented,
    plan_of,
    some_record,
    sweep,
    tables_in,
)

pytestmark = pytest.mark.system

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)
)
contents = st.dictionaries(
    st.text(max_size=5).filter(lambda key: key != "checksum"),
    st.one_of(
        scalars, st.lists(scalars, max_size=3), st.dictionaries(st.text(max_size=3), scalars)
    ),
    max_size=5,
)
SEALED = seal({"run_id": "0123456789abcdef", "record": {"time_s": 0.1, "restarts": 3}})


@examples(0.5)
@given(content=contents)
def test_every_bit_comes_back_in_the_same_order(content: dict[str, Any]) -> None:
    back = unseal(seal(content))
    assert repr(back) == repr(content)


def test_numbers_that_json_does_not_know_come_back() -> None:
    back = unseal(seal({"ratio": math.inf, "none": math.nan, "seed": np.int64(3)}))
    assert back["ratio"] == math.inf
    assert math.isnan(back["none"])
    assert back["seed"] == 3


def test_a_cut_or_a_changed_letter_is_noticed() -> None:
    for place in range(len(SEALED) - 1):
        changed = SEALED[:place] + bytes([SEALED[place] ^ 1]) + SEALED[place + 1 :]
        for damaged in (SEALED[:place], changed):
            with pytest.raises(DamagedError):
                unseal(damaged)


@pytest.mark.parametrize("foreign", [b"", b"[]", b'{"run_id": 3}', b"\xff\xfe", b"[" * 100_000])
def test_what_was_never_sealed_is_noticed(foreign: bytes) -> None:
    with pytest.raises(DamagedError):
        unseal(foreign)


GRID = 'scenario = "spare-study"\nseeds = 2\n[grid]\nstrategy.redundancy = [2, 3]'


@pytest.fixture
def plan(tmp_path: Path) -> SweepPlan:
    return plan_of(tmp_path, GRID)


@pytest.fixture
def results(plan: SweepPlan, tmp_path: Path) -> Path:
    """A finished sweep."""
    directory = tmp_path / "results"
    sweep(plan, directory, Invented(some_record))
    return directory


def a_run(results: Path) -> Path:
    return sorted((results / "runs").iterdir())[0]


def test_a_lock_is_not_followed(results: Path, plan: SweepPlan, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    lock = results / LOCK
    for lay in (
        lambda: lock.symlink_to(victim),
        lambda: os.link(victim, lock),
        lambda: os.mkfifo(lock),
        lock.mkdir,
    ):
        lock.rmdir() if lock.is_dir() else lock.unlink()
        lay()
        with pytest.raises(UserError, match=r"not a lock but .*remove it"):
            sweep(plan, results, Invented(some_record))
        assert victim.read_text(encoding="utf-8") == "precious"


def into_a_link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere-" + path.name)
    path.rename(elsewhere)
    path.symlink_to(elsewhere.name)


def into_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def into_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def edit(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"restarts":', b'"restarts":1'))


def of_before(path: Path) -> None:
    """Leave the record of a version that had a column less."""
    content = unseal(path.read_bytes())
    del content["record"]["goodput"]
    path.write_bytes(seal(content))


def swap_in_another(path: Path) -> None:
    other = next(file for file in sorted(path.parent.iterdir()) if file != path)
    shutil.copy(other, path)


@pytest.mark.parametrize(
    "damage", [cut_off, edit, swap_in_another, of_before, into_a_link, into_a_pipe, into_a_folder]
)
def test_a_damaged_run_is_left_out_and_simulated_again(
    damage: Callable[[Path], object], results: Path, plan: SweepPlan
) -> None:
    before = tables_in(results)
    path = a_run(results)
    damage(path)
    (results / PARQUET).unlink()
    found = read_sweep(results)
    assert (len(found.frame), found.planned) == (3, 4)
    (problem,) = found.problems
    assert re.match(f"{path}: .*; left out$", problem)
    if path.is_symlink() or not path.is_file():
        with pytest.raises(UserError, match=f"{path}: a .*, not a regular file; remove it"):
            sweep(plan, results, Invented(some_record))
        path.rmdir() if path.is_dir() else path.unlink()
        expected = ""
    else:
        expected = problem.replace("left out", "this run is executed again\n")
    _, printed = sweep(plan, results, again := Invented(some_record))
    assert printed.startswith(expected)
    assert len(again.simulated) == 1
    assert tables_in(results) == before


def test_of_many_damaged_runs_a_few_are_named(tmp_path: Path, cli: Cli) -> None:
    plan = plan_of(tmp_path, GRID.replace("seeds = 2", "seeds = 25"))
    results = tmp_path / "results"
    sweep(plan, results, Invented(some_record))
    (results / PARQUET).unlink()
    for path in list((results / "runs").iterdir())[:30]:
        cut_off(path)
    assert "10 more such files were ignored." in cli("compare", results)
    _, printed = sweep(plan, results, again := Invented(some_record))
    assert len(again.simulated) == 30
    assert printed.count("; this run is executed again") == 20
    assert f"{results}: 10 more such files\n" in printed


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_folder_is_not_taken_for_one(
    kind: str, results: Path, plan: SweepPlan, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".precious.tmp").write_text("precious", encoding="utf-8")
    (results / "runs").rename(tmp_path / "moved")
    if kind == "file":
        (results / "runs").touch()
    else:
        (results / "runs").symlink_to(elsewhere)
    (results / PARQUET).unlink()
    assert len(read_sweep(results).frame) == 0
    with pytest.raises(UserError, match="runs: not a folder; remove it"):
        sweep(plan, results, Invented(some_record))
    (results / "runs").unlink()
    sweep(plan, results, again := Invented(some_record))
    assert len(again.simulated) == 4
    assert [path.name for path in elsewhere.iterdir()] == [".precious.tmp"]


@pytest.mark.parametrize("name", [FILE, PARQUET, CSV])
@pytest.mark.parametrize("damage", [into_a_link, into_a_folder, into_a_pipe])
def test_what_is_no_file_of_a_sweep_is_refused(
    damage: Callable[[Path], None], name: str, results: Path, plan: SweepPlan, cli: Cli
) -> None:
    before = tables_in(results)
    path = results / name
    damage(path)
    assert cli.all("compare", results)[0] == (2 if name == FILE else 0)
    with pytest.raises(UserError, match=f"{path}: a .*, not a regular file; remove it"):
        sweep(plan, results, again := Invented(some_record))
    path.rmdir() if path.is_dir() else path.unlink()
    sweep(plan, results, again := Invented(some_record))
    assert again.simulated == []
    assert tables_in(results) == before
