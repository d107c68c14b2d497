"""Reproductions: the registry, their rows, and that workers do not change results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments import studies
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolving import resolve
from faultline.experiments.report.tables import Table
from faultline.experiments.runs.execution import simulate
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.base import Study, listed_rows, row_of
from faultline.experiments.studies.catalogue import all_studies, load_study
from faultline.experiments.studies.spare import study
from faultline.experiments.studies.spare.cells import cell_of, cell_points, headline, variants
from faultline.experiments.studies.spare.figures import draw_curves, draw_headline
from faultline.experiments.studies.stage import Stage
from matplotlib.figure import Figure

from tests.experiments.command_line import Cli

ROW_KEYS = ["quantity", "scheme", "setting", "published", "simulated", "low", "high", "unit"]


def test_unknown_reproduction_is_refused_in_one_line(cli: Cli) -> None:
    assert "did you mean 'spare'?" in cli.refused("reproduce", "spar")


def test_every_folder_but_the_head_to_head_is_a_study_by_its_name() -> None:
    folders = {path.parent.name for path in Path(studies.__path__[0]).glob("*/__init__.py")}
    assert set(all_studies()) == {name.replace("_", "-") for name in folders - {"head_to_head"}}
    for name in all_studies():
        if name == "mecefo-convergence" and find_spec("jax") is None:
            with pytest.raises(UserError, match=r"pip install 'faultline-sim\[numerics\]'"):
                load_study(name)
        else:
            assert isinstance(load_study(name), Study)


@pytest.mark.parametrize("name", sorted(all_studies()))
def test_studies_state_which_options_they_use(name: str, cli: Cli) -> None:
    """By their own text: what a study reads of its stage."""
    if name == "mecefo-convergence" and find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    folder = Path(studies.__path__[0]) / name.replace("-", "_")
    text = "".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    patterns = {"full": r"stage\.(full|pick)\b", "seeds": r"stage\.seeds\b"}
    read = {option for option, pattern in patterns.items() if re.search(pattern, text)}
    assert load_study(name).scaled_by == read
    stated = {"full": ["--full"], "seeds": ["--seeds", "2"]}
    for option in stated.keys() - read:
        refusal = f"--{option}: has no effect on {name}; leave it out\n"
        assert cli.refused("reproduce", name, *stated[option]).endswith(refusal)


def test_no_folder_of_a_study_is_a_link(stage: Stage, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (stage.directory / "traces").symlink_to(elsewhere)
    with pytest.raises(OSError, match="a symbolic link, not a folder"):
        stage.folder("traces")
    assert stage.folder("mixes").is_dir()


def test_a_row_carries_the_confidence_interval_of_the_mean() -> None:
    row = row_of("ratio", "spare", "here", 2.0, [1.0, 2.0, 3.0], "1")
    assert list(row.as_dict()) == ROW_KEYS
    assert row.simulated == 2.0
    # Student's t for 2 degrees of freedom is 4.303; the standard error is 1/sqrt(3).
    assert row.high == pytest.approx(2.0 + 4.303 / 3**0.5, abs=1e-3)
    assert row.low == pytest.approx(4.0 - row.high)


def test_the_interval_of_an_availability_stays_below_100_percent() -> None:
    row = row_of("availability", "spare", "here", None, [0.999, 0.95, 0.999], "1")
    assert 0 < row.low < row.simulated < row.high < 1


def test_the_best_of_all_redundancies_is_printed_for_each_job() -> None:
    """That is r = 3 of 2 to 4; exponential failures have a row of their own."""
    rows = [
        ("spare-study", "spare", 600, redundancy, distribution, ratio, 0.5)
        for distribution in ("weibull", "exponential")
        for redundancy, ratio in ((2, 3.0), (3, 1.5), (3, 2.5), (4, 2.4))
    ]
    columns = ["rules", "strategy", "groups", "redundancy", "distribution", "time_to_train_ratio"]
    runs = pd.DataFrame(rows, columns=[*columns, "availability"])
    best = study.best_of(runs, "rules", "distribution", "groups", "strategy")
    assert list(zip(best.distribution, best.redundancy, best[columns[-1]], strict=True)) == [
        (distribution, 3, ratio)
        for distribution in ("weibull", "exponential")
        for ratio in (1.5, 2.5)
    ]


@pytest.mark.slow
def test_the_sensitivity_takes_each_scheme_at_its_best() -> None:
    """At 300 steps: every assumption replaced costs time, a watchdog of 600 s most."""
    points = [
        replace(point, scenario=point.scenario.change({"job.steps": 300}), resolved=None)
        for point in cell_points(variants("assumption"), 1, "assumption")
    ]
    runs = pd.DataFrame(simulate(points, workers=2))
    assert len(runs) == 4 * (2 + 3)
    table = study.best_of_sensitivity(runs)
    found = table.set_index(["assumption", "scheme"])
    for (name, scheme), mine in runs.groupby(["assumption", "strategy"]):
        assert found.time_to_train_ratio[name, scheme] == mine.time_to_train_ratio.min()
    names = list(runs.assumption.unique())
    for scheme in ("spare", "replication"):
        ratios = found.time_to_train_ratio.xs(scheme, level="scheme")[names]
        assert (ratios.iloc[1:] > ratios.iloc[0]).all()
        assert ratios.idxmax() == "a watchdog of 600 s notices"
    best = {"at_best": study.best_of(runs, "assumption", "strategy")}
    rows = list(listed_rows("spare", best))
    assert [row.simulated for row in rows] == list(table.time_to_train_ratio)
    assert len({(row.scheme, row.setting) for row in rows}) == 2 * len(names)


def small_runs(workers: int) -> pd.DataFrame:
    """The study's headline cells, shortened to 300 steps."""
    tasks = [
        Point.of(
            resolve(load_scenario(rules, [*cell.changes(), "job.steps=300"])),
            seed,
            (("rules", rules),),
        )
        for known in headline().itertuples()
        for rules in ("spare-study", "spare-sound")
        for cell in [cell_of(rules, known.scheme, known.groups, known.redundancy)]
        for seed in range(2)
    ]
    return pd.DataFrame(simulate(tasks, workers=workers))


