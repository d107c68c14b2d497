"""Plans of several scenarios side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from faultline.experiments.planner.comparison import Summary, comparison_texts

from tests.experiments.command_line import Cli

COMMAND = ("plan",)
FEW = (
    *("--schemes", "spare,replication", "--protections", "storage", "--steps", "100"),
    *("--mtbf", "20min", "--at-values", "--worlds", "4"),
)
ONE = Summary("one", 256, 1e12, "checkpoint", 10.0, (9.0, 11.0), 61_440.0, 153_600.0)


def scenario(folder: Path, name: str, compute_s: float) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(
        f'version = 2\nname = "{name}"\n'
        "[job]\ngroups = 30\ngpus = 3000\nsteps = 300\n"
        f"[times]\ncompute_s = {compute_s}\nall_reduce_s = 1.0\ncheckpoint_write_s = 20.0\n"
        "restart_s = 900.0\n",
        encoding="utf-8",
    )
    return path


def test_each_scenario_has_its_row_and_its_price(cli: Cli, tmp_path: Path) -> None:
    old, new = scenario(tmp_path, "old", 60.0), scenario(tmp_path, "new", 30.0)
    content = json.loads(cli.planned(old, new, *FEW, "--price", "2,5", "--json"))
    rows = [plan["summary"] for plan in content["plans"]]
    assert [row["scenario"] for row in rows] == ["old", "new"]
    assert rows[0]["days"] > 1.5 * rows[1]["days"]
    for row, price in zip(rows, (2.0, 5.0), strict=True):
        assert row["gpu_hours"] == pytest.approx(row["days"] * 24 * row["gpus"])
        assert row["cost"] == pytest.approx(price * row["gpu_hours"])
    assert content["sentences"][0].startswith("Soonest: new in")
    cheaper = min(rows, key=lambda row: row["cost"])
    assert content["sentences"][1].startswith(f"Cheapest: {cheaper['scenario']} for")


def test_what_is_for_one_scenario_is_refused_for_two(cli: Cli) -> None:
    two = ("spare-study", "spare-sound")
    assert "-o: applies to one scenario" in cli.refused(*two, "-o", "a.html")
    assert "3 prices for 2 scenarios" in cli.refused(*two, "--price", "1,2,3")
    assert "2 prices for one scenario" in cli.refused("spare-study", "--price", "1,2")
    assert "no price" in cli.refused(*two, "--price", "1,x")


def test_days_of_other_trainings_are_not_compared() -> None:
    other = replace(ONE, scenario="other", tokens=2e12, days=5.0)
    (text,) = comparison_texts([ONE, other])
    assert "different numbers of tokens (one 1e+12, other 2e+12)" in text


def test_bands_that_overlap_are_named() -> None:
    later = replace(ONE, scenario="later", days=10.5, band_days=(10.0, 12.0))
    assert "their bands overlap" in comparison_texts([later, ONE])[0]
    much_later = replace(later, band_days=(11.5, 12.0), days=11.8)
    assert "overlap" not in comparison_texts([much_later, ONE])[0]
    assert comparison_texts([ONE]) == []
