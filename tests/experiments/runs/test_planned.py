"""What a sweep leaves behind, and what is made of it when it was disturbed."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs import sweep_plan as sweep_module
from faultline.experiments.runs.local import InThisProcess
from faultline.experiments.runs.point import Limits, Request
from faultline.experiments.runs.sweep_plan import SweepPlan
from faultline.experiments.runs.table import read_sweep

from tests.child_processes import output_of_python
from tests.experiments.runs.in_process import Invented, plan_of, some_record, sweep, tables_in

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
    sweep(plan_of(folder, GRID), folder / "out", Invented(some_record))
    return folder / "out"


@pytest.fixture
def directory(finished: Path, tmp_path: Path) -> Path:
    """Return a finished sweep, to be disturbed."""
    return shutil.copytree(finished, tmp_path / "out")


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_finished_sweep_has_a_row_a_run_in_the_order_of_the_plan(
    directory: Path, plan: SweepPlan
) -> None:
    found = read_sweep(directory)
    assert found.axes == {
        "strategy.name": ["replication", "spare"],
        "strategy.redundancy": [1, 2, 3],
    }
    assert found.planned == len(found.frame) == 18
    assert found.problems == ()
    rows = found.frame[["run_id", "strategy.name", "strategy.redundancy", "seed"]]
    expected = [(run_id, *values, seed) for run_id, values, seed in plan.manifest.rows()]
    assert list(rows.itertuples(index=False, name=None)) == expected
    assert set(found.frame["status"]) == {"ok"}
    assert list(found.frame["error"]) == [None] * 18
    for row in found.frame.to_dict("records"):
        assert row["time_s"] == 1e6 / (row["strategy.redundancy"] + row["seed"] / 3)
        assert (row["time_to_train_ratio"] == math.inf) == (row["strategy.redundancy"] == 1)


def test_csv_and_parquet_hold_the_same_values(directory: Path) -> None:
    parquet = pd.read_parquet(directory / "table.parquet")
    # A digest such as 53e667676158 is no number.
    csv = pd.read_csv(directory / "table.csv", dtype={"code": str})
    pd.testing.assert_frame_equal(parquet, csv, check_dtype=False, check_exact=True)


def test_records_are_those_of_the_simulation(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        'scenario = "spare-study"\nseeds = [5]\n[set]\njob.groups = 24\njob.steps = 20\n'
        "[grid]\nstrategy.redundancy = [2, 3]",
    )
    sweep(plan, tmp_path / "out", InThisProcess())
    frame = read_sweep(tmp_path / "out").frame
    expected = pd.DataFrame(
        result.value
        for result in InThisProcess().simulate(plan.requests(set(plan.manifest.run_ids)), Limits())
    )
    pd.testing.assert_frame_equal(frame[expected.columns], expected, check_dtype=False)


def test_a_sweep_under_way_is_read_from_its_runs(
    tmp_path: Path, plan: SweepPlan, finished: Path
) -> None:
    class StopError(Exception):
        pass

    def stop_after_seven(request: Request) -> dict[str, object]:
        if len(executor.simulated) > 7:
            raise StopError
        return some_record(request)

    executor = Invented(stop_after_seven)
    with pytest.raises(StopError):
        sweep(plan, tmp_path / "out", executor)
    found = read_sweep(tmp_path / "out")
    assert (len(found.frame), found.planned) == (7, 18)
    assert found.frame["seed"].tolist() == [0, 1, 0, 0, 0, 0, 0]
    rest = Invented(some_record)
    outcome, _ = sweep(plan, tmp_path / "out", rest)
    assert (outcome.simulated, outcome.already_there, len(rest.simulated)) == (11, 7, 11)
    assert tables_in(tmp_path / "out") == tables_in(finished)


@pytest.mark.parametrize("missing", ["table.parquet", "runs"])
def test_table_and_runs_give_the_very_same_frame(missing: str, directory: Path) -> None:
    before = read_sweep(directory).frame
    (directory / missing).rename(directory / "elsewhere")
    pd.testing.assert_frame_equal(read_sweep(directory).frame, before)


def test_a_run_that_was_taken_away_outdates_the_table(directory: Path, plan: SweepPlan) -> None:
    later_ns = (directory / "table.parquet").stat().st_mtime_ns + 10**9
    (directory / "runs" / f"{plan.manifest.run_ids[4]}.json").unlink()
    os.utime(directory / "runs", ns=(later_ns, later_ns))
    assert plan.manifest.run_ids[4] not in set(read_sweep(directory).frame["run_id"])


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
def test_a_table_is_read_without_a_thread_that_outlives_python(directory: Path) -> None:
    """One that drops a Python object after the end aborts the process: one run in a hundred."""
    assert output_of_python("-c", COUNTED, directory) == "0\n"


def test_the_same_again_simulates_nothing_and_writes_the_same_tables(
    directory: Path, plan: SweepPlan
) -> None:
    before = tables_in(directory)
    idle = Invented(some_record)
    outcome, printed = sweep(plan, directory, idle)
    assert (outcome.simulated, outcome.already_there, idle.simulated, printed) == (0, 18, [], "")
    assert tables_in(directory) == before


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def test_foreign_files_are_ignored_and_temporary_ones_removed(
    directory: Path, plan: SweepPlan, tmp_path: Path
) -> None:
    before = tables_in(directory)
    other = plan_of(tmp_path, GRID.replace("[1, 2, 3]", "[4]"))
    sweep(other, tmp_path / "other", Invented(some_record))
    foreign = tmp_path / "other" / "runs" / f"{other.manifest.run_ids[0]}.json"
    shutil.copy(foreign, directory / "runs")
    mine = [directory / "runs" / "notes.txt", directory / "report.html"]
    for path in mine:
        path.write_text("mine", encoding="utf-8")
    for folder in (directory, directory / "runs"):
        (folder / ".file.json.host-1.tmp").write_bytes(b"{")
    read_sweep(directory)
    _, printed = sweep(plan, directory, Invented(some_record))
    assert printed == ""
    assert {path.read_text(encoding="utf-8") for path in mine} == {"mine"}
    assert foreign.name in names_in(directory / "runs")
    assert ".file.json.host-1.tmp" not in names_in(directory) | names_in(directory / "runs")
    assert tables_in(directory) == before


@pytest.mark.parametrize("name", ["sweep.json", "table.parquet", "table.csv"])
def test_damaged_files_of_the_directory_are_written_again(
    name: str, directory: Path, plan: SweepPlan
) -> None:
    before = (*tables_in(directory), (directory / "sweep.json").read_bytes())
    truncate(directory / name)
    outcome, _ = sweep(plan, directory, Invented(some_record))
    assert outcome.simulated == 0
    assert (*tables_in(directory), (directory / "sweep.json").read_bytes()) == before


def test_a_damaged_table_is_not_read(directory: Path) -> None:
    before = read_sweep(directory).frame
    table = directory / "table.parquet"
    content = bytearray(table.read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    flipped = [
        content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :]
        for position in range(4, footer, 97)
    ]
    cut_off = [content[:length] for length in range(0, len(content), 997)]
    for harmed in (*flipped, *cut_off):
        table.write_bytes(harmed)
        try:
            frame = read_sweep(directory).frame
        finally:
            table.write_bytes(content)
        pd.testing.assert_frame_equal(frame, before)


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path, plan: SweepPlan) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match="contains files but no sweep"):
        sweep(plan, tmp_path / "home", Invented(some_record))
    assert names_in(tmp_path / "home") == {"thesis.tex"}
    with pytest.raises(UserError, match="-o DIR"):
        sweep(plan, tmp_path / "home" / "thesis.tex", Invented(some_record))


def fails_for_three(request: Request) -> dict[str, object] | str:
    redundancy = request.task.scenario.strategy.redundancy
    return "took more than 600 s" if redundancy == 3 else some_record(request)


def test_a_failed_run_is_a_row_and_stays_until_it_is_retried(
    tmp_path: Path, plan: SweepPlan, finished: Path
) -> None:
    outcome, _ = sweep(plan, tmp_path / "out", Invented(fails_for_three))
    assert (outcome.simulated, outcome.failed) == (18, 6)
    assert outcome.first_error == (
        "strategy.name = 'replication', strategy.redundancy = 3, seed 0: took more than 600 s"
    )
    frame = read_sweep(tmp_path / "out").frame
    failed = frame[frame["status"] == "failed"]
    assert failed["strategy.redundancy"].tolist() == [3] * 6
    assert failed["seed"].tolist() == [0, 1, 2] * 2
    assert set(failed["error"]) == {"took more than 600 s"}
    assert failed["time_s"].isna().all()
    assert frame.loc[frame["status"] == "ok", "error"].tolist() == [None] * 12

    idle = Invented(some_record)
    outcome, _ = sweep(plan, tmp_path / "out", idle)
    assert (outcome.failed, idle.simulated) == (6, [])
    retried = Invented(some_record)
    outcome, _ = sweep(plan, tmp_path / "out", retried, retry_failed=True)
    assert (outcome.simulated, outcome.failed, len(retried.simulated)) == (6, 0, 6)
    assert tables_in(tmp_path / "out") == tables_in(finished)


def test_a_sweep_of_which_all_runs_failed_is_read(tmp_path: Path, plan: SweepPlan) -> None:
    sweep(plan, tmp_path / "out", Invented(lambda request: "crashed"))
    found = read_sweep(tmp_path / "out")
    assert set(found.frame["status"]) == {"failed"}
    assert found.planned == len(found.frame) == 18


def test_results_of_other_code_are_not_mixed_in(
    directory: Path, plan: SweepPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "runs" / f"{plan.manifest.run_ids[0]}.json").unlink()
    monkeypatch.setattr(sweep_module, "code_digest", lambda: "after-edit")
    before = names_in(directory / "runs")
    with pytest.raises(UserError, match=r"17 of its results were made by other code.*-o DIR"):
        sweep(plan, directory, Invented(some_record))
    assert names_in(directory / "runs") == before


def test_code_that_changes_while_a_sweep_runs_is_reported(
    tmp_path: Path, plan: SweepPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = iter(["before", "after"])
    monkeypatch.setattr(sweep_module, "code_digest", lambda: next(digests))
    _, printed = sweep(plan, tmp_path / "out", Invented(some_record))
    assert "has changed while this sweep ran" in printed


@pytest.mark.parametrize("harm", [Path.unlink, truncate])
def test_a_directory_without_a_sound_manifest_is_reported(
    harm: Callable[[Path], None], directory: Path
) -> None:
    harm(directory / "sweep.json")
    with pytest.raises(UserError, match="faultline sweep"):
        read_sweep(directory)
