"""What a sweep leaves behind, and what is made of it when it was disturbed."""

from __future__ import annotations

import math
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs import store as store_module
from faultline.experiments.runs import sweep_plan as sweep_module
from faultline.experiments.runs.executor import InThisProcess, simulate_requests
from faultline.experiments.runs.point import Request
from faultline.experiments.runs.store import open_store
from faultline.experiments.runs.sweep_plan import SweepPlan
from faultline.experiments.runs.table import EXPORTS, read_sweep, read_table

from tests.child_processes import output_of_python
from tests.experiments.runs.in_process import (
    Invented,
    csv_of,
    plan_of,
    run_ids,
    some_record,
    sweep,
)

GRID = """
scenario = "spare-study"
seeds = 3
[grid]
strategy.name = ["replication", "spare"]
strategy.redundancy = [1, 2, 3]
"""


@pytest.fixture
def plan(tmp_path: Path) -> SweepPlan:
    return plan_of(tmp_path, GRID)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    sweep(plan_of(folder, GRID), folder / "out.sqlite", Invented(some_record))
    return folder / "out.sqlite"


@pytest.fixture
def file(finished: Path, tmp_path: Path) -> Path:
    """Return a finished sweep, to be disturbed."""
    return shutil.copy(finished, tmp_path / "copied.sqlite")


def test_a_finished_sweep_has_a_row_a_run_in_the_order_of_the_plan(
    file: Path, plan: SweepPlan
) -> None:
    found = read_sweep(file)
    assert found.axes == {
        "strategy.name": ["replication", "spare"],
        "strategy.redundancy": [1, 2, 3],
    }
    assert found.planned == len(found.frame) == 18
    assert list(found.frame["run_id"]) == run_ids(plan)
    assert set(found.frame["status"]) == {"ok"}
    assert list(found.frame["error"]) == [None] * 18
    for row in found.frame.to_dict("records"):
        assert row["strategy.name"] == row["strategy"]
        assert row["time_s"] == 1e6 / (row["strategy.redundancy"] + row["seed"] / 3)
        assert (row["time_to_train_ratio"] == math.inf) == (row["strategy.redundancy"] == 1)


def test_one_file_is_left_and_pandas_reads_it(file: Path) -> None:
    assert [path.name for path in file.parent.glob("copied*")] == ["copied.sqlite"]
    with sqlite3.connect(file) as connection:
        runs = pd.read_sql("SELECT * FROM runs JOIN points USING (stated_hash)", connection)
    frame = read_sweep(file).frame.sort_values("run_id")
    assert list(runs.sort_values("run_id")["time_s"]) == list(frame["time_s"])


def test_csv_and_parquet_hold_the_same_values(file: Path, tmp_path: Path) -> None:
    for ending, content in EXPORTS.items():
        (tmp_path / f"table{ending}").write_bytes(content(read_table(file)[1]))
    parquet = pd.read_parquet(tmp_path / "table.parquet")
    # A digest such as 53e667676158 is no number.
    csv = pd.read_csv(tmp_path / "table.csv", dtype={"code": str})
    pd.testing.assert_frame_equal(parquet, csv, check_dtype=False, check_exact=True)


def test_records_are_those_of_the_simulation(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        'scenario = "spare-study"\nseeds = [5]\n[set]\njob.groups = 24\njob.steps = 20\n'
        "[grid]\nstrategy.redundancy = [2, 3]",
    )
    sweep(plan, tmp_path / "out.sqlite", InThisProcess())
    frame = read_sweep(tmp_path / "out.sqlite").frame
    requests = plan.requests(run_ids(plan))
    expected = pd.DataFrame(one.value for one in simulate_requests(InThisProcess(), requests))
    pd.testing.assert_frame_equal(frame[expected.columns], expected, check_dtype=False)


