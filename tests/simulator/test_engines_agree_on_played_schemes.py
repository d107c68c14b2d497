"""SimGrid plays what schemes change in a step, and replay asks how long that takes: one story."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.single_run import run
from faultline.platforms import load_preset, write_xml
from faultline.simulator.timeline import Event, EventKind

WATCHDOG_S = 0.4
SMALL = [
    "model.name=custom",
    "model.layers=8",
    "model.hidden=4096",
    "model.ffn_hidden=14336",
    "model.heads=32",
    "model.sequence_tokens=4096",
    "model.vocabulary=32000",
    "model.pipeline=2",
    "model.tensor=4",
    "model.micro_batches=4",
    "job.groups=4",
    "job.steps=20",
    "job.time_limit_s=300",
    "detection.mode=watchdog",
    f"detection.watchdog_s={WATCHDOG_S}",
    "failures.mtbf_s=1.2",
    "failures.component=gpu",
    "times.restart_s=0.5",
    "recovery.launch_s=0.05",
    "recovery.communicator_s=0.01",
    "rejoin.repair_s=2",
    "times.checkpoint_write_s=0.02",
    "checkpoint.interval_steps=4",
]
WIDE = ["model.tensor=8", "model.pipeline=1"]
OPTIONS = {
    "mecefo": ["strategy.name=mecefo"],
    "oobleck": ["strategy.name=oobleck", "model.least_stages=1"],
    "bamboo": ["strategy.name=bamboo", "strategy.bamboo.overloaded_share=1"],
    "recycle": ["strategy.name=recycle"],
    "spare": ["strategy.name=spare", "strategy.redundancy=2"],
    "replication": ["strategy.name=replication", "strategy.redundancy=2"],
    "replica drop": ["strategy.name=replica-drop"],
    "ntp": ["strategy.name=ntp", *WIDE],
    "ntp in replication": ["strategy.name=replication-ntp", "strategy.redundancy=2", *WIDE],
}
QUICK = ("recycle",)


@pytest.mark.slow
def test_two_die_in_one_step_of_pipelines_that_compute_for_one_another() -> None:
    """Who computes for itself and who is played never share a GPU."""
    asked = load_scenario(
        "llama3-70b-hgx",
        [
            *("strategy.name=recycle", "failures.component=gpu", "failures.mtbf_s=40"),
            *("rejoin.repair_s=100", "job.steps=14"),
        ],
    )
    events: list[Event] = []
    replayed = run(asked, 3, record_event=events.append)
    assert any(len(event.groups) > 1 for event in events if event.kind is EventKind.MISSING)
    assert run(asked, 3, "simgrid")["time_s"] == pytest.approx(replayed["time_s"], rel=1e-9)


@pytest.mark.parametrize(
    "option",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in OPTIONS],
)
def test_twenty_steps(tmp_path: Path, option: str) -> None:
    path = tmp_path / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=4, domains_per_leaf=4), path)
    changes = [*SMALL, *OPTIONS[option], f"platform.file={path}"]
    asked = load_scenario("llama3-70b-hgx", changes)
    events: dict[str, list[Event]] = {"replay": [], "simgrid": []}
    records: dict[str, dict[str, Any]] = {
        engine: run(asked, 3, engine, events[engine].append)  # type: ignore[arg-type]
        for engine in events
    }
    for ours, theirs in zip(events["replay"], events["simgrid"], strict=True):
        assert ours[1:] == theirs[1:]
        assert ours.time_s == pytest.approx(theirs.time_s, rel=1e-5)
    for key, value in records["replay"].items():
        if isinstance(value, float):
            assert records["simgrid"][key] == pytest.approx(value, rel=1e-2, abs=1e-3), key
    found = [event for event in events["replay"] if event.kind is EventKind.MISSING]
    assert found
    assert records["replay"]["degraded_s"] >= 0.0
    # Who dies in the passes is missed at once: less than the watchdog's time after they have ended.
    assert 0.0 < records["replay"]["detection_s"] < WATCHDOG_S * len(found)
