"""Machines under repair: the rate at which machines fail, times the mean time of their repair."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.failure_model import failure_model
from faultline.experiments.job.hardware import breakage_of

DAY_S = 86_400.0
MIX = """
source = "chosen"

[[cause]]
name = "board"
per_1000_node_days = 2.0
level = "host"
kind = "hardware"
repair = "4d"

[[cause]]
name = "crash"
per_1000_node_days = 1.0
level = "gpu"
kind = "software"
repair = "6h"

[[cause]]
name = "scheduler"
per_1000_node_days = 5.0
level = "job"
kind = "software"
"""


@pytest.mark.parametrize(
    ("transient", "under_repair", "repair_days"),
    [("replaced", 2 * 4 + 0.25, (2 * 4 + 0.25) / 3), ("in-place", 2 * 4, 4.0)],
)
def test_each_cause_counts_with_its_own_repair(
    transient: str, under_repair: float, repair_days: float, tmp_path: Path
) -> None:
    """1,000 servers: 2 boards fail per day, for 4 days each; a crash of the job breaks none."""
    mix = tmp_path / "mix.toml"
    mix.write_text(MIX, encoding="utf-8")
    keys = ["job.gpus=8000", "job.groups=100", "failures.model=mix", f'failures.mix="{mix}"']
    keys += ["~failures.mtbf_s", f"recovery.transient={transient}", "failures.clock=renewal"]
    scenario = load_scenario("spare-sound", keys)
    broken = breakage_of(scenario, failure_model(scenario))
    assert broken.under_repair == pytest.approx(under_repair)
    assert broken.mean_repair_s == pytest.approx(repair_days * DAY_S)
    failing_per_day = 3.0 if transient == "replaced" else 2.0
    assert broken.mean_life_s == pytest.approx(1000 / failing_per_day * DAY_S)


def test_independent_failures_have_the_repair_of_the_scenario() -> None:
    scenario = load_scenario("spare-sound", ["failures.mtbf_s=600", "rejoin.repair_s=6000"])
    broken = breakage_of(scenario, failure_model(scenario))
    assert broken.under_repair == pytest.approx(10.0)
    assert broken.mean_repair_s == 6000.0
