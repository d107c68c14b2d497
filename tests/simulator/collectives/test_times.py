"""Simulated times against closed forms, messages against flows, and what limits them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from faultline.platforms.errors import PlatformError
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.collectives.algorithms import ALGORITHMS, collectives_of
from faultline.simulator.timing.collective_probe import link_shares, probe_collective
from faultline.simulator.timing.kept_platform import simulate_on

from tests.simulator.collectives.message_ring import message_rings_s
from tests.simulator.helpers import edited

GB = 1e9
RING = 361 * GB
"""Share of an H100's NVLink that a ring reaches; with reductions in the switch it is 466."""
NIC = 0.96 * 50 * GB


@pytest.fixture(scope="module")
def servers(servers_of: Callable[..., Path]) -> Path:
    """Four HGX H100 servers, two below a leaf switch of each rail."""
    return servers_of(domains=4, domains_per_leaf=2)


@pytest.mark.parametrize(
    ("collective", "algorithm", "gpus", "expected_s"),
    [
        ("all-reduce", "ring", 8, 1.75 * GB / RING + 8.4e-6 + 14 * 3.4e-6),
        ("all-reduce", "ring", 32, 62 / 32 * GB / RING + 8.4e-6 + 56 * 3.4e-6 + 6 * 14e-6),
        ("all-gather", "ring", 32, 31 / 32 * GB / RING + 8.4e-6 + 28 * 3.4e-6 + 3 * 14e-6),
        ("all-reduce", "tree", 32, 2 * GB / (8 * 0.92 * NIC) + 8.4e-6 + 14 * 4e-6 + 4 * 14e-6),
        ("all-reduce", "tree", 8, 1.75 * GB / (0.92 * RING) + 8.4e-6 + 14 * 4e-6),
        ("all-reduce", "nvls", 8, 1.75 * GB / (466 * GB) + 25e-6),
        ("all-reduce", "nvls", 16, 1.75 * GB / (466 * GB) + 25e-6 + 2 * 14e-6),
        ("all-reduce", "nvls", 32, 2 * GB / (8 * 5 / 6 * NIC) + 25e-6 + 4 * 14e-6),
        ("all-to-all", "direct", 16, 8 / 16 * GB / NIC + 8.4e-6 + 3.4e-6 + 14e-6),
        ("send-recv", "direct", 8, GB / RING + 8.4e-6 + 3.4e-6),
    ],
)
def test_each_algorithm_takes_the_time_of_its_closed_form(
    collective: str, algorithm: str, gpus: int, expected_s: float, servers: Path
) -> None:
    """1 GB on H100: bytes over the busiest link at its published share, and NCCL's latencies."""
    result = probe_collective(servers, collective, algorithm, GB, gpus)
    assert result.time_s == pytest.approx(expected_s, rel=1e-6)
    assert result.algorithm == algorithm


@pytest.mark.parametrize(
    "changes",
    [{}, {"oversubscription": [4]}, {"nic.gpus_per_nic": 2}, {"gpus_per_domain": 3, "domains": 5}],
    ids=str,
)
def test_no_link_carries_more_than_its_bandwidth(
    changes: dict[str, object], servers_of: Callable[..., Path]
) -> None:
    """Counted on SimGrid's routes. The busiest link of a pipeline is busy all the time."""
    path = servers_of(**{"domains": 4, "domains_per_leaf": 2, **changes})
    platform = read_platform(path)
    domains = [
        [platform.gpu_names.index(gpu.name) for gpu in each] for each in platform.domains.values()
    ]
    for collective, algorithms in ALGORITHMS.items():
        for algorithm in algorithms:
            shares = link_shares(platform)
            sent = collectives_of(collective, algorithm, domains, shares)[algorithm].sent
            names = [(platform.gpu_names[a], platform.gpu_names[b]) for a, b, _ in sent]
            busy_s = GB * simulate_on(path, busiest_s, names, list(sent.values()))
            result = probe_collective(path, collective, algorithm, GB)
            transfer_s = result.time_s - result.latency_s
            assert transfer_s >= busy_s * (1 - 1e-7), (collective, algorithm)
            if collective not in ("all-to-all", "send-recv"):
                assert transfer_s == pytest.approx(busy_s, rel=0.01), (collective, algorithm)


