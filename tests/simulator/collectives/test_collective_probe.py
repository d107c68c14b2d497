"""Probes of collectives: what limits them, and how fast they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faultline.platforms import PlatformError
from faultline.simulator.simgrid_engine.collective_probe import probe_collective


@pytest.fixture(scope="module")
def servers(servers_of: Callable[..., Path]) -> Path:
    return servers_of(domains=4, domains_per_leaf=2)


def test_a_ring_on_one_rail_by_hand(servers: Path, tmp_path: Path) -> None:
    """1 GB on four servers: 1.5 GB at 50 GB/s; below two leaf switches a round takes 2.3 us."""
    result = probe_collective(
        servers, "all-reduce", "ring", 1e9, 4, placement="spread", directory=tmp_path
    )
    assert result.time_s == pytest.approx(0.03 + 6 * 2.3e-6, rel=1e-6)
    assert result.alpha_beta_s == pytest.approx(result.time_s, rel=1e-6)
    assert result.algorithm_bandwidth_bytes_per_s == pytest.approx(1e9 / result.time_s)
    assert result.bus_bandwidth_bytes_per_s == pytest.approx(1.5e9 / result.time_s)
    assert result.limited_by == "nic"
    assert result.messages == 4


def test_what_limits_a_collective_is_counted(
    servers: Path, servers_of: Callable[..., Path], tmp_path: Path
) -> None:
    """NVLink inside a server, NICs between them, latency for a kilobyte, a trunk where it is thin.

    An oversubscribed leaf switch passes up 1/4 of what its NICs deliver; PCIe of 20 GB/s is slower
    than its NIC of 50 GB/s.
    """
    thin = servers_of(domains=4, domains_per_leaf=2, oversubscription=[4])
    old = servers_of(domains=2, pcie_bandwidth="20GB/s")
    asked = {
        "nvlink": (servers, "all-reduce", "ring", 1e9, 8, "packed"),
        "nic": (servers, "all-reduce", "ring", 1e9, 32, "packed"),
        "latency": (servers, "all-reduce", "ring", 1e3, 32, "packed"),
        "up_leaf": (thin, "all-reduce", "halving-doubling", 1e9, 4, "spread"),
        "pcie": (old, "point-to-point", "direct", 1e9, 2, "spread"),
    }
    for limit, (path, collective, algorithm, size, ranks, placement) in asked.items():
        result = probe_collective(
            path,
            collective,
            algorithm,
            size,
            ranks,
            "flow",
            placement,
            directory=tmp_path,  # type: ignore[arg-type]
        )
        assert result.limited_by == limit


def test_an_edited_platform_is_measured_anew(servers: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited.xml"
    text = servers.read_text(encoding="utf-8")
    edited.write_text(text.replace('bandwidth="450GBps"', 'bandwidth="225GBps"'), encoding="utf-8")
    fast, slow = (
        probe_collective(path, "all-gather", "ring", 1e9, 8, directory=tmp_path)
        for path in (servers, edited)
    )
    assert slow.time_s == pytest.approx(2 * fast.time_s, rel=0.01)


def test_too_many_ranks_are_refused(servers: Path) -> None:
    with pytest.raises(PlatformError, match="has 32 GPUs: 33 ranks are too many"):
        probe_collective(servers, "all-reduce", "ring", 1e6, 33)
    with pytest.raises(PlatformError, match=r"has 4 scale-up domains.*5 ranks are too many"):
        probe_collective(servers, "all-reduce", "ring", 1e6, 5, placement="spread")
