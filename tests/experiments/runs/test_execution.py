"""The one runner of many runs: in memory or into a store, and what is shown meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs import execution
from faultline.experiments.runs.execution import simulate
from faultline.experiments.runs.point import Point, RunCall
from faultline.experiments.runs.single_run import run

from tests.experiments.runs.processes import simulated_by, wait_for


def note(argument: tuple[str, int]) -> dict[str, Any]:
    """Return a row, and leave a mark that this was called."""
    folder, number = argument
    marks = Path(folder)
    (marks / f"{number}.{len(list(marks.iterdir()))}").touch()
    return {"number": np.int64(number), "third": number / 3, "pair": (number, None)}


def fail(argument: object) -> None:
    raise argument if isinstance(argument, Exception) else LookupError(argument)


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def called(marks: Path) -> list[int]:
    return sorted(int(path.name.partition(".")[0]) for path in marks.iterdir())


def some_points() -> list[Point]:
    scenario = load_scenario("spare-study", ["job.groups=12", "job.steps=50"])
    points = [Point(scenario, seed, labels=(("rules", "study"),)) for seed in range(3)]
    return [*points, Point.of(resolve(scenario), 1), Point.of(resolve(scenario), 3)]


def test_records_stand_in_the_order_of_the_points_however_they_are_simulated(
    tmp_path: Path,
) -> None:
    points = some_points()
    expected = [{**dict(point.labels), **run(point.scenario, point.seed)} for point in points]
    done: list[None] = []
    for _ in range(2):  # The second time, everything is in the store.
        assert (
            simulate(points, tmp_path / "kept.sqlite", on_done=lambda: done.append(None))
            == expected
        )
        assert len(done) == len(points)
        done.clear()
    assert next(iter(simulate(points, tmp_path / "kept.sqlite")[0])) == "rules"
    for workers in (1, 2):
        assert simulate(points, workers=workers, on_done=lambda: done.append(None)) == expected
    assert len(done) == 2 * len(points)
    assert simulate([]) == []


def test_only_what_is_missing_is_simulated(marks: Path, tmp_path: Path) -> None:
    first = RunCall.each(note, [(str(marks), number) for number in (1, 2)])
    more = RunCall.each(note, [(str(marks), number) for number in (2, 3, 1, 3)])
    kept = simulate(first, tmp_path / "kept.sqlite", workers=1)
    assert kept == [{"number": n, "third": n / 3, "pair": [n, None]} for n in (1, 2)]
    rows = simulate(more, tmp_path / "kept.sqlite", workers=1)
    assert [row["number"] for row in rows] == [2, 3, 1, 3]
    assert called(marks) == [1, 2, 3]


def test_what_other_source_made_is_simulated_again(
    marks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = RunCall.each(note, [(str(marks), 7)])
    simulate(calls, tmp_path / "kept.sqlite")
    monkeypatch.setattr(execution, "code_digest", lambda source: f"edited {source}")
    simulate(calls, tmp_path / "kept.sqlite")
    simulate(calls, tmp_path / "kept.sqlite")
    assert called(marks) == [7, 7]


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_run_that_fails_ends_it_and_what_was_simulated_is_kept(
    workers: int, marks: Path, tmp_path: Path
) -> None:
    good = RunCall.each(note, [(str(marks), number) for number in range(3)])
    before = set(simulated_by())
    for bad, kind, printed in (
        (UserError("job.groups: too many"), UserError, "^job.groups: too many$"),
        ("a mistake", RuntimeError, "a mistake"),
    ):
        # What stands last is begun first.
        tasks = [RunCall(fail, bad), *good]
        with pytest.raises(kind, match=printed):
            simulate(tasks, tmp_path / "kept.sqlite", workers=workers)
    if workers == 1:
        assert called(marks) == [0, 1, 2]
    assert wait_for(lambda: set(simulated_by()) <= before)


def test_a_mistake_in_another_process_comes_with_its_traceback() -> None:
    with pytest.raises(RuntimeError, match=r"in fail\n.*\n.*LookupError: 3"):
        simulate(RunCall.each(fail, [3, 3]), workers=2)


def test_a_point_has_a_name_of_its_own() -> None:
    scenario = load_scenario("spare-sound", ["job.groups=8", "job.steps=50"])
    resolved = resolve(scenario)
    points = [
        Point(scenario),
        Point(scenario, 1),
        Point(scenario, engine="simgrid"),
        Point.of(resolved, 0),
        Point.of(resolved, 1),
    ]
    assert len({point.key() for point in points}) == 5
    again = Point.of(resolve(load_scenario("spare-sound", ["job.groups=8", "job.steps=50"])), 1)
    assert again.key() == points[-1].key()
    assert Point(scenario, labels=(("rules", "sound"),)).key() == points[0].key()


def squares(number: int) -> list[int]:
    return [number, number**2]


def test_values_that_are_no_records_are_kept_too(tmp_path: Path) -> None:
    calls = [RunCall(squares, number) for number in (2, 3)]
    wanted = [[2, 4], [3, 9]]
    for _ in range(2):
        assert simulate(calls, tmp_path / "kept.sqlite", workers=1) == wanted