def test_tables_and_figures_from_a_small_study(saved_bytes: Callable[[Figure], int]) -> None:
    runs = small_runs(1)
    pd.testing.assert_frame_equal(runs, small_runs(2))
    beside = study.with_published(runs)
    rows = list(listed_rows("spare", {"runs": beside}))
    assert len(rows) == 12 * 3
    compared = [row for row in rows if row.published is not None]
    assert {row.quantity for row in compared} == {"time_to_train_ratio", "availability"}
    json.dumps([row.as_dict() for row in rows], allow_nan=False)
    head = study.headline_of(runs)
    savings = study.savings_of(runs, head)
    (table,) = study.SpareStudy().headline({"savings": savings}, rows)
    assert isinstance(table, Table)
    assert [row.cells[:2] for row in table.rows] == [
        ("200", "52%"),
        ("600", "42%"),
        ("1,000", "40%"),
    ]
    assert saved_bytes(draw_headline(head, savings)) > 10_000
    assert saved_bytes(draw_curves(beside)) > 10_000


@pytest.mark.slow
def test_the_whole_reproduction_from_the_command_line(cli: Cli, tmp_path: Path) -> None:
    rows = cli.reproduced("spare", tmp_path, "--seeds", "2")
    assert all(list(row) == ROW_KEYS for row in rows)
    assert (tmp_path / "headline.csv").is_file()
    crossings = [row for row in rows if row["quantity"] == "crossing_mtbf_s"]
    # Checkpoints alone overtake both others: two kinds of rules, two distributions, three N.
    overtakes = [row for row in crossings if row["scheme"].startswith("checkpoint overtakes")]
    assert len(overtakes) == 24
    assert all(60.0 < row["simulated"] < 86_400.0 for row in overtakes)
