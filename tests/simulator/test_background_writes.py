"""A write in the background meets the exchange of gradients: both slow down, in both engines."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import durations_of
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.single_run import run
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.background import ALONE, Sharing, Write, WriteBesideSteps, WriteClock
from hypothesis import given
from hypothesis import strategies as st

# No latency, and nothing on the way to storage but adapters: flows that meet share equally.
BARE = {
    "domains": 2,
    "nic.latency": "0s",
    "pcie_latency": "0s",
    "link_latency": "0s",
    "scale_out.switch_latency": "0s",
    "storage.latency": "0s",
    "storage.write_bandwidth": "100TB/s",
    "client_bandwidth": "100TB/s",
}
BESIDE = [
    "job.groups=2",
    "job.gpus=16",
    "job.steps=14",
    "times.compute_s=2",
    "job.compute_jitter=0",
    "job.parameter_bytes=4e11",
    "~times.all_reduce_per_group_s",
    "~times.checkpoint_write_s",
    "checkpoint.interval_steps=3",
    "strategy.name=checkpoint",
    "protection.name=async-storage",
    "protection.state_over_parameters=4",
    "failures.mtbf_s=1e12",
]
FAILING = ["failures.mtbf_s=40", "times.restart_s=20", "~restart.readers", "job.steps=60"]


def beside(path: Path, preset: dict[str, object], *more: str) -> Scenario:
    write_xml(load_preset("hgx-h100", **preset), path)
    return load_scenario("spare-sound", [*BESIDE, f"platform.file={path}", *more])


@given(part_s=st.floats(0.1, 100), write_s=st.floats(0.1, 100), share=st.floats(0.05, 0.95))
def test_rates_follow_from_both_begun_at_once(part_s: float, write_s: float, share: float) -> None:
    """Two flows on one link, of which one gets a share as long as both last, then all."""
    ended_s, written_s = part_s / share, write_s / (1 - share)
    if ended_s < written_s:
        written_s = part_s + write_s
    else:
        ended_s = part_s + write_s
    found = Sharing.of(part_s, write_s, ended_s, written_s)
    assert found.slowdown == pytest.approx(1 / share, rel=1e-6)
    assert found.pace == pytest.approx(1 - share, rel=1e-6)
    assert Sharing.of(part_s, write_s, part_s, write_s) == ALONE


def test_a_write_ends_in_the_middle_of_a_step_or_breaks_off() -> None:
    """3 s left at half pace end 6 s into what would have taken 5 s: 3 of 5 are done by then."""
    halves = Sharing(2.0, 0.5)
    write = Write(0)
    clock = WriteClock(write, WriteBesideSteps(3.0, ALONE, halves), 1e9)
    assert clock.prolonged_s(5.0, 100.0, halves) == 6.0 + 2.0
    clock.advance(100.0, 108.0, halves)
    assert (write.whole_s, write.is_over) == (106.0, True)
    broken = Write(0)
    clock = WriteClock(broken, WriteBesideSteps(3.0, ALONE, halves), 104.0)
    assert clock.prolonged_s(5.0, 100.0, halves) == 4.0 + 3.0
    clock.advance(100.0, 107.0, halves)
    assert (broken.whole_s, broken.is_over) == (float("inf"), True)


def test_two_flows_that_share_an_adapter_take_half_each(tmp_path: Path) -> None:
    """Adapters of 50 GB/s send 50 GB of gradients and 200 GB of state a GPU: 1 s and 4 s alone.

    2 s of compute leave 2 s of the write. At half pace each, the all-reduce takes 2 s, and leaves
    1 s of it, which goes with the next compute: each of four writes costs the job 1 s.
    """
    asked = beside(tmp_path / "bare.xml", BARE)
    question = resolve(asked)
    found = question.durations.write_beside
    assert found is not None
    assert question.durations.all_reduce_s(2) == pytest.approx(1.0)
    assert found.alone_s == pytest.approx(4.0)
    assert found.passes == ALONE
    assert (found.sync.slowdown, found.sync.pace) == pytest.approx((2.0, 0.5))
    copies_s = 4 * question.protected.persist_cost.stall_s
    for record in (run(asked, 1), run(asked, 1, "simgrid")):
        # And one at the end, for which the job waits.
        assert record["checkpoint_s"] == pytest.approx(copies_s + 4 * 1.0 + 4.0)
        assert record["all_reduce_s"] == pytest.approx(14 * 1.0)


def test_flows_that_share_no_link_leave_each_other_alone(tmp_path: Path) -> None:
    """Groups of one server reduce over NVLink; the adapters carry the write alone."""
    one = ["job.groups=8", "job.gpus=8", "job.parameter_bytes=4e10"]
    asked = beside(tmp_path / "one.xml", {"domains": 1}, *one)
    assert durations_of(asked).write_beside is None


@pytest.mark.parametrize("seed", [1, 2])
def test_engines_agree_while_writers_fail(tmp_path: Path, seed: int) -> None:
    """Every few steps a group fails, often in the middle of its write."""
    failing = [*FAILING, "job.groups=4", "job.gpus=32"]
    asked = beside(tmp_path / "four.xml", {"domains": 4}, *failing)
    ours, theirs = run(asked, seed), run(asked, seed, "simgrid")
    assert ours["restarts"] > 3
    assert theirs["restarts"] == ours["restarts"]
    for name in ("time_s", "checkpoint_s", "all_reduce_s"):
        assert theirs[name] == pytest.approx(ours[name], rel=0.01), name
