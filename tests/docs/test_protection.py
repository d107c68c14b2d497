"""The example of the page on protections is real: jobs restart from what it keeps."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.protected import protected_job
from faultline.experiments.job.resolved_job import resolve
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import play
from faultline.simulator.training import Training
from faultline.strategies.base import StrategyOptions
from faultline.strategies.protection.registry import all_protections

from tests.stated_times import NOTHING_MEASURED, SNAPSHOT_SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "protection.md"


def example() -> Any:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(blocks[0], namespace)
    return namespace["WholeCopies"]


def test_every_protection_has_its_row() -> None:
    for name in all_protections():
        assert f"\n| `{name}`" in PAGE.read_text(encoding="utf-8")


def test_the_example_keeps_the_state_beneath_a_scheme() -> None:
    settings = [
        *("strategy.name=checkpoint", "job.groups=24", "job.gpus=384", "job.steps=60"),
        *NOTHING_MEASURED,
        *("job.parameter_bytes=1e11", "times.restart_s=300"),
        *("protection.name=reft", *SNAPSHOT_SETTINGS, "times.snapshot_copy_s=2"),
    ]
    scenario = load_scenario("spare-sound", settings)
    question = resolve(scenario)
    protection = example()(protected_job(scenario), StrategyOptions())
    # All nodes at the first position of their replica are lost: nobody has that part.
    assert protection.recovery(range(0, 48, 2)) is None
    assert protection.recovery(range(2, 48)) == "peers"

    question = replace(question, protected=replace(question.protected, protection=protection))
    job = question.job(seed=0)
    assert job.work.tiers[0].stall_s == 2.0
    training = Training(job.work, job.rules, question.strategy())
    play(training, ReplayEngine(job))
    assert training.progress.completed_steps == 60
    assert training.progress.restarts_from_memory > 0