def busiest_s(_engine: object, pairs: Sequence[tuple[str, str]], sizes: Sequence[float]) -> float:
    """Return how long the busiest link of a platform is busy, in seconds."""
    import simgrid

    busy_s: defaultdict[str, float] = defaultdict(float)
    for (near, far), size in zip(pairs, sizes, strict=True):
        links, _ = simgrid.Host.by_name(near).route_to(simgrid.Host.by_name(far))
        for link in links:
            # NVSwitches limit each flow separately.
            if link.get_sharing_policy() != simgrid.Link.SharingPolicy.FATPIPE:
                busy_s[link.name] += size / link.bandwidth
    return max(busy_s.values())


def test_every_message_of_a_ring_takes_as_long_as_its_flows(
    servers_of: Callable[..., Path],
) -> None:
    """GPUs of one rail; the messages have the bytes that the link's share of 96 % makes of 1 GB."""
    path = servers_of(domains=8, domains_per_leaf=2, gpus_per_domain=1)
    result = probe_collective(path, "all-reduce", "ring", GB)
    messages_s = message_rings_s(path, [read_platform(path).gpu_names], GB / 0.96)
    assert result.time_s - result.latency_s == pytest.approx(messages_s, rel=2e-3)


def test_the_default_is_the_fastest_algorithm(servers: Path) -> None:
    """The switch inside a server; between four, trees for 256 MB and rings for 8 GB."""
    for gpus, size, expected in ((8, GB, "nvls"), (32, 256e6, "tree"), (32, 8 * GB, "ring")):
        default = probe_collective(servers, "all-reduce", None, size, gpus)
        times_s = {
            each: probe_collective(servers, "all-reduce", each, size, gpus).time_s
            for each in ALGORITHMS["all-reduce"]
        }
        assert default.algorithm == min(times_s, key=lambda each: times_s[each]) == expected


def test_a_collective_waits_for_its_slowest_link(tmp_path: Path, servers: Path) -> None:
    """One adapter at 5 GB/s, of the eight of each server: an eighth of the bytes passes it."""
    nic = r'(link id="nic-000008" bandwidth=)"50GBps"'
    slow = edited(servers, tmp_path / "slow.xml", nic, r'\1"5GBps"')
    result = probe_collective(slow, "all-reduce", "ring", GB)
    expected_s = 62 / 32 / 8 * GB / (0.96 * 5 * GB)
    assert result.time_s - result.latency_s == pytest.approx(expected_s, rel=1e-6)
    assert result.limited_by == "nic"


def test_links_of_unknown_gpus_are_used_whole(servers_of: Callable[..., Path]) -> None:
    path = servers_of(domains=1, **{"gpu.name": "X1"})
    result = probe_collective(path, "all-reduce", None, GB)
    assert result.algorithm == "ring"
    assert result.time_s - result.latency_s == pytest.approx(1.75 / 450, rel=1e-6)


def test_a_long_route_takes_longer_than_a_step(servers_of: Callable[..., Path]) -> None:
    """Two trunks of 2.5 ms, for two of the 30 steps of a ring of two servers."""
    path = servers_of(domains=2, domains_per_leaf=1, **{"scale_out.link_latency": "2.5ms"})
    result = probe_collective(path, "all-reduce", "ring", 1.0)
    assert result.time_s == pytest.approx(2 * 5e-3, rel=0.02)
    assert result.limited_by == "latency"


def test_what_limits_a_collective_is_counted(
    servers: Path, servers_of: Callable[..., Path]
) -> None:
    """NVLink inside a server, adapters for a tree, latency for a kilobyte, a thin trunk.

    An oversubscribed leaf switch passes up 1/4 of what its NICs deliver; PCIe of 20 GB/s is slower
    than its NIC of 50 GB/s.
    """
    thin = servers_of(domains=4, domains_per_leaf=2, gpus_per_domain=1, oversubscription=[4])
    old = servers_of(domains=2, gpus_per_domain=1, pcie_bandwidth="20GB/s")
    asked = {
        "nvlink": (servers, "all-reduce", "ring", 1e9, 8),
        "nic": (servers, "all-reduce", "tree", 1e9, 32),
        "latency": (servers, "all-reduce", "ring", 1e3, 32),
        "up_leaf": (thin, "all-to-all", "direct", 1e9, 4),
        "pcie": (old, "all-gather", "ring", 1e9, 2),
    }
    for limit, (path, collective, algorithm, size, ranks) in asked.items():
        assert probe_collective(path, collective, algorithm, size, ranks).limited_by == limit


def test_too_many_ranks_are_refused(servers: Path) -> None:
    with pytest.raises(PlatformError, match="has 32 GPUs: 33 ranks are too many"):
        probe_collective(servers, "all-reduce", "ring", 1e6, 33)