def test_columns_of_families_stand_where_they_are_defined(tmp_path: Path, plan: SweepPlan) -> None:
    def with_causes(request: Request) -> dict[str, Any]:
        causes = {} if request.task.seed == 0 else {"events_by_cause.fan": 2}
        return {**some_record(request), **causes, "remedies.none": 1}

    sweep(plan, tmp_path / "out.sqlite", Invented(with_causes))
    frame = read_sweep(tmp_path / "out.sqlite").frame
    columns = list(frame.columns)
    assert columns[columns.index("events") + 1] == "events_by_cause.fan"
    assert columns.index("remedies.none") < columns.index("reorderings")
    assert frame["events_by_cause.fan"].fillna(0).tolist() == [0, 2, 2] * 6


class StopError(Exception):
    pass


def test_a_sweep_under_way_is_read_and_goes_on(
    tmp_path: Path, plan: SweepPlan, finished: Path
) -> None:
    file = tmp_path / "out.sqlite"

    def stop_after_seven(request: Request) -> dict[str, object]:
        if len(executor.simulated) > 7:
            assert len(read_sweep(file).frame) == 7
            raise StopError
        return some_record(request)

    executor = Invented(stop_after_seven)
    with pytest.raises(StopError):
        sweep(plan, file, executor)
    found = read_sweep(file)
    assert (len(found.frame), found.planned) == (7, 18)
    assert found.frame["seed"].tolist() == [0, 1, 0, 0, 0, 0, 0]
    rest = Invented(some_record)
    outcome, _ = sweep(plan, file, rest)
    assert (outcome.simulated, outcome.already_there, len(rest.simulated)) == (11, 7, 11)
    assert csv_of(file) == csv_of(finished)


