"""``faultline list``: what there is, a line each."""

from __future__ import annotations

import pytest
from faultline.experiments.config.scenario_file import shipped_scenarios
from faultline.experiments.studies.catalogue import all_studies
from faultline.platforms.preset_library import preset_names

from tests.experiments.command_line import Cli

COMMAND = ("list",)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("scenarios", shipped_scenarios()),
        ("platforms", list(preset_names())),
        ("studies", list(all_studies())),
    ],
)
def test_a_line_names_and_describes_each(kind: str, names: list[str], cli: Cli) -> None:
    lines = cli(kind).splitlines()
    assert [line.split()[0] for line in lines] == names
    assert all(len(line.split()) > 4 for line in lines)
    assert [row["name"] for row in cli.json(kind)] == names


def test_mixes_have_their_mean_time_between_failures(cli: Cli) -> None:
    rows = {row["name"]: row for row in cli.json("mixes", "--gpus", "131072")}
    assert set(rows) == {"llama3", "llama3-kinds", "rsc-1", "rsc-1-kinds", "rsc-2"}
    assert rows["rsc-1"]["mtbf_s"] / 3600 == pytest.approx(0.23, abs=0.005)
    assert rows["llama3"]["hardware_share"] == pytest.approx(0.78, abs=0.005)
    assert len(rows["llama3"]["causes"]) == 18
    printed = cli("mixes")
    assert "every 3.09 h" in printed
    assert "every 1.8 h" in printed
