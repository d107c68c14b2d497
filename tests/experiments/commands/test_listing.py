"""``faultline list``: what there is, a line each."""

from __future__ import annotations

import pytest
from faultline.experiments.config.scenario_file import shipped_scenarios
from faultline.experiments.studies import all_studies
from faultline.platforms.preset_library import preset_names

from tests.experiments.asking import Ask

COMMAND = ("list",)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("scenarios", shipped_scenarios()),
        ("clusters", list(preset_names())),
        ("studies", list(all_studies())),
    ],
)
def test_a_line_names_and_describes_each(kind: str, names: list[str], ask: Ask) -> None:
    lines = ask(kind).splitlines()
    assert [line.split()[0] for line in lines] == names
    assert all(len(line.split()) > 4 for line in lines)
    assert [row["name"] for row in ask.json(kind)] == names


def test_mixes_have_their_mean_time_between_failures(ask: Ask) -> None:
    rows = {row["name"]: row for row in ask.json("mixes", "--gpus", "131072")}
    assert set(rows) == {"llama3", "llama3-kinds", "rsc-1", "rsc-1-kinds", "rsc-2"}
    assert rows["rsc-1"]["mtbf_s"] / 3600 == pytest.approx(0.23, abs=0.005)
    assert rows["llama3"]["hardware_share"] == pytest.approx(0.78, abs=0.005)
    assert len(rows["llama3"]["causes"]) == 18
    printed = ask("mixes")
    assert "every 3.09 h" in printed
    assert "every 1.8 h" in printed


def test_all_kinds_are_listed_together(ask: Ask) -> None:
    printed = ask()
    assert all(f"{kind}:\n" in printed for kind in ask.json())
    assert set(ask.json()) == {"scenarios", "clusters", "mixes", "studies"}
