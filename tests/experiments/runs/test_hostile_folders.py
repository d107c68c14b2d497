"""Results folders whose files were damaged or forged: runs are executed again, or refused."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.manifest import FILE, DamagedError, seal, unseal
from faultline.experiments.runs.store import LOCK
from faultline.experiments.runs.sweep_plan import Plan
from faultline.experiments.runs.table import CSV, PARQUET, parquet_from, read_sweep, read_table
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.child_processes import run_program
from tests.experiments.command_line import Cli
from tests.experiments.runs.in_process import (
    WHOLE,
    Invented,
    plan_of,
    some_record,
    sweep,
    tables_in,
)
from tests.experiments.runs.processes import start_python, wait_for, with_tests

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


@settings(max_examples=50)
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


@pytest.mark.parametrize(
    "foreign", [b"", b"[]", b"3", b'"text"', b"{}", b'{"run_id": 3}', b"\xff\xfe", b"[" * 100_000]
)
def test_what_was_never_sealed_is_noticed(foreign: bytes) -> None:
    with pytest.raises(DamagedError):
        unseal(foreign)


def test_an_edited_number_is_noticed() -> None:
    edited = json.loads(SEALED)
    edited["record"]["restarts"] = 4
    with pytest.raises(DamagedError, match="checksum"):
        unseal(json.dumps(edited).encode())


GRID = 'scenario = "spare-study"\nseeds = 2\n[grid]\nstrategy.redundancy = [2, 3]'
SHORT = f'{GRID}\n[set]\n"job.steps" = 20\n"job.groups" = 12'


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(tmp_path, GRID)


@pytest.fixture
def results(plan: Plan, tmp_path: Path) -> Path:
    """A finished sweep."""
    directory = tmp_path / "results"
    sweep(plan, directory, Invented(some_record))
    return directory


def resealed(path: Path, **changes: Any) -> None:
    """Change the content of a sealed file, under a checksum that is right."""
    path.write_bytes(seal({**unseal(path.read_bytes()), **changes}))


def a_run(results: Path) -> Path:
    return sorted((results / "runs").iterdir())[0]


def test_a_lock_is_not_followed(results: Path, plan: Plan, tmp_path: Path) -> None:
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


def deep(path: Path) -> None:
    path.write_bytes(b'{"checksum":"' + b"0" * 64 + b'","a":' + b"[" * 100_000)


def forge(path: Path, **forged: Any) -> None:
    """Forge values of a record, under a checksum that is right."""
    resealed(path, record={**unseal(path.read_bytes())["record"], **forged})


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def edit(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"restarts":', b'"restarts":1'))


def swap_in_another(path: Path) -> None:
    other = next(file for file in sorted(path.parent.iterdir()) if file != path)
    shutil.copy(other, path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut off": cut_off,
    "never sealed": lambda path: path.write_text("{}"),
    "edited": edit,
    "another one": swap_in_another,
    "a link": into_a_link,
    "a pipe": into_a_pipe,
    "a folder": into_a_folder,
    "nested": deep,
    "a record that is a list": lambda path: resealed(path, record=[1, 2]),
    "a text for a number": lambda path: resealed(path, record={**WHOLE, "time_s": "soon"}),
    "no columns": lambda path: resealed(path, record={}),
    "no value in a column": lambda path: resealed(path, record={**WHOLE, "strategy": None}),
    "a table for a number": lambda path: resealed(path, record={**WHOLE, "time_s": {"a": 1}}),
    "a number for a text": lambda path: resealed(path, code=7),
    "a truth for a time": lambda path: resealed(path, wall_s=True),
    "no number": lambda path: forge(path, time_s=float("nan")),
    "a time without end": lambda path: forge(path, downtime_s=float("inf")),
    "a time before time": lambda path: forge(path, time_s=-1.0),
    "events below none": lambda path: forge(path, events=-1),
    "an unknown scheme": lambda path: forge(path, strategy="no-such-scheme"),
    "a name that a terminal obeys": lambda path: forge(path, scenario="\x1b]0;hello\x07"),
    "another seed": lambda path: forge(path, seed=77),
    "another engine": lambda path: forge(path, engine="another"),
    "one key more": lambda path: resealed(path, more=1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_run_is_left_out_and_simulated_again(
    damage: Callable[[Path], object], results: Path, plan: Plan
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
    kind: str, results: Path, plan: Plan, tmp_path: Path
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
    damage: Callable[[Path], None], name: str, results: Path, plan: Plan, cli: Cli
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


# One who may read what is installed, wherever that is, and write nothing but what is his.
NOBODY = (
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
)  # fmt: skip


def as_nobody(code: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run Python as a user who owns nothing, whose files only he may read."""
    return run_program(
        *(*(NOBODY if os.geteuid() == 0 else ()), sys.executable, "-c", code, *words),
        env=with_tests() | {"HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"},
        umask=0o077,
    )


