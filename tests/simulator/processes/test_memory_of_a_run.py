"""A longer simulation keeps no more memory, and its later steps take no longer."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.single_run import run
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.loop.run import simulate
from faultline.simulator.loop.training import Training
from faultline.simulator.pattern.placed_step import PlacedStep
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.processes import process
from faultline.simulator.processes.process import SimgridResult, in_own_process
from faultline.simulator.replay.engine import ReplayEngine
from faultline.simulator.workload.layout import Layout

from tests.simulator.timing.test_step_times import pattern_of, placed, time_steps
from tests.stated_times import NOTHING_MEASURED, SNAPSHOT_SETTINGS

pytestmark = pytest.mark.system

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
    """Run a job; return the memory that is left in use at its end, in bytes, and its failures."""
    asked = load_scenario(scenario, ["rejoin.repair_s=600", *settings, f"job.steps={steps}"])
    job = resolve(asked).job(seed=0)
    gc.collect()
    tracemalloc.start()
    training = Training(job, resolve(asked).strategy())
    engine = ReplayEngine(job)
    simulate(training, engine)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept, training.progress.events


QUICK = ("study", "in memory", "groups that rejoin")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in RUNS]
)
def test_a_run_ten_times_as_long_keeps_no_more(name: str) -> None:
    scenario, *settings = RUNS[name]
    short, few = kept_bytes(scenario, settings, 100)
    long, many = kept_bytes(scenario, settings, 1000)
    assert many - few > 300
    # A failure that is kept takes 100 bytes and more.
    assert long - short < 24 * (many - few)


_STEPS = 40
_PAGE_BYTES = 4096


def _simulate(path: Path, step: PlacedStep) -> tuple[list[float], float]:
    """Return when each step ends, and the bytes of memory that a step of the later half keeps."""
    import simgrid
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid.loading import actor_on, load_engine
    from faultline.simulator.simgrid.simulated_steps import SimulatedSteps

    engine = load_engine(path)
    simulated = SimulatedSteps(step, path)
    both = StepShares((0, 1))
    ends_s: list[float] = []
    sizes: list[int] = []

    def body() -> None:
        for _ in range(_STEPS):
            simulated.passes(both, {0: 1, 1: 1})
            simulated.sync(both)
            ends_s.append(simgrid.Engine.clock)
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES)

    actor_on(CONTROLLER_HOST, "steps", body)
    engine.run()
    half = _STEPS // 2
    return ends_s, (sizes[-1] - sizes[half]) / half


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_later_steps_take_no_longer_and_no_more_memory(tmp_path: Path) -> None:
    """SimGrid 4.1 as published never frees 900 bytes per activity; .ci/setup fixes that."""
    layout = Layout(2, 2, 8)
    path, hosts = placed(tmp_path, layout, domains=4)
    pattern = pattern_of(layout, 16)
    step = PlacedStep.in_order(pattern, read_platform(path).gpu_names)
    ends_s, kept_bytes = in_own_process(_simulate, path, step)
    (alone,) = time_steps(path, [(hosts, pattern)], folds=False)
    assert ends_s == pytest.approx([alone.step_s * (number + 1) for number in range(_STEPS)])
    assert kept_bytes / alone.activities < 100


simulate_here = process.simulate_here


def simulate_in_few_addresses(*args: Any) -> SimgridResult:
    result = simulate_here(*args)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (mapped_kb,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmSize"))
    assert int(mapped_kb) < 16e6
    return result


def test_actors_of_an_all_reduce_end_with_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread maps 8 MB of addresses for its stack; SimGrid ended when 32,000 were kept."""
    monkeypatch.setattr(process, "simulate_here", simulate_in_few_addresses)
    settings = ["job.groups=64", "job.gpus=192000", "job.steps=100", "strategy.name=checkpoint"]
    record = run(load_scenario("spare-sound", [*settings, "failures.mtbf_s=1e9"]), 0, "simgrid")
    assert record["completed_steps"] == 100
