"""A job at a sample of its uncertain inputs."""

from __future__ import annotations

import pytest
from faultline.experiments.job.sampled_job import fitting
from faultline.experiments.planner.situation import read_situation


@pytest.mark.parametrize(
    "dotted", ["recovery.detect_s", "failures.mtbf_s", "failures.kinds.retry_s"]
)
def test_a_value_changes_its_key_alone(dotted: str) -> None:
    scenario = read_situation("spare-sound").scenario
    changed = scenario.change(fitting(scenario, {dotted: 7.0}))
    table, *inner = dotted.split(".")
    before, after = scenario.model_dump(), changed.model_dump()
    found = after[table]
    for name in inner:
        found = found[name]
    assert found == 7.0
    del before[table], after[table]
    assert before == after
