"""Messages of a step that a failure ends: all before it, and afterwards all that do not need it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.step_times import placed_step, step_time_of
from faultline.experiments.runs.single_run import run
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.job import Job
from faultline.simulator.simgrid_engine import process
from faultline.strategies.base import Strategy

from tests.simulator.helpers import agreed, bytes_of_links, small_model, traced

On = Callable[..., list[str]]
MICRO_BATCHES, WATCHDOG_S = 4, 0.05


@pytest.fixture
def on_model(servers_of: Callable[..., Path], tmp_path: Path) -> On:
    """Two servers of eight GPUs, a group of one stage on each."""
    servers = servers_of(domains=2, domains_per_leaf=2)

    def on(row: str, *more: str) -> list[str]:
        return small_model(
            servers,
            *("job.gpus=16", "job.groups=2", "job.steps=3", "times.restart_s=1"),
            *("detection.mode=watchdog", f"detection.watchdog_s={WATCHDOG_S}"),
            *(*traced(tmp_path, row), "failures.trace_span_s=1e9", *more),
        )

    return on


def carried(scenario: Scenario, trace: Path, until_s: float) -> Mapping[str, float]:
    """Return the bytes that links carry by some time, of SimGrid's own trace."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "simulate_here", partial(_simulate_traced, trace))
        run(scenario, 0, "simgrid")
    return bytes_of_links(trace, until_s)


_simulate = process.simulate_here


def _simulate_traced(
    trace: Path, job: Job, strategy: Strategy, platform: Path, *rest: Any
) -> process.SimgridResult:
    """Run with SimGrid's tracing on, in this process.

    SimGrid 4.1 traces routers before they are in a zone, and crashes: in a copy of the platform
    they are hosts. It also crashes on the graph of a platform of many zones.
    """
    from faultline.simulator.simgrid_engine import loading

    options = {
        "tracing": "yes",
        "tracing/filename": str(trace),
        "tracing/uncategorized": "yes",
        "tracing/platform/topology": "no",
        "tracing/precision": "9",
    }
    arguments = [*loading.engine_arguments(), *(f"--cfg={key}:{options[key]}" for key in options)]
    loading.engine_arguments = lambda: arguments
    xml = platform.read_text(encoding="utf-8")
    copy = trace.with_suffix(".xml")
    copy.write_text(re.sub(r"<router ", '<host speed="1f" ', xml), encoding="utf-8")
    return _simulate(job, strategy, copy, *rest)


def test_a_ring_of_four_sends_its_bytes(tmp_path: Path) -> None:
    """Five times each adapter sends 2 * 3/4 of its GPU's 1e9/64 bytes."""
    file = tmp_path / "calm.toml"
    file.write_text(
        'version = 2\nname = "calm"\njob = { groups = 4, steps = 5, parameter_bytes = 1e9 }\n'
        'strategy.name = "checkpoint"\nfailures.mtbf_s = 1e12\nplatform.file = "hgx-h100"\n'
        "times = { compute_s = 1.0, restart_s = 60.0 }\n"
    )
    scenario = load_scenario(str(file))
    sent = carried(scenario, tmp_path / "links.trace", inf)["nic-000064_UP"]
    assert sent == pytest.approx(5 * 2 * 3 / 4 * 1e9 / 64, rel=1e-4)


@pytest.mark.parametrize("passed", [0, 2])
def test_a_group_sends_until_it_fails_and_the_others_wait_for_it(
    passed: int, on_model: On, tmp_path: Path
) -> None:
    """One stage: each micro-batch computes forward, sends, computes backward, sends.

    A GPU of the first group dies in a forward pass, a twentieth of a micro-batch after its begin.
    By then its GPUs have sent the messages of the passed micro-batches, and until the watchdog
    fires they send nothing more. Those of the second group send all messages of its passes, and
    then lack the first group: their adapters carry nothing.
    """
    sound = load_scenario("llama3-70b-hgx", on_model("1e6,gpu-0,hardware"))
    step, platform = step_time_of(sound), Path(sound.platform.file)
    assert step is not None
    pattern = placed_step(sound, platform).pattern
    (part,) = pattern.parts
    each_s = step.passes_s / MICRO_BATCHES
    assert part.forward.flop / read_platform(platform).gpus[0].speed_flop_per_s > 0.1 * each_s
    dies_s = (passed + 0.05) * each_s
    settings = on_model(f"{dies_s},gpu-3,hardware")
    scenario = load_scenario("llama3-70b-hgx", settings)
    links = carried(scenario, tmp_path / "links.trace", dies_s + WATCHDOG_S)
    each_bytes = part.forward.tensor_bytes + part.backward.tensor_bytes
    for gpu, micro_batches in ((3, passed), (5, passed), (11, MICRO_BATCHES)):
        sent = links[f"nvlink-{gpu:06d}_UP"]
        assert sent == pytest.approx(micro_batches * each_bytes, rel=1e-6, abs=1.0), gpu
    assert max(rate for link, rate in links.items() if link.startswith("nic")) == 0.0
    record, _ = agreed("llama3-70b-hgx", settings, 0)
    assert record["detection_s"] + record["repeated_s"] >= WATCHDOG_S


def test_rings_stop_when_a_member_fails_in_the_all_reduce(on_model: On, tmp_path: Path) -> None:
    """In the middle of the rings, half of their bytes have been sent; no more follow."""
    sound = load_scenario("llama3-70b-hgx", on_model("1e6,gpu-0,hardware"))
    step = step_time_of(sound)
    assert step is not None
    pattern = placed_step(sound, Path(sound.platform.file)).pattern
    dies_s = step.passes_s + step.data_parallel_s / 2
    settings = on_model(f"{dies_s},gpu-3,hardware", "detection.failure_in_all_reduce=fails-it")
    scenario = load_scenario("llama3-70b-hgx", settings)
    links = carried(scenario, tmp_path / "links.trace", dies_s + WATCHDOG_S)
    for gpu in (0, 3, 11):
        sent = links[f"nic-{gpu:06d}_UP"]
        assert sent == pytest.approx(pattern.gradient_bytes[0] / 2, rel=1e-2), gpu
    agreed("llama3-70b-hgx", settings, 0)
