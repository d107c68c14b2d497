"""Probes of collectives: what limits them, the cache, and how fast they are."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import faultline.simulator.simgrid_engine.collective_probe as module
import pytest
from faultline.platforms import PlatformError, load_preset, write_xml
from faultline.simulator.simgrid_engine.collective_probe import CollectiveResult, probe_collective


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("platform") / "hgx.xml"
    write_xml(load_preset("hgx-h100", domains=4, domains_per_leaf=2), path)
    return path


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


def test_what_limits_a_collective_is_counted(servers: Path, tmp_path: Path) -> None:
    """NVLink inside a server, NICs between them, latency for a kilobyte, a trunk where it is thin.

    An oversubscribed leaf switch passes up 1/4 of what its NICs deliver; PCIe of 20 GB/s is slower
    than its NIC of 50 GB/s.
    """
    thin, old = tmp_path / "thin.xml", tmp_path / "old.xml"
    write_xml(load_preset("hgx-h100", domains=4, domains_per_leaf=2, oversubscription=[4]), thin)
    write_xml(load_preset("hgx-h100", domains=2, pcie_bandwidth="20GB/s"), old)
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


def test_a_measurement_is_taken_once(
    servers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = probe_collective(servers, "broadcast", "chain", 1e6, 4, directory=tmp_path)

    def never(*_: object) -> None:
        raise AssertionError("was measured twice")

    monkeypatch.setattr(module, "in_own_process", never)
    assert probe_collective(servers, "broadcast", "chain", 1e6, 4, directory=tmp_path) == first
    for other in (("broadcast", "binomial", 1e6, 4), ("broadcast", "chain", 2e6, 4)):
        with pytest.raises(AssertionError, match="twice"):
            probe_collective(servers, *other, directory=tmp_path)


def test_an_edited_platform_is_measured_anew(servers: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited.xml"
    text = servers.read_text(encoding="utf-8")
    edited.write_text(text.replace('bandwidth="450GBps"', 'bandwidth="225GBps"'), encoding="utf-8")
    fast, slow = (
        probe_collective(path, "all-gather", "ring", 1e9, 8, directory=tmp_path)
        for path in (servers, edited)
    )
    assert slow.time_s == pytest.approx(2 * fast.time_s, rel=0.01)


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", "null", '{"time_s": 1.0}', "NaN", "negative", "a word", "another field"],
)
def test_a_damaged_entry_is_thrown_away(
    damage: str, servers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "in_own_process", lambda *_: (0.5, 7, "nic"))
    good = probe_collective(servers, "all-reduce", "ring", 1e6, 8, directory=tmp_path)
    (entry,) = tmp_path.iterdir()
    stored = json.loads(entry.read_text(encoding="utf-8"))
    changes: dict[str, dict[str, object]] = {
        "NaN": {"time_s": float("nan")},
        "negative": {"time_s": -1.0},
        "a word": {"messages": "many"},
        "another field": {"colour": 1.0},
    }
    text = json.dumps(stored | changes[damage]) if damage in changes else damage
    entry.write_text(text, encoding="utf-8")
    assert probe_collective(servers, "all-reduce", "ring", 1e6, 8, directory=tmp_path) == good
    assert json.loads(entry.read_text(encoding="utf-8")) == stored


def _fill(servers: Path, directory: Path, results: multiprocessing.Queue[CollectiveResult]) -> None:
    results.put(probe_collective(servers, "all-reduce", "ring", 1e6, 8, directory=directory))


def test_two_processes_may_fill_the_cache_at_once(servers: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[CollectiveResult] = context.Queue()
    processes = [context.Process(target=_fill, args=(servers, tmp_path, results)) for _ in range(2)]
    for process in processes:
        process.start()
    first, second = (results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(60)
    assert first == second
    assert len(list(tmp_path.iterdir())) == 1


def test_too_many_ranks_are_refused(servers: Path) -> None:
    with pytest.raises(PlatformError, match="has 32 GPUs: 33 ranks are too many"):
        probe_collective(servers, "all-reduce", "ring", 1e6, 33)
    with pytest.raises(PlatformError, match=r"has 4 scale-up domains.*5 ranks are too many"):
        probe_collective(servers, "all-reduce", "ring", 1e6, 5, placement="spread")
