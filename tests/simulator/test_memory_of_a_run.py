"""What a run keeps in memory does not grow with its length."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import play
from faultline.simulator.training import Training

from tests.stated_times import NOTHING_MEASURED, SNAPSHOT_SETTINGS

_STORM = ["job.groups=24", "failures.mtbf_s=100", "times.restart_s=60", "job.gpus=3072"]
_STATED = NOTHING_MEASURED
_BENEATH = [*SNAPSHOT_SETTINGS, "protection.reft.sharding_group=4"]
_MIX = ["failures.model=mix", "failures.mix=llama3", "failures.rate=mtbf"]

RUNS = {
    "study": ["spare-study", *_STORM],
    "masked, and nothing else": ["spare-study", *_STORM, "strategy.redundancy=4"],
    "in memory": ["spare-sound", *_STORM, *_STATED, "protection.name=reft", *_BENEATH],
    "just in time": ["spare-sound", *_STORM, *_STATED, "protection.name=just-in-time", *_BENEATH],
    "shared failures": ["spare-sound", *_STORM, *_STATED, *_MIX],
    "groups that rejoin": ["spare-study", *_STORM, "rejoin.when=at-checkpoint"],
    "with what is left": ["spare-sound", *_STORM, *_STATED, "strategy.name=ntp"],
}


def kept_bytes(scenario: str, settings: list[str], steps: int) -> tuple[int, int]:
    """Play a job; return the memory that is left in use at its end, in bytes, and its failures."""
    asked = load_scenario(scenario, ["rejoin.repair_s=600", *settings, f"job.steps={steps}"])
    job = resolve(asked).job(seed=0)
    gc.collect()
    tracemalloc.start()
    training = Training(job.work, job.rules, resolve(asked).strategy())
    engine = ReplayEngine(job)
    play(training, engine)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept, training.progress.failures


QUICK = ("study", "in memory", "groups that rejoin")


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in RUNS],
)
def test_a_run_ten_times_as_long_keeps_no_more(name: str) -> None:
    scenario, *settings = RUNS[name]
    short, few = kept_bytes(scenario, settings, 100)
    long, many = kept_bytes(scenario, settings, 1000)
    assert many - few > 300
    # A failure that is kept takes 100 bytes and more.
    assert long - short < 24 * (many - few)
