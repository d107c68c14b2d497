"""SimGrid and replay tell the same story of schemes that work around lost stages."""

from __future__ import annotations

from typing import Any

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.single_run import run
from faultline.simulator.timeline import Event, EventKind

RESTART_S = 20
SMALL = [
    "job.steps=60",
    "failures.mtbf_s=16",
    "rejoin.repair_s=40",
    "recovery.launch_s=3",
    "recovery.communicator_s=0.2",
    f"times.restart_s={RESTART_S}",
    "times.checkpoint_write_s=9",
    "job.time_limit_s=900",
]
OPTIONS = {
    "mecefo": [],
    "mecefo, little memory": ["model.stages_that_fit=1", "rejoin.repair_s=80"],
    "mecefo, approximation charged": ["strategy.approximation_loss=0.5"],
    "bamboo": ["strategy.name=bamboo"],
    "bamboo, overloaded": ["strategy.name=bamboo", "strategy.bamboo.overloaded_share=1"],
    "oobleck": ["strategy.name=oobleck"],
    "recycle": ["strategy.name=recycle", "model.pipeline=2", "rejoin.repair_s=80"],
    "varuna": [
        "strategy.name=varuna",
        "job.steps=20",
        "failures.mtbf_s=15",
        "checkpoint.interval_steps=2",
        "times.checkpoint_write_s=5",
    ],
    "standbys": ["recovery.hardware=standby", "recovery.standbys=2", "recovery.standby_s=6"],
    "nothing left": ["model.pipeline=2", "failures.mtbf_s=8", "rejoin.repair_s=120"],
    "hosts": [
        "failures.component=host",
        "failures.gpus_per_host=2",
        "failures.mtbf_s=20",
        "model.pipeline=4",
    ],
}


@pytest.mark.parametrize("option", OPTIONS)
def test_a_few_dozen_steps(option: str) -> None:
    asked = load_scenario("mecefo-7b", [*SMALL, *OPTIONS[option]])
    events: dict[str, list[Event]] = {"replay": [], "simgrid": []}
    records: dict[str, dict[str, Any]] = {
        engine: run(asked, 1, engine, events[engine].append)  # type: ignore[arg-type]
        for engine in events
    }
    for ours, theirs in zip(events["replay"], events["simgrid"], strict=True):
        assert ours[1:] == theirs[1:]
        assert ours.time_s == pytest.approx(theirs.time_s, rel=1e-6)
    for key, value in records["replay"].items():
        if key != "engine":
            near = pytest.approx(value, rel=1e-6, abs=1e-3) if isinstance(value, float) else value
            assert records["simgrid"][key] == near, key
    kinds = {event.kind for event in events["replay"]}
    assert EventKind.MISSING in kinds
    assert records["replay"]["failures"] > 3
    assert records["replay"]["degraded_s"] > 0
    if option in ("varuna", "nothing left"):
        assert records["replay"]["restarts"] > 1
    if option == "nothing left":
        # Restarts wait for repairs.
        assert records["replay"]["restart_s"] > 1.5 * records["replay"]["restarts"] * RESTART_S
    elif option not in ("varuna", "mecefo, little memory"):
        # Who idles has nothing to do again.
        assert records["replay"]["reorderings"] > 0
