"""The answers of the head-to-head: their tables, maps with ties, sentences, and the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.cli import main
from faultline.experiments.figures.maps import colours_of
from faultline.experiments.figures.style import figure_style
from faultline.experiments.planner.planning import Effort, answer_plan
from faultline.experiments.planner.situation import read_situation
from faultline.experiments.report.tables import Table
from faultline.experiments.studies.head_to_head.comparison import (
    CellPlan,
    HeadToHead,
    map_table,
    plan_cell,
)
from faultline.experiments.studies.head_to_head.figures import (
    draw_maps,
    draw_settings,
    map_sentences,
)
from faultline.experiments.studies.head_to_head.grids import Cell
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

SCHEMES = ("spare", "replication", "checkpoint")


def small_cell(grid: str = "settings", mtbf_s: float = 1500.0) -> Cell:
    settings = {"job.steps": 300, "job.groups": 20, "failures.mtbf_s": mtbf_s}
    return Cell(grid, "spare-sound", 1.0, 0.0, settings, "today")


def test_a_cell_is_the_plan_of_its_scenario() -> None:
    """The same table as `answer_plan` at the same effort: nothing is decided twice."""
    cell = small_cell()
    table = pd.DataFrame(plan_cell(CellPlan(cell, SCHEMES, worlds=2, failures=10)))
    situation = read_situation(
        "spare-sound", [f"{key}={cell.settings[key]}" for key in cell.settings]
    )
    steps = round(10 * situation.mtbf_s / situation.ideal_step_s)
    answer = answer_plan(situation, SCHEMES, effort=Effort(2, steps=steps), at_values=True)
    simulated = table[table["worlds"] > 0]
    assert simulated["scheme"].tolist() == [row.choice.scheme for row in answer.rows]
    assert simulated["ratio"].tolist() == pytest.approx(
        [row.judgement.bands.mean / situation.ideal_s for row in answer.rows]
    )
    assert simulated["best"].tolist() == [True] + [False] * (len(simulated) - 1)
    assert set(table["scheme"]) == {*SCHEMES}


def test_a_map_has_the_priors_and_a_list_the_values_of_the_scenario() -> None:
    bands = [
        pd.DataFrame(plan_cell(CellPlan(small_cell(grid), ("checkpoint",), 4, 10))).iloc[0]
        for grid in ("settings", "restart")
    ]
    assert bands[0]["ratio"] != bands[1]["ratio"]
    assert bands[0]["ratio_low"] < bands[0]["ratio"] < bands[0]["ratio_high"]


def row(x: float, y: float, scheme: str, ratio: float, **more: Any) -> dict[str, Any]:
    known = {"plane": "restart", "job": "head-to-head", "x": x, "y": y, "worlds": 8, "tied": False}
    known |= {"scheme": scheme, "ratio": ratio, "probability": 0.9, "regret": 0.0, "best": False}
    return known | more


ROWS = [
    row(300.0, 10.0, "spare", 1.1, best=True),
    row(300.0, 10.0, "checkpoint", 1.3),
    row(900.0, 10.0, "checkpoint", 1.05, best=True),
    row(900.0, 10.0, "spare", 1.06, tied=True),
    row(300.0, 60.0, "replica-drop", 1.2, best=True),
    *(row(300.0, 60.0, scheme, 1.2, tied=True) for scheme in ("checkpoint", "spare", "ntp")),
    row(900.0, 60.0, "checkpoint", 1.01, best=True),
    row(900.0, 60.0, "warm-standby", np.nan, worlds=0),
]


def test_a_map_names_the_soonest_scheme_of_each_cell_and_those_that_tie() -> None:
    cells = map_table(pd.DataFrame(ROWS)).set_index(["x", "y"])
    assert cells["best"].tolist() == ["spare", "checkpoint", "replica-drop", "checkpoint"]
    assert cells["ties"].tolist() == ["", "spare", "checkpoint spare ntp", ""]
    assert cells.loc[(300.0, 10.0), "plain_cost"] == 1.3
    (sentence,) = map_sentences(cells.reset_index())
    assert "ties 50%" in sentence
    assert "SPARe 25%" in sentence


def test_a_tie_is_drawn_in_the_colours_of_its_schemes_and_the_legend_has_them_all() -> None:
    with figure_style():
        figure = draw_maps(map_table(pd.DataFrame(ROWS)), "restarts")
    (panel,) = figure.axes
    pixels = np.asarray(panel.images[0].get_array())
    drawn = [[to_hex(pixel) for pixel in pixels[y]] for y in (0, 1)]
    spare, checkpoint = colours_of(["spare"]), colours_of(["checkpoint"])
    many = colours_of(["checkpoint", "spare", "ntp", "replica-drop"])
    assert drawn[0] == spare * 6 + checkpoint * 3 + spare * 3
    assert drawn[1] == many * 6 + checkpoint * 6
    legend = {
        text.get_text(): to_hex(patch.get_facecolor())
        for text, patch in zip(
            figure.legends[0].get_texts(), figure.legends[0].get_patches(), strict=True
        )
    }
    assert legend == {
        "checkpoint": checkpoint[0], "SPARe": spare[0], "more than 3 tie": many[0],
    }  # fmt: skip
    plt.close(figure)


def test_the_settings_have_a_panel_each_and_a_table_for_today() -> None:
    common = {"plane": "settings", "ratio_low": 1.0, "ratio_high": 1.5, "capped": 0.0}
    common |= {"under_repair": 48.0}
    table = pd.DataFrame(
        row(float(x), float(y), scheme, 1.01 + 0.1 * place, best=place == 0, name=name, **common)
        for x, name in enumerate(("calm", "today", "storm"))
        for y in range(2)
        for place, scheme in enumerate(("replica-drop", "checkpoint"))
    )
    with figure_style():
        figure = draw_settings(table)
    assert [panel.get_title(loc="left").splitlines()[0] for panel in figure.axes] == [
        "calm: a failure", "today: a failure", "storm: a failure",
    ]  # fmt: skip
    plt.close(figure)
    (shown,) = HeadToHead().headline({"settings": table}, ())
    assert isinstance(shown, Table)
    assert [column.title for column in shown.columns] == [
        "scheme",
        "today, queue",
        "today, standbys",
    ]
    assert [row.cells for row in shown.rows] == [
        ("replica drop", "1.010", "1.010"), ("checkpoint", "1.110", "1.110"),
    ]  # fmt: skip


def test_the_command_writes_a_table_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--only", "settings", "--quick", "--worlds", "1", "-o", str(tmp_path)]
    command = ["head-to-head", *few, "--schemes", "checkpoint", "--workers", "1"]
    assert main(command) == 0
    written = (tmp_path / "head-to-head-settings.csv").read_bytes()
    table = pd.read_csv(tmp_path / "head-to-head-settings.csv")
    assert table[["name", "scheme"]].to_numpy().tolist() == [
        ["calm", "checkpoint"], ["storm", "checkpoint"],
    ]  # fmt: skip
    assert "checkpoint" in capsys.readouterr().out
    assert main(command) == 0
    assert (tmp_path / "head-to-head-settings.csv").read_bytes() == written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--schemes spear", "--schemes spear: no such scheme"),
        ("--only layers --schemes spare", "--only layers: none of these schemes depends on layers"),
    ],
)
def test_schemes_that_cannot_be_compared_are_refused(
    arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["head-to-head", *arguments.split(), "-o", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
