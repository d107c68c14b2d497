"""Plans: every point validated, every run named; and another one for the same directory."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.grid import Grid
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.sweep_plan import SweepPlan, make_plan
from faultline.experiments.runs.table import read_sweep
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
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
seeds = [4, 2]
[set]
"job.groups" = 60
[grid]
"strategy.redundancy" = [3, 5]
"failures.mtbf_s" = [300, 600]
"""


def values_at(plan: SweepPlan, point: str) -> tuple[Any, ...]:
    return tuple(plan.stored.points[point].values())


def points_of(folder: Path, text: str) -> list[tuple[Any, ...]]:
    plan = plan_of(folder, text)
    return [values_at(plan, point) for point in plan.stored.points]


def test_the_plan_is_the_product_with_all_seeds_side_by_side(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, GRID)
    stored = plan.stored
    assert stored.keys == ["strategy.redundancy", "failures.mtbf_s"]
    assert stored.axes == {"strategy.redundancy": [3, 5], "failures.mtbf_s": [300.0, 600.0]}
    expected = [(point, seed) for point in product([3, 5], [300.0, 600.0]) for seed in (4, 2)]
    assert [(values_at(plan, point), seed) for _, point, seed in stored.runs()] == expected
    assert len(set(run_ids(plan))) == stored.count == 8


def test_every_request_is_the_scenario_with_its_settings(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, GRID)
    requests = {request.run_id: request for request in plan.requests(run_ids(plan))}
    for run_id, point, seed in plan.stored.runs():
        redundancy, mtbf_s = values_at(plan, point)
        settings = [
            "job.groups=60",
            f"strategy.redundancy={redundancy}",
            f"failures.mtbf_s={mtbf_s}",
        ]
        scenario = load_scenario("spare-study", settings)
        request = requests.pop(run_id)
        assert request.task.scenario == scenario
        assert (request.task.seed, request.task.engine) == (seed, "replay")
    assert requests == {}


def test_the_whole_grid_is_requested_with_one_seed_before_the_next(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, GRID)
    wanted = set(run_ids(plan)) - {run_ids(plan)[2]}
    requests = list(plan.requests(wanted))
    assert [request.task.seed for request in requests] == [4, 4, 4, 2, 2, 2, 2]
    assert {request.run_id for request in requests} == wanted


@pytest.mark.parametrize(
    "table",
    [
        '[grid]\n"detection.watchdog_s" = [60, 600]',
        '[set]\n"detection.watchdog_s" = 60\n[grid]\n"strategy.redundancy" = [2, 3]',
    ],
)
def test_a_key_that_has_no_effect_at_any_point_is_refused(tmp_path: Path, table: str) -> None:
    text = f'scenario = "spare-study"\nseeds = 1\n{table}'
    with pytest.raises(
        UserError, match=r"detection\.watchdog_s: has no effect with detection\.mode"
    ):
        plan_of(tmp_path, text)
    modes = '"detection.mode" = ["all-reduce", "watchdog"]'
    plan_of(tmp_path, text.replace("[grid]", f"[grid]\n{modes}"))


def test_points_that_cases_have_in_common_are_simulated_once(tmp_path: Path) -> None:
    text = """
    scenario = "spare-study"
    [[cases]]
    "job.groups" = [60, 200]
    "strategy.redundancy" = [2, 3]
    [[cases]]
    "job.groups" = 60
    "strategy.redundancy" = [3, 4]
    """
    assert points_of(tmp_path, text) == [(60, 2), (60, 3), (200, 2), (200, 3), (60, 4)]


def test_what_a_case_leaves_open_is_the_scenarios_own(tmp_path: Path) -> None:
    text = """
    scenario = "spare-study"
    [[cases]]
    "strategy.redundancy" = 3
    [[cases]]
    "failures.mtbf_s" = 900
    """
    assert points_of(tmp_path, text) == [(3, 300.0), (None, 900.0)]


def test_a_key_with_one_value_is_a_column_and_no_axis(tmp_path: Path) -> None:
    text = 'scenario = "spare-study"\n[grid]\njob.groups = [60]\nstrategy.redundancy = [2, 3]'
    manifest = plan_of(tmp_path, text).stored
    assert manifest.keys == ["job.groups", "strategy.redundancy"]
    assert manifest.axes == {"strategy.redundancy": [2, 3]}


groups = st.lists(st.sampled_from([24, 60, 200]), min_size=1, max_size=3, unique=True)
mtbf = st.lists(st.sampled_from([300.0, 600.0, 900.0]), min_size=1, max_size=3, unique=True)