MAIN = "import sys; from faultline.experiments.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that anybody may enter: that of the tests is for their user alone."""
    with tempfile.TemporaryDirectory(prefix="faultline-test-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        if os.geteuid() == 0 and shutil.which("setpriv") is None:
            pytest.skip("there is no second user to try it as")
        yield folder


@pytest.mark.slow
def test_a_user_without_rights_sweeps_reads_and_is_refused_elsewhere(open_folder: Path) -> None:
    grid = open_folder / "grid.toml"
    grid.write_text(SHORT, encoding="utf-8")
    grid.chmod(0o644)
    out = open_folder / "out"
    done = as_nobody(MAIN, "sweep", grid, "-o", out, "--workers", "1")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    modes = {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in out.rglob("*")}
    assert modes == {0}
    assert as_nobody(MAIN, "compare", out).returncode == 0
    closed = open_folder / "closed"
    closed.mkdir(mode=0o755)
    for words in (
        ("sweep", grid, "-o", closed, "--workers", "1"),
        ("sweep", grid, "-o", closed / "inner", "--workers", "1"),
        ("report", out, "-o", closed / "report.html"),
        ("run", "spare-study", "--set", "job.steps=5", "--timeline", closed / "t.csv"),
        ("platform", "generate", "hgx-h100", "-o", closed / "p.xml"),
    ):
        refused = as_nobody(MAIN, *words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.count("\n") == 1
        assert f"{closed}" in refused.stderr
        assert "Permission denied" in refused.stderr
    assert list(closed.iterdir()) == []


@pytest.mark.slow
def test_a_sweep_that_is_ended_goes_on(tmp_path: Path) -> None:
    """An interrupt is tested with the command, which then prints more."""
    grid = tmp_path / "grid.toml"
    grid.write_text(SHORT.replace("20", "20000"), encoding="utf-8")
    words = ("sweep", str(grid), "-o", str(tmp_path / "out"), "--workers", "1")
    started = start_python("-c", MAIN, *words, stderr=subprocess.PIPE, text=True)
    assert wait_for((tmp_path / "out" / "runs").is_dir)
    started.send_signal(signal.SIGTERM)
    _, printed = started.communicate(timeout=60)
    assert started.returncode == -signal.SIGTERM
    assert "Traceback" not in printed
    plan = plan_of(tmp_path, grid.read_text(encoding="utf-8"))
    outcome, _ = sweep(plan, tmp_path / "out", Invented(some_record))
    assert outcome.failed == 0


def forged_table(results: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the table of a sweep; its digests stay those of the plan and of the CSV."""
    path = results / PARQUET
    table = pq.read_table(path)
    changed = change(table).replace_schema_metadata(table.schema.metadata)
    pq.write_table(changed, path, write_page_checksum=True)
    (results / "runs").rename(results.parent / "no-runs")


def with_column(name: str, values: Callable[[pa.Array], Any]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index(name)
        return table.set_column(place, name, pa.array(values(table.column(name).to_pylist())))

    return change


FORGERIES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "no columns": lambda table: table.select([]),
    "a column less": lambda table: table.drop_columns(["time_s"]),
    "a column twice": lambda table: table.append_column("seed", table.column("seed")),
    "other names": lambda table: table.rename_columns([name + "x" for name in table.column_names]),
    "a text for a number": with_column("time_s", lambda old: ["soon"] * len(old)),
    "lists": with_column("time_s", lambda old: [[1.0]] * len(old)),
    "a time before time": with_column("time_s", lambda old: [-1.0, *old[1:]]),
    "no number": with_column("time_s", lambda old: [float("nan"), *old[1:]]),
    "no value": with_column("time_s", lambda old: [None, *old[1:]]),
    "another scheme": with_column("strategy", lambda old: ["mecefo", *old[1:]]),
    "another seed": with_column("seed", lambda old: [7, *old[1:]]),
    "another value of a key": with_column("strategy.redundancy", lambda old: [9, *old[1:]]),
    "a run of another name": with_column("run_id", lambda old: ["a" * 16, *old[1:]]),
    "a run that neither failed nor not": with_column("status", lambda old: ["?", *old[1:]]),
    "an error of a sound run": with_column("error", lambda old: ["bad", *old[1:]]),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_table_is_not_believed(forgery: str, results: Path, plan: Plan, cli: Cli) -> None:
    assert read_table(results, plan.manifest) is not None
    forged_table(results, FORGERIES[forgery])
    assert read_table(results, plan.manifest) is None
    for command in ("compare", "report", "plot"):
        assert "Traceback" not in "".join(map(str, cli.all(command, results)))


def test_rows_are_counted_before_they_are_read(tmp_path: Path) -> None:
    """Two millions of them weigh some kilobytes."""
    path = tmp_path / "events.parquet"
    empty = pd.DataFrame({"step": np.zeros(2_000_001, "i1")})
    empty.to_parquet(path, index=False)
    assert path.stat().st_size < 20_000
    with pytest.raises(OSError, match="2,000,001 rows"):
        parquet_from(path.read_bytes(), 2_000_000)


HOSTILE_PLANS: dict[str, dict[str, Any]] = {
    "values that are lists": {"points": [[[1]], [[2]]]},
    "values that are tables": {"points": [[{"a": 1}], [{"a": 2}]]},
    "a key twice": {"keys": ["seed", "seed"], "points": [[1, 1], [2, 2]]},
    "a key that is none": {"keys": ["nonsense"]},
    "axes of nothing": {"axes": {"job.groups": [1, 2]}},
    "axes of lists": {"axes": {"strategy.redundancy": [[2], [3]]}},
    "no axes": {"axes": {}},
    "seeds twice": {"seeds": [0, 0]},
    "seeds below none": {"seeds": [-1, 0]},
    "runs twice": {"run_ids": ["a"] * 4},
    "nothing fixed": {"fixed": {}},
    "a name that is none": {"fixed": {"name": 7, "strategy.redundancy": 2}},
    "an empty grid": {"grid": {}},
    "a grid of lists": {"grid": {"name": "a", "grid": [], "cases": {}, "set": 7}},
    "runs that are a text": {"run_ids": "all"},
    "runs that are numbers": {"run_ids": [1, 2, 3, 4]},
    "no runs": {"run_ids": []},
    "seeds that are texts": {"seeds": ["0"]},
    "points of too many values": {"points": [[1, 2, 3]]},
    "a number for points": {"points": 7},
    "a list of what is fixed": {"fixed": []},
    "keys that are lists": {"keys": [["a"]]},
    "no grid": {"grid": None},
}


@pytest.mark.parametrize("name", HOSTILE_PLANS)
def test_an_inconsistent_plan_is_reported_and_fixed(
    name: str, results: Path, plan: Plan, cli: Cli
) -> None:
    resealed(results / FILE, **HOSTILE_PLANS[name])
    for command in ("compare", "report", "plot"):
        printed = cli.refused(command, results)
        assert printed.startswith(f"faultline: {results / FILE}: not the manifest of a sweep")
    before = tables_in(results)
    _, printed = sweep(plan, results, again := Invented(some_record))
    assert again.simulated == []
    assert "not the manifest of a sweep; it is written again" in printed
    assert tables_in(results) == before