COUNTED = """
import os, sys
from pathlib import Path
from faultline.experiments.runs import table
def threads():
    return len(os.listdir("/proc/self/task"))
before = threads()
assert len(table.read_sweep(Path(sys.argv[1])).frame) == 18
print(threads() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted on Linux")
def test_a_table_is_read_without_a_thread_that_outlives_python(file: Path) -> None:
    """One that drops a Python object after the end aborts the process: one run in a hundred."""
    assert output_of_python("-c", COUNTED, file) == "0\n"


def test_the_same_again_simulates_nothing(file: Path, plan: SweepPlan) -> None:
    before = csv_of(file)
    idle = Invented(some_record)
    outcome, printed = sweep(plan, file, idle)
    assert (outcome.simulated, outcome.already_there, idle.simulated, printed) == (0, 18, [], "")
    assert csv_of(file) == before


def fails_for_three(request: Request) -> dict[str, object] | str:
    redundancy = request.task.scenario.strategy.redundancy
    return "took more than 600 s" if redundancy == 3 else some_record(request)


def test_a_failed_run_is_a_row_and_stays_until_it_is_retried(
    tmp_path: Path, plan: SweepPlan, finished: Path
) -> None:
    file = tmp_path / "out.sqlite"
    outcome, _ = sweep(plan, file, Invented(fails_for_three))
    assert (outcome.simulated, outcome.failed) == (18, 6)
    assert outcome.first_error == (
        "strategy.name = 'replication', strategy.redundancy = 3, seed 0: took more than 600 s"
    )
    frame = read_sweep(file).frame
    failed = frame[frame["status"] == "failed"]
    assert failed["strategy.redundancy"].tolist() == [3] * 6
    assert failed["seed"].tolist() == [0, 1, 2] * 2
    assert set(failed["error"]) == {"took more than 600 s"}
    assert failed["time_s"].isna().all()
    assert frame.loc[frame["status"] == "ok", "error"].tolist() == [None] * 12

    idle = Invented(some_record)
    outcome, _ = sweep(plan, file, idle)
    assert (outcome.failed, idle.simulated) == (6, [])
    retried = Invented(some_record)
    outcome, _ = sweep(plan, file, retried, retry_failed=True)
    assert (outcome.simulated, outcome.failed, len(retried.simulated)) == (6, 0, 6)
    assert csv_of(file) == csv_of(finished)


def test_a_sweep_of_which_all_runs_failed_is_read(tmp_path: Path, plan: SweepPlan) -> None:
    sweep(plan, tmp_path / "out.sqlite", Invented(lambda request: "crashed"))
    found = read_sweep(tmp_path / "out.sqlite")
    assert set(found.frame["status"]) == {"failed"}
    assert found.planned == len(found.frame) == 18


def test_results_of_other_code_are_not_mixed_in(
    file: Path, plan: SweepPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = csv_of(file)
    monkeypatch.setattr(sweep_module, "code_digest", lambda: "after-edit")
    with pytest.raises(UserError, match=r"18 of its runs were made by other code.*another file"):
        sweep(plan, file, Invented(some_record))
    assert csv_of(file) == before


def test_code_that_changes_while_a_sweep_runs_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = iter(["before", "after"])
    monkeypatch.setattr(sweep_module, "code_digest", lambda: next(digests))
    plan = plan_of(tmp_path, GRID)
    _, printed = sweep(plan, tmp_path / "out.sqlite", Invented(some_record))
    assert "has changed while this sweep ran" in printed


# --- Files that are no results, or no longer ------------------------------------------------------


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5000])


def overwrite(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:8192] + bytes(8192) + content[16384:])


def other_program(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE cats (name)")


def other_format(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 7")


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    ("harm", "printed"),
    [
        (truncate, "it is damaged|the file is damaged|malformed"),
        (overwrite, "the file is damaged|malformed"),
        (lambda file: file.write_text("mine" * 1000), "file is not a database; name a file that"),
        (other_program, "not a file of faultline sweep; name another one"),
        (other_format, "has format 7, and this version reads 1"),
        (folder, r"a folder, but the results of a sweep are one file; name .*copied\.sqlite"),
    ],
)
def test_what_is_no_sound_file_is_refused_and_left_alone(
    harm: Callable[[Path], object], printed: str, file: Path, plan: SweepPlan
) -> None:
    harm(file)
    before = file.is_dir() or file.read_bytes()
    executor = Invented(some_record)
    for use in (read_sweep, lambda path: sweep(plan, path, executor)):
        with pytest.raises(UserError, match=printed) as caught:
            use(file)
        assert str(caught.value).startswith(f"{file}: ")
        assert "\n" not in str(caught.value)
    assert executor.simulated == []
    assert before == (file.is_dir() or file.read_bytes())


def test_a_missing_file_and_one_without_a_sweep_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file; make one with faultline sweep"):
        read_sweep(tmp_path / "none.sqlite")
    with open_store(tmp_path / "new.sqlite"):
        pass
    with pytest.raises(UserError, match="has no sweep; make one with faultline sweep"):
        read_sweep(tmp_path / "new.sqlite")


def test_a_link_is_not_followed(file: Path, plan: SweepPlan) -> None:
    link = file.with_name("link.sqlite")
    link.symlink_to(file)
    with pytest.raises(UserError, match="a symbolic link, not a regular file"):
        sweep(plan, link, Invented(some_record))


def test_a_second_sweep_into_the_same_file_is_refused(file: Path, plan: SweepPlan) -> None:
    with open_store(file), pytest.raises(UserError, match="another sweep writes it; wait until"):
        sweep(plan, file, Invented(some_record))
    sweep(plan, file, Invented(some_record))


def test_a_full_disk_ends_a_sweep_that_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, connect = tmp_path / "out.sqlite", store_module._connected
    plan = plan_of(tmp_path, GRID.replace("seeds = 3", "seeds = 30"))
    sweep(plan, tmp_path / "undisturbed.sqlite", Invented(some_record))

    def connect_to_full_disk(path: Path, mode: str) -> sqlite3.Connection:
        connection = connect(path, mode)
        connection.execute("PRAGMA max_page_count = 17")
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "_connected", connect_to_full_disk)
        with pytest.raises(UserError, match="disk is full; finished runs are kept; make room"):
            sweep(plan, file, Invented(some_record))
    kept = len(read_sweep(file).frame)
    assert 0 < kept < 180
    outcome, _ = sweep(plan, file, Invented(some_record))
    assert outcome.already_there == kept
    assert csv_of(file) == csv_of(tmp_path / "undisturbed.sqlite")
