"""Plans: every point validated, every run named; and another one for the same directory."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.grid import Grid
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.sweep_plan import make_plan
from faultline.experiments.runs.table import read_sweep
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.experiments.runs.in_process import Invented, plan_of, some_record, sweep, tables_in

GRID = """
scenario = "spare-study"
seeds = [4, 2]
[set]
"job.groups" = 60
[grid]
"strategy.redundancy" = [3, 5]
"failures.mtbf_s" = [300, 600]
"""


def test_the_plan_is_the_product_with_all_seeds_side_by_side(tmp_path: Path) -> None:
    manifest = plan_of(tmp_path, GRID).manifest
    assert manifest.keys == ["strategy.redundancy", "failures.mtbf_s"]
    assert manifest.axes == {"strategy.redundancy": [3, 5], "failures.mtbf_s": [300.0, 600.0]}
    expected = [([*point], seed) for point in product([3, 5], [300.0, 600.0]) for seed in (4, 2)]
    assert [(values, seed) for _, values, seed in manifest.rows()] == expected
    assert len(set(manifest.run_ids)) == 8


def test_every_request_is_the_scenario_with_its_settings(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, GRID)
    requests = {request.run_id: request for request in plan.requests(set(plan.manifest.run_ids))}
    for run_id, (redundancy, mtbf_s), seed in plan.manifest.rows():
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
    wanted = set(plan.manifest.run_ids) - {plan.manifest.run_ids[2]}
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
    manifest = plan_of(tmp_path, text).manifest
    assert manifest.points == [[60, 2], [60, 3], [200, 2], [200, 3], [60, 4]]


def test_what_a_case_leaves_open_is_the_scenarios_own(tmp_path: Path) -> None:
    text = """
    scenario = "spare-study"
    [[cases]]
    "strategy.redundancy" = 3
    [[cases]]
    "failures.mtbf_s" = 900
    """
    manifest = plan_of(tmp_path, text).manifest
    assert manifest.keys == ["strategy.redundancy", "failures.mtbf_s"]
    assert manifest.points == [[3, 300.0], [None, 900.0]]


def test_a_key_with_one_value_is_a_column_and_no_axis(tmp_path: Path) -> None:
    text = 'scenario = "spare-study"\n[grid]\njob.groups = [60]\nstrategy.redundancy = [2, 3]'
    manifest = plan_of(tmp_path, text).manifest
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
        manifest = make_plan(Grid(**{**stated, **changes})).manifest  # type: ignore[arg-type]
        where = [manifest.keys.index(key) for key in ("job.groups", "failures.mtbf_s")]
        return {
            (*(values[position] for position in where), seed): run_id  # type: ignore[misc]
            for run_id, values, seed in manifest.rows()
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
    (request,) = plan.requests(set(plan.manifest.run_ids))
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


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    sweep(plan_of(tmp_path, OLD_GRID), tmp_path / "out", Invented(some_record))
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [
        ("seeds = [0, 1]", "seeds = [1, 7, 0]", 2),
        ("[300]", "[150, 300]", 4),
        ("[300]", '[300]\nstrategy.name = ["replication", "spare"]', 4),
        ("[grid]", 'name = "x"\n[grid]', 0),
        ("[set]", 'description = "x"\n[set]', 0),
    ],
)
def test_a_grid_that_has_grown_goes_on(
    old: str, new: str, more: int, directory: Path, tmp_path: Path
) -> None:
    grown = OLD_GRID.replace(old, new)
    if 'name = "x"' in grown:
        grown = grown.replace('name = "x"\n', "").replace("scenario", 'name = "x"\nscenario')
    executor = Invented(some_record)
    plan = plan_of(tmp_path, grown)
    _, printed = sweep(plan, directory, executor)
    assert len(executor.simulated) == more
    assert (f"the grid has {more} more runs than the 4 before" in printed) == (more > 0)
    sweep(plan, tmp_path / "from-scratch", Invented(some_record))
    assert tables_in(directory) == tables_in(tmp_path / "from-scratch")
    assert read_sweep(directory).axes == plan.manifest.axes


@pytest.mark.parametrize(
    ("old", "new", "printed"),
    [
        ("seeds = [0, 1]", "seeds = [0, 2]", "seed 1 is no longer requested"),
        ("steps = 100", "steps = 200", "job.steps was 100 and is 200"),
        (
            "[2, 3]",
            "[2, 4]",
            "the point strategy.redundancy = 3, failures.mtbf_s = 300.0 is no longer",
        ),
        (
            "strategy.redundancy = [2, 3]",
            'strategy.name = ["replication", "spare"]',
            "strategy.redundancy = 2, failures.mtbf_s = 300.0, strategy.name = 'spare' is",
        ),
        ("[set]", 'engine = "simgrid"\n[set]', "engine was 'replay' and is 'simgrid'"),
        ("spare-study", "spare-sound", "the scenario was named 'spare-study', and now"),
        ("[set]", "[set]\ntimes.compute_s = 65.0", "times.compute_s was 64.0 and is 65.0"),
    ],
)
def test_another_grid_is_refused_by_its_first_difference(
    old: str, new: str, printed: str, directory: Path, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    executor = Invented(some_record)
    with pytest.raises(UserError) as caught:
        sweep(plan_of(tmp_path, OLD_GRID.replace(old, new)), directory, executor)
    assert printed in str(caught.value)
    assert str(directory) in str(caught.value)
    assert executor.simulated == []
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_an_edited_platform_is_another_grid(tmp_path: Path) -> None:
    path = tmp_path / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=2), path)
    text = f'scenario = "spare-study"\n[set]\nplatform.file = "{path}"\njob.groups = 4'
    sweep(plan_of(tmp_path, text), tmp_path / "out", Invented(some_record))
    path.write_text(path.read_text(encoding="utf-8").replace("50GBps", "49GBps"), encoding="utf-8")
    with pytest.raises(UserError, match="its platform file"):
        sweep(plan_of(tmp_path, text), tmp_path / "out", Invented(some_record))
