"""Snapshots in the background meet the exchange of gradients; what breaks off is not saved."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import durations_of
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.single_run import run
from faultline.simulator.job.background import ALONE, Sharing, Write, WriteBesideSteps, WriteClock
from hypothesis import given
from hypothesis import strategies as st

from tests.simulator.helpers import SHARED, alike

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


def beside(path: Path, *more: str) -> Scenario:
    return load_scenario("spare-sound", [*BESIDE, f"platform.file={path}", *more])


@pytest.fixture(scope="module")
def bare(servers_of: Callable[..., Path]) -> Path:
    return servers_of(**BARE)


@given(part_s=st.floats(0.1, 100), write_s=st.floats(0.1, 100), share=st.floats(0.05, 0.95))
def test_rates_follow_from_what_both_lose(part_s: float, write_s: float, share: float) -> None:
    """Two flows on one link, of which one gets a share as long as both last, then all."""
    met_s = min(part_s / share, write_s / (1 - share))
    found = Sharing.of(met_s, met_s * (1 - share), met_s * (1 - share))
    assert found.slowdown == pytest.approx(1 / share, rel=1e-6)
    assert found.pace == pytest.approx(1 - share, rel=1e-6)
    assert Sharing.of(part_s, 0.0, part_s) == ALONE


HALVES = Sharing(2.0, 0.5)


def begun(breaks_s: float = inf, alone_s: float = 3.0) -> tuple[WriteClock, Write]:
    clock, write = WriteClock(), Write(WriteBesideSteps(alone_s, ALONE, HALVES), 0)
    clock.begin(write, breaks_s=breaks_s)
    return clock, write


def test_a_write_ends_in_the_middle_of_a_step_or_breaks_off() -> None:
    """3 s left at half pace end 6 s into what would have taken 5 s: 3 of 5 are done by then."""
    clock, write = begun()
    assert clock.prolonged_s(5.0, 100.0, "sync") == 6.0 + 2.0
    clock.advance(100.0, 108.0, "sync")
    assert (write.whole_s, write.is_over) == (106.0, True)
    clock, broken = begun(breaks_s=104.0)
    assert clock.prolonged_s(5.0, 100.0, "sync") == 4.0 + 3.0
    clock.advance(100.0, 107.0, "sync")
    assert (broken.whole_s, broken.is_over) == (inf, True)


@pytest.mark.parametrize(("fails_s", "whole_s"), [(4.0, 3.0), (1.0, inf)])
def test_a_snapshot_is_complete_if_no_group_fails_before_its_end(
    fails_s: float, whole_s: float
) -> None:
    """All groups copy for 3 s; the others' copies go on after a failure."""
    clock, write = WriteClock(), Write(WriteBesideSteps(3.0, ALONE, HALVES), None)
    clock.begin(write, fails_s)
    clock.advance(0.0, 2.0, None)
    assert not write.is_over
    clock.advance(2.0, 5.0, None)
    assert (write.whole_s, write.is_over) == (whole_s, True)


def test_two_writes_and_an_exchange_on_one_link_take_a_third_each() -> None:
    """3 s and 12 s are left: the first ends after 9 s, as 3 s of the exchange; then halves."""
    clock, long = begun(alone_s=12.0)
    short = Write(WriteBesideSteps(3.0, ALONE, HALVES, HALVES), None)
    clock.begin(short)
    assert clock.prolonged_s(5.0, 0.0, "sync") == pytest.approx(9.0 + 2 * 2.0)
    clock.advance(0.0, 13.0, "sync")
    assert (short.whole_s, long.is_over) == (pytest.approx(9.0), False)
    clock.advance(13.0, 99.0, None)
    assert long.whole_s == pytest.approx(13.0 + 12.0 - 3.0 - 2.0)


@given(
    alone_s=st.floats(0.1, 50),
    passes_s=st.floats(0.0, 10),
    sync_s=st.floats(0.1, 10),
    share=st.floats(0.1, 0.9),
)
def test_a_course_is_what_a_clock_goes_through(
    alone_s: float, passes_s: float, sync_s: float, share: float
) -> None:
    times = WriteBesideSteps(alone_s, ALONE, Sharing(1 / share, 1 - share))
    clock, write, now_s, longer_s = WriteClock(), Write(times, None), 0.0, 0.0
    clock.begin(write)
    while not write.is_over:
        for part, part_s in (("passes", passes_s), ("sync", sync_s)):
            lasts_s = clock.prolonged_s(part_s, now_s, part)
            clock.advance(now_s, now_s + lasts_s, part)
            now_s, longer_s = now_s + lasts_s, longer_s + lasts_s - part_s
    assert times.course(passes_s, sync_s) == pytest.approx((longer_s, write.whole_s), abs=1e-6)


def test_two_flows_that_share_an_adapter_take_half_each(bare: Path) -> None:
    """Adapters of 50 GB/s send 50 GB of gradients and 200 GB of state a GPU: 1 s and 4 s alone.

    2 s of compute leave 2 s of the write. At half pace each, the all-reduce takes 2 s, and leaves
    1 s of it, which goes with the next compute: each of four writes costs the job 1 s.
    """
    asked = beside(bare)
    resolved = resolve(asked)
    found = resolved.durations.write_beside
    assert found is not None
    assert resolved.durations.all_reduce_s(2) == pytest.approx(1.0)
    assert found.alone_s == pytest.approx(4.0)
    assert found.passes == ALONE
    assert (found.sync.slowdown, found.sync.pace) == pytest.approx((2.0, 0.5))
    copies_s = 4 * resolved.protected.persist_cost.stall_s
    for record in (run(asked, 1), run(asked, 1, "simgrid")):
        # And one at the end, for which the job waits.
        assert record["checkpoint_s"] == pytest.approx(copies_s + 4 * 1.0 + 4.0)
        assert record["all_reduce_s"] == pytest.approx(14 * 1.0)