@examples(0.25)
@given(seeds=st.lists(st.integers(0, 5), min_size=1, unique=True), groups=groups, mtbf=mtbf)
def test_a_run_has_its_name_whatever_stands_around_it(
    seeds: list[int], groups: list[int], mtbf: list[float]
) -> None:
    def named(**changes: object) -> dict[tuple[int, float, int], str]:
        stated: dict[str, object] = {
            "origin": "grid.toml",
            "name": "grid",
            "scenario": "spare-study",
            "folder": Path(),
            "engine": "replay",
            "seeds": tuple(seeds),
            "fixed": {},
            "varied": {"job.groups": groups, "failures.mtbf_s": mtbf},
            "cases": ({},),
        }
        stored = make_plan(Grid(**{**stated, **changes})).stored  # type: ignore[arg-type]
        return {
            (stored.points[at]["job.groups"], stored.points[at]["failures.mtbf_s"], seed): run_id
            for run_id, at, seed in stored.runs()
        }

    plain = named()
    assert len(set(plain.values())) == len(plain) == len(seeds) * len(groups) * len(mtbf)
    turned = {"failures.mtbf_s": mtbf[::-1], "job.groups": groups[::-1]}
    assert named(varied=turned, seeds=tuple(seeds[::-1]), name="other") == plain
    as_cases = tuple({"job.groups": [one]} for one in groups)
    assert named(varied={"failures.mtbf_s": mtbf}, cases=as_cases) == plain
    assert named(fixed={"name": "other"}) == plain
    assert not set(named(fixed={"job.steps": 77}).values()) & set(plain.values())
    assert not set(named(engine="simgrid").values()) & set(plain.values())


def test_a_scenario_is_looked_for_beside_its_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_text("[job]\ngroups = 24", encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    plan = plan_of(tmp_path, 'scenario = "mine.toml"')
    (request,) = plan.requests(run_ids(plan))
    assert (request.task.scenario.name, request.task.scenario.job.groups) == ("mine", 24)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ('scenario = "spare-stdy"', ["spare-stdy", "spare-study"]),
        ('scenario = "bad.toml"', ["bad.toml", "job.group", "did you mean 'job.groups'?"]),
        (
            'scenario = "spare-study"\n[set]\njob.groups = "many"',
            ["grid.toml", "[set]", "job.groups = 'many'"],
        ),
        (
            'scenario = "spare-study"\n[grid]\njob.groups = [60]\nstrategy.redundancy = [3, 13]',
            ["point job.groups = 60, strategy.redundancy = 13", "redundancy 13 needs more than"],
        ),
        (
            'scenario = "spare-study"\n[grid]\nfailures.mtbf_s = [300, 1e-3]',
            ["point failures.mtbf_s = 0.001"],
        ),
        (
            'scenario = "spare-study"\n[grid]\nplatform.file = ["spare-600k", "none.xml"]',
            ["point platform.file = 'none.xml'", "no such file"],
        ),
    ],
)
def test_a_bad_point_is_reported_before_anything_runs(
    text: str, printed: list[str], tmp_path: Path
) -> None:
    (tmp_path / "bad.toml").write_text("[job]\ngroup = 3", encoding="utf-8")
    with pytest.raises(UserError) as caught:
        plan_of(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    for part in printed:
        assert part in message


OLD_GRID = """
scenario = "spare-study"
seeds = [0, 1]
[set]
job.steps = 100
[grid]
strategy.redundancy = [2, 3]
failures.mtbf_s = [300]
"""


@pytest.mark.parametrize(
    ("old", "new", "more", "others"),
    [
        ("seeds = [0, 1]", "seeds = [1, 7, 0]", 2, 0),
        ("[300]", "[150, 300]", 4, 0),
        ("[300]", '[300]\nstrategy.name = ["replication", "spare"]', 4, 0),
        ("scenario", 'name = "x"\nscenario', 0, 0),
        ("[set]", "[set]\ndescription = 'x'", 0, 0),
        ("seeds = [0, 1]", "seeds = [0, 2]", 2, 2),
        ("steps = 100", "steps = 200", 4, 4),
        ("[set]", 'engine = "simgrid"\n[set]', 4, 4),
    ],
)
def test_another_grid_has_its_own_table_and_shares_the_runs(
    old: str, new: str, more: int, others: int, tmp_path: Path
) -> None:
    file, scratch = tmp_path / "out.sqlite", tmp_path / "from-scratch.sqlite"
    sweep(plan_of(tmp_path, OLD_GRID), file, Invented(some_record))
    before = csv_of(file)
    executor, plan = Invented(some_record), plan_of(tmp_path, OLD_GRID.replace(old, new))
    _, printed = sweep(plan, file, executor)
    assert len(executor.simulated) == more
    assert (f"keeps {others} runs of another grid" in printed) == (others > 0)
    sweep(plan, scratch, Invented(some_record))
    assert csv_of(file) == csv_of(scratch)
    assert read_sweep(file).axes == plan.stored.axes
    idle = Invented(some_record)
    sweep(plan_of(tmp_path, OLD_GRID), file, idle)
    assert idle.simulated == []
    assert csv_of(file) == before


def test_an_edited_platform_is_another_point(tmp_path: Path) -> None:
    path = tmp_path / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=2), path)
    text = f'scenario = "spare-study"\n[set]\nplatform.file = "{path}"\njob.groups = 4'
    before = run_ids(plan_of(tmp_path, text))
    path.write_text(path.read_text(encoding="utf-8").replace("50GBps", "49GBps"), encoding="utf-8")
    assert not set(before) & set(run_ids(plan_of(tmp_path, text)))
