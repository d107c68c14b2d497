"""Simulated times against alpha-beta formulas, chunks against flows, and what limits them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faultline.platforms.errors import PlatformError
from faultline.simulator.collectives.catalogue import ALGORITHMS, Setting, schedule_of
from faultline.simulator.collectives.hierarchical import HierarchicalAllReduce
from faultline.simulator.collectives.ring import RingAllReduce
from faultline.simulator.collectives.schedule import Hop
from faultline.simulator.timing.collective_probe import probe_collective

from tests.simulator.collectives.stage_hand import (
    Fidelity,
    Simulate,
    all_at_once,
    gpu,
    one_after_the_other,
)
from tests.simulator.helpers import edited

NVLINK = Hop(2 * 250e-9 + 100e-9, 450e9)
RAIL = Hop(2 * (0.5e-6 + 0.25e-6) + 0.2e-6, 50e9)
"""PCIe, NIC and half a switch on either side: below one leaf switch."""
SIZES = (64e3, 1e6, 256e6)


@pytest.fixture(scope="module")
def servers(servers_of: Callable[..., Path]) -> Path:
    """17 HGX servers below one leaf switch a rail: every edge of a rail is the same."""
    return servers_of(domains=17)


@pytest.mark.parametrize("collective", list(ALGORITHMS))
def test_each_algorithm_takes_its_alpha_beta_time(collective: str, servers: Path) -> None:
    """On one rail, where nothing meets, within 1 %: at both fidelities, so those agree too."""
    cases = []
    for algorithm in ALGORITHMS[collective]:
        for members in (2, 5, 8, 17):
            for size in SIZES:
                setting = Setting(members, size, [[n] for n in range(members)])
                schedule = schedule_of(collective, algorithm, setting)
                cases.append((schedule, [gpu(8 * n) for n in range(members)]))
    simulates = [Simulate(*case, fidelity) for case in cases for fidelity in ("flow", "chunk")]
    times_s = one_after_the_other(servers, simulates)
    for simulate, time_s in zip(simulates, times_s, strict=True):
        assert time_s == pytest.approx(simulate.schedule.alpha_beta_s(RAIL), rel=0.01), simulate


def test_the_formulas_by_hand() -> None:
    """1 GB among 8 at 1 us and 10 GB/s: a byte takes 0.1 ns, all bytes 0.1 s."""
    hop = Hop(1e-6, 10e9)
    setting = Setting(8, 1e9, [range(4), range(4, 8)])
    expected_s = {
        ("all-reduce", "ring"): 14e-6 + 0.175,
        ("all-reduce", "hierarchical"): 6e-6 + 0.15 + 2e-6 + 0.025,
        ("reduce-scatter", "ring"): 7e-6 + 0.0875,
        ("all-gather", "ring"): 7e-6 + 0.0875,
        ("all-to-all", "pairwise"): 7e-6 + 0.0875,
    }
    for (collective, algorithm), time_s in expected_s.items():
        schedule = schedule_of(collective, algorithm, setting)
        assert schedule.alpha_beta_s(hop) == pytest.approx(time_s, rel=1e-12)


def test_hierarchical_all_reduce_uses_both_levels(servers: Path) -> None:
    """Four servers of eight: 2 * 7 rounds of m/8 over NVLink, 2 * 3 of m/32 on every rail."""
    hosts = [gpu(index) for index in range(32)]
    simulates = [
        Simulate(
            HierarchicalAllReduce(32, size, [range(8 * n, 8 * n + 8) for n in range(4)]),
            hosts,
            fidelity,
        )
        for size in SIZES
        for fidelity in ("flow", "chunk")
    ]
    for simulate, time_s in zip(simulates, one_after_the_other(servers, simulates), strict=True):
        schedule = simulate.schedule
        assert isinstance(schedule, HierarchicalAllReduce)
        by_hand_s = 14 * NVLINK.seconds(schedule.size_bytes / 8) + 6 * RAIL.seconds(
            schedule.size_bytes / 32
        )
        assert time_s == pytest.approx(by_hand_s, rel=0.01)
        assert schedule.alpha_beta_s(RAIL, NVLINK) == pytest.approx(by_hand_s, rel=1e-12)


@pytest.mark.parametrize("collective", ["all-reduce", "all-to-all"])
def test_flows_and_chunks_agree_where_edges_differ(collective: str, servers: Path) -> None:
    """Packed ranks: most edges are NVLink, some are not. From 1 MB a rank on, within 2 %."""
    simulates = []
    for algorithm in ALGORITHMS[collective]:
        for members in (16, 24):
            domains = [range(first, first + 8) for first in range(0, members, 8)]
            for size in (1e6, 32e6):
                schedule = schedule_of(collective, algorithm, Setting(members, size, domains))
                hosts = [gpu(index) for index in range(members)]
                simulates += [Simulate(schedule, hosts, "flow"), Simulate(schedule, hosts, "chunk")]
    times_s = one_after_the_other(servers, simulates)
    for simulate, flow_s, chunk_s in zip(simulates[::2], times_s[::2], times_s[1::2], strict=True):
        assert flow_s == pytest.approx(chunk_s, rel=0.02), simulate


@pytest.mark.parametrize("fidelity", ["flow", "chunk"])
def test_two_collectives_at_once_share_a_trunk_fairly(
    fidelity: Fidelity, servers_of: Callable[..., Path]
) -> None:
    """Two rings of two GPUs below the same two leaf switches, 1 GB and 3 GB.

    Leaf switches 4:1: four GPUs of 50 GB/s get a trunk of 50 GB/s, so while both rings run each
    flow gets 25 GB/s. A ring of two sends m in all. Ring A: 1 GB at 25 GB/s is through after 40 ms.
    Ring B has sent 1 GB by then; 2 GB at the full 50 GB/s take another 40 ms: 80 ms. Messages of
    ring B are cut in two (chunk), which changes nothing. Latencies: a few us.
    """
    path = servers_of(domains=8, gpus_per_domain=2, domains_per_leaf=4, oversubscription=[4])
    simulates = [
        Simulate(RingAllReduce(2, 1e9), [gpu(0), gpu(8)], fidelity),
        Simulate(RingAllReduce(2, 3e9), [gpu(2), gpu(10)], fidelity),
    ]
    small_s, large_s = all_at_once(path, simulates)
    assert small_s == pytest.approx(0.040, rel=1e-3)
    assert large_s == pytest.approx(0.080, rel=1e-3)


def test_a_collective_waits_for_its_slowest_edge_only(tmp_path: Path, servers: Path) -> None:
    """Edit one NIC to a tenth of its bandwidth: the formula holds with that bandwidth."""
    nic = r'(link id="nic-000008" bandwidth=)"50GBps"'
    slow = edited(servers, tmp_path / "slow.xml", nic, r'\1"5GBps"')
    ring = RingAllReduce(4, 1e9)
    hosts = [gpu(8 * n) for n in range(4)]
    (flow_s, chunk_s) = one_after_the_other(
        slow, [Simulate(ring, hosts, "flow"), Simulate(ring, hosts, "chunk")]
    )
    expected_s = ring.alpha_beta_s(Hop(RAIL.latency_s, 5e9))
    assert flow_s == pytest.approx(expected_s, rel=1e-3)
    assert chunk_s == pytest.approx(expected_s, rel=1e-3)


@pytest.fixture(scope="module")
def four_servers(servers_of: Callable[..., Path]) -> Path:
    return servers_of(domains=4, domains_per_leaf=2)


def test_a_ring_on_one_rail_by_hand(servers_of: Callable[..., Path]) -> None:
    """1 GB on four servers: 1.5 GB at 50 GB/s; below two leaf switches a round takes 2.3 us."""
    one_rail = servers_of(domains=4, domains_per_leaf=2, gpus_per_domain=1)
    result = probe_collective(one_rail, "all-reduce", "ring", 1e9)
    assert result.time_s == pytest.approx(0.03 + 6 * 2.3e-6, rel=1e-6)
    assert result.alpha_beta_s == pytest.approx(result.time_s, rel=1e-6)
    assert result.algorithm_bandwidth_bytes_per_s == pytest.approx(1e9 / result.time_s)
    assert result.bus_bandwidth_bytes_per_s == pytest.approx(1.5e9 / result.time_s)
    assert result.limited_by == "nic"
    assert result.messages == 4


def test_what_limits_a_collective_is_counted(
    four_servers: Path, servers_of: Callable[..., Path]
) -> None:
    """NVLink inside a server, NICs between them, latency for a kilobyte, a trunk where it is thin.

    An oversubscribed leaf switch passes up 1/4 of what its NICs deliver; PCIe of 20 GB/s is slower
    than its NIC of 50 GB/s.
    """
    thin = servers_of(domains=4, domains_per_leaf=2, gpus_per_domain=1, oversubscription=[4])
    old = servers_of(domains=2, gpus_per_domain=1, pcie_bandwidth="20GB/s")
    asked = {
        "nvlink": (four_servers, "all-reduce", "ring", 1e9, 8),
        "nic": (four_servers, "all-reduce", "ring", 1e9, 32),
        "latency": (four_servers, "all-reduce", "ring", 1e3, 32),
        "up_leaf": (thin, "all-to-all", "pairwise", 1e9, 4),
        "pcie": (old, "all-gather", "ring", 1e9, 2),
    }
    for limit, (path, collective, algorithm, size, ranks) in asked.items():
        assert probe_collective(path, collective, algorithm, size, ranks).limited_by == limit


def test_too_many_ranks_are_refused(four_servers: Path) -> None:
    with pytest.raises(PlatformError, match="has 32 GPUs: 33 ranks are too many"):
        probe_collective(four_servers, "all-reduce", "ring", 1e6, 33)
