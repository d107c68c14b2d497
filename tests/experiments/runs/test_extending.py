"""Another grid into the same directory: more of it goes on, anything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.table import read_sweep
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml

from tests.experiments.runs.in_process import Invented, plan_of, some_record, sweep, tables_in

GRID = """
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
    sweep(plan_of(tmp_path, GRID), tmp_path / "out", Invented(some_record))
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [
        ("seeds = [0, 1]", "seeds = [1, 7, 0]", 2),
        ("[2, 3]", "[2, 5, 3]", 2),
        ("[300]", "[150, 300]", 4),
        ("[300]", '[300]\nstrategy.name = ["replication", "spare"]', 4),
        ("[grid]", 'name = "x"\n[grid]', 0),
        ("[set]", 'description = "x"\n[set]', 0),
    ],
)
def test_a_grid_that_has_grown_goes_on(
    old: str, new: str, more: int, directory: Path, tmp_path: Path
) -> None:
    grown = GRID.replace(old, new)
    if 'name = "x"' in grown:
        grown = grown.replace('name = "x"\n', "").replace("scenario", 'name = "x"\nscenario')
    executor = Invented(some_record)
    plan = plan_of(tmp_path, grown)
    _, said = sweep(plan, directory, executor)
    assert len(executor.played) == more
    assert (f"the grid has grown by {more} runs, from 4" in said) == (more > 0)
    sweep(plan, tmp_path / "from-scratch", Invented(some_record))
    assert tables_in(directory) == tables_in(tmp_path / "from-scratch")
    assert read_sweep(directory).axes == plan.manifest.axes


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("seeds = [0, 1]", "seeds = [0, 2]", "seed 1 is not asked any more"),
        ("steps = 100", "steps = 200", "job.steps was 100 and is 200"),
        ("[2, 3]", "[2, 4]", "the point strategy.redundancy = 3, failures.mtbf_s = 300.0 is not"),
        ("[300]", "[600]", "failures.mtbf_s = 300.0 is not asked any more"),
        (
            "strategy.redundancy = [2, 3]",
            'strategy.name = ["replication", "spare"]',
            "strategy.redundancy = 2, failures.mtbf_s = 300.0, strategy.name = 'spare' is not",
        ),
        ("[set]", 'engine = "simgrid"\n[set]', "engine was 'replay' and is 'simgrid'"),
        ("spare-study", "spare-sound", "the scenario was called 'spare-study', and now"),
        ("[set]", "[set]\ntimes.compute_s = 65.0", "times.compute_s was 64.0 and is 65.0"),
    ],
)
def test_another_grid_is_refused_by_its_first_difference(
    old: str, new: str, told: str, directory: Path, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    executor = Invented(some_record)
    with pytest.raises(UserError) as caught:
        sweep(plan_of(tmp_path, GRID.replace(old, new)), directory, executor)
    assert told in str(caught.value)
    assert str(directory) in str(caught.value)
    assert executor.played == []
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_an_edited_platform_is_another_grid(tmp_path: Path) -> None:
    path = tmp_path / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=2), path)
    text = f'scenario = "spare-study"\n[set]\nplatform.file = "{path}"\njob.groups = 4'
    sweep(plan_of(tmp_path, text), tmp_path / "out", Invented(some_record))
    path.write_text(path.read_text(encoding="utf-8").replace("50GBps", "49GBps"), encoding="utf-8")
    with pytest.raises(UserError, match="its platform file"):
        sweep(plan_of(tmp_path, text), tmp_path / "out", Invented(some_record))