OWN = ["protection.name=reft", "protection.reft.sharding_group=2", "protection.reft.code=none"]
PEERS = ["protection.name=gemini", "protection.gemini.placement=across-domains"]
SNAPSHOTS = [
    "protection.interval_steps=4",
    "checkpoint.interval_steps=100",
    "protection.host_memory_bytes=1e15",
]


@pytest.mark.parametrize(
    ("kind", "flows", "copied"),
    [(OWN, 1, 192e9), (PEERS, 3, 64e9)],
    ids=["to the own memory", "and to a peer's"],
)
def test_copies_share_pcie_with_the_exchange(
    bare: Path, kind: list[str], flows: int, copied: float
) -> None:
    """PCIe of 64 GB/s carries 192 GB of copies a GPU: 3 s alone, of which compute leaves 1 s.

    Beside the exchange, 50 GB at 50 GB/s alone, each flow has an equal part, and what is left goes
    with the next compute. A peer's copy passes the sender's PCIe, and upwards the receiver's too.
    """
    state = [f"protection.state_over_parameters={2 * copied / 50e9}"]
    asked = beside(bare, *SNAPSHOTS, *kind, *state)
    resolved = resolve(asked)
    found = resolved.protected.overlapped
    assert found is not None
    assert found.times.alone_s == pytest.approx(3.0)
    slowdown, pace = 50 / (64 / (flows + 1)), flows / (flows + 1)
    assert (found.times.sync.slowdown, found.times.sync.pace) == pytest.approx((slowdown, pace))
    met_s = min(1 / pace, slowdown)
    delay_s, lasts_s = met_s * (1 - 1 / slowdown), 2 + met_s + 1 - met_s * pace
    assert found.course == pytest.approx((delay_s, lasts_s))
    for record in (run(asked, 1), run(asked, 1, "simgrid")):
        assert record["snapshots"] == 3
        assert record["checkpoint_s"] == pytest.approx(3 * delay_s + resolved.durations.save_s)


def test_copies_that_fit_into_compute_cost_nothing_and_are_not_simulated(bare: Path) -> None:
    small = ["protection.state_over_parameters=1"]
    asked = beside(bare, *SNAPSHOTS, *OWN, *small)
    assert resolve(asked).protected.overlapped is None


def test_flows_that_share_no_link_leave_each_other_alone(servers_of: Callable[..., Path]) -> None:
    """Groups of one server reduce over NVLink; the adapters carry the write alone."""
    one = ["job.groups=8", "job.gpus=8", "job.parameter_bytes=4e10"]
    asked = beside(servers_of(domains=1), *one)
    assert durations_of(asked).write_beside is None


BOTH = [*OWN, "protection.interval_steps=2", "protection.host_memory_bytes=1e15"]


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ([], 1),
        (BOTH, 2),
        pytest.param([], 2, marks=pytest.mark.slow),
        pytest.param(BOTH, 1, marks=pytest.mark.slow),
    ],
)
def test_engines_agree_while_writers_fail(
    servers_of: Callable[..., Path], kind: list[str], seed: int
) -> None:
    """Every few steps a group fails, often in the middle of its write; some copy besides."""
    failing = [*FAILING, "job.groups=4", "job.gpus=32", *kind]
    asked = beside(servers_of(domains=4), *failing)
    record = alike(asked, seed, "restarts", "time_s", "checkpoint_s", "all_reduce_s", rel=SHARED)
    assert record["restarts"] > 3


SMALL = [
    *("model.name=custom", "model.hidden=2048", "model.ffn_hidden=5632", "model.heads=16"),
    *("model.key_value_heads=16", "model.pipeline=2", "model.micro_batches=4", "job.groups=4"),
    *(*PEERS, "protection.interval_steps=2", "times.checkpoint_write_s=0.02"),
    *("job.compute_jitter=0", "failures.mtbf_s=1e9"),
]
"""A small model whose snapshots are copied to peers, and nothing fails."""


def test_engines_agree_on_copies_that_outlast_steps(servers_of: Callable[..., Path]) -> None:
    """Copies to peers over slow adapters take several steps, each of which takes longer."""
    path = servers_of(**{"domains": 8, "domains_per_leaf": 4, "nic.bandwidth": "5GB/s"})
    shape = ["model.layers=4", "model.sequence_tokens=1024", "job.steps=12"]
    asked = load_scenario("llama3-70b-stress", [*SMALL, *shape, f"platform.file={path}"])
    protected = resolve(asked).protected
    assert protected.overlapped is not None
    assert protected.overlapped.course[1] > resolve(asked).ideal_step_s
    record = alike(asked, 0, "time_s", "compute_s", "all_reduce_s", "snapshots", rel=SHARED)
    assert record["snapshots"] > 2
    assert record["checkpoint_s"] > 0.1 * record["time_s"]
