"""What SimGrid measures, and the cache that keeps it: of a job, its state, and collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import faultline.simulator.timing.kept_platform as kept_module
import faultline.simulator.timing.probe_cache as cache_module
import faultline.simulator.timing.state_probe as state_module
import pytest
from faultline.platforms.network_model import ENGINE_CONFIGURATION
from faultline.platforms.preset_library import load_preset
from faultline.platforms.spec import ClusterSpec
from faultline.simulator.job.durations import ConstantTime, RingTime
from faultline.simulator.simgrid.state_transfers import StateTransfers
from faultline.simulator.simgrid.traffic import Flow, Traffic
from faultline.simulator.timing.collective_probe import CollectiveResult, probe_collective
from faultline.simulator.timing.state_probe import state_transfer_times
from faultline.simulator.timing.transfer_times import ProbeResult, probe

from tests.simulator.helpers import traffic_on

GPUS = 600_000
REPLICA_BYTES = 2e13
CORE_BYTES_PER_S = 6.25e9
"""A NIC of 12.5 GB/s behind a core that is oversubscribed 2:1."""


Plane = Callable[..., tuple[Path, Traffic]]


@pytest.fixture
def plane(platform_of: Callable[[int], Path]) -> Plane:
    """Return what a replica of 2e13 B sends, a rank a group, and the platform of so many groups."""

    def of(groups: int) -> tuple[Path, Traffic]:
        path, share_bytes = platform_of(groups), REPLICA_BYTES / (GPUS / groups)
        return path, traffic_on(path, groups, share_bytes)

    return of


@pytest.mark.parametrize("groups", [4, 8, 24])
def test_a_ring_all_reduce_takes_the_time_of_its_closed_form(groups: int, plane: Plane) -> None:
    """2 (n - 1)/n of a group's share of 2e13 B over 6.25 GB/s, and latencies well below 1 ms."""
    measured = probe(*plane(groups))
    transfer_s = REPLICA_BYTES / (GPUS / groups) / CORE_BYTES_PER_S
    assert measured.all_reduce_s == pytest.approx(RingTime(0.0, transfer_s)(groups), rel=1e-3)
    hop_s = measured.empty_all_reduce_s / (2 * (groups - 1))
    assert 2e-6 < hop_s < 20e-6
    assert measured.all_reduce_s == pytest.approx(
        RingTime(hop_s, transfer_s)(groups), abs=groups * 1e-6
    )


def test_the_time_of_a_checkpoint_follows_from_the_storage_bandwidth(plane: Plane) -> None:
    """One replica of 2e13 B at 340 GB/s is 58.8 s; loading passes it on along a chain at once."""
    measured = probe(*plane(8))
    assert measured.save_s == pytest.approx(REPLICA_BYTES / 340e9, rel=1e-3)
    assert measured.load_s >= measured.save_s


def test_the_fitted_ring_time_agrees_with_both_measurements() -> None:
    measured = ProbeResult(2.5, 0.5, 1.0, 1.0, groups=6)
    fitted = measured.ring_time()
    assert fitted(6) == pytest.approx(2.5)
    assert RingTime(fitted.hop_s, 0.0)(6) == pytest.approx(0.5)


def test_an_all_reduce_of_one_member_takes_no_time() -> None:
    assert RingTime(1.0, 1.0)(1) == RingTime(1.0, 1.0)(0) == 0.0
    assert ProbeResult(0.0, 0.0, 1.0, 1.0, groups=1).ring_time()(1) == 0.0
    assert ConstantTime(2.0)(1) == 2.0


def test_a_ring_of_the_survivors_takes_the_time_of_a_smaller_ring(plane: Plane) -> None:
    """Fitted on 8 and asked for 5, it foretells what a ring of the first 5 hosts measures."""
    path, traffic = plane(8)
    fitted = probe(path, traffic).ring_time()
    survivors = replace(traffic, hosts=traffic.hosts[:5])
    assert fitted(5) == pytest.approx(probe(path, survivors).all_reduce_s, rel=1e-6)


KNOWN = ProbeResult(2.0, 0.001, 58.8, 60.0, groups=4)
TRANSFERS = StateTransfers(4, 1e9, 2e9, ((0, 1), (2, 3)), 1, 1e9)


def servers(**overrides: object) -> ClusterSpec:
    return load_preset("hgx-h100", domains=4, domains_per_leaf=2, **overrides)


def pretend_scenes(_: Path, __: object, scenes: Sequence[Sequence[Flow]]) -> list[float]:
    return [0.5 + number for number in range(len(scenes))]


class Probe(NamedTuple):
    """Where `simulate_on` is replaced by something that takes no time, and a question for it."""

    module: ModuleType
    pretend: Callable[..., Any]
    ask: Callable[[Path], Any]


PROBES = {
    "job": Probe(
        kept_module,
        lambda *_: KNOWN,
        lambda platform: probe(platform, traffic_on(platform, 4, 1e8)),
    ),
    "state": Probe(
        kept_module,
        pretend_scenes,
        lambda _: state_transfer_times(servers(), TRANSFERS),
    ),
    "collective": Probe(
        kept_module,
        lambda *_: CollectiveResult("ring", 0.5, 0.1, 1.0, 1.0, "nic", 4),
        lambda platform: probe_collective(platform, "all-reduce", "ring", 1e6, 4),
    ),
}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder of the entries of a cache that is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/faultline/probes"


class Cache(NamedTuple):
    """A probe whose measurements take no time and are written down: their arguments."""

    probe: Probe
    platform: Path
    folder: Path
    measured: list[tuple[Any, ...]]

    def ask(self) -> Any:
        return self.probe.ask(self.platform)


@pytest.fixture
def cache(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    platform_of: Callable[[int], Path],
    folder: Path,
    tmp_path: Path,
) -> Cache:
    probe, measured = PROBES[request.param], []

    def pretend(*asked: object) -> object:
        measured.append(asked)
        return probe.pretend(*asked)

    monkeypatch.setattr(probe.module, "simulate_on", pretend)
    state_module._on_spec.cache_clear()
    platform = tmp_path / "platform.xml"
    platform.write_bytes(platform_of(4).read_bytes())
    return Cache(probe, platform, folder, measured)


def of(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cache", names, indirect=True)


@of(*PROBES)
def test_a_probe_is_measured_once(cache: Cache) -> None:
    first = cache.ask()
    assert cache.ask() == first
    assert len(cache.measured) == len(list(cache.folder.iterdir())) == 1


@of("job")
def test_another_simgrid_or_network_model_measures_anew(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.ask()
    monkeypatch.setattr(cache_module, "_simgrid_version", lambda: "4.2")
    cache.ask()
    assert len(cache.measured) == 2
    monkeypatch.setitem(ENGINE_CONFIGURATION, "network/crosstraffic", "1")
    cache.ask()
    assert len(cache.measured) == 3


@of("job")
def test_an_edited_platform_is_measured_anew_and_a_copy_is_not(cache: Cache) -> None:
    cache.ask()
    copy = cache.platform.with_name("copy.xml")
    copy.write_bytes(cache.platform.read_bytes())
    cache.probe.ask(copy)
    assert len(cache.measured) == 1
    copy.write_text(copy.read_text(encoding="utf-8") + "<!-- edited -->", encoding="utf-8")
    cache.probe.ask(copy)
    assert len(cache.measured) == 2


@of("job")
def test_other_traffic_is_measured_anew(cache: Cache) -> None:
    traffic = traffic_on(cache.platform, 4, 1e8)
    changes: list[dict[str, Any]] = [
        {},
        {"bytes_per_rank": 1.0},
        {"readers": "every-group"},
        {"hosts": traffic.hosts[::-1]},
    ]
    for change in changes:
        probe(cache.platform, replace(traffic, **change))
    assert len(cache.measured) == len(changes)


@of("state")
def test_another_platform_or_request_is_measured_anew(cache: Cache) -> None:
    requests = [
        (servers(), TRANSFERS),
        (servers(memory_bandwidth="400GB/s"), TRANSFERS),
        (servers(pcie_bandwidth="128GB/s"), TRANSFERS),
        (servers(), replace(TRANSFERS, groups=2)),
        (servers(), replace(TRANSFERS, copies=0)),
        (servers(), replace(TRANSFERS, peers=((0, 2), (1, 3)))),
        (servers(), replace(TRANSFERS, snapshot_bytes_per_gpu=3e9)),
        (servers(), replace(TRANSFERS, state_bytes_per_gpu=3e9)),
        (servers(), replace(TRANSFERS, gradient_bytes_per_gpu=3e9)),
    ]
    for _ in range(2):
        for spec, transfers in requests:
            state_transfer_times(spec, transfers)
    assert len(cache.measured) == len(requests)


@of("job")
@pytest.mark.parametrize("damage", [b"", b"{", b"null", b"7", b"{}", b'{"time_s": 1}', b"\xff\x00"])
def test_a_damaged_entry_is_measured_again_and_replaced(damage: bytes, cache: Cache) -> None:
    good = cache.ask()
    (entry,) = cache.folder.iterdir()
    stored = entry.read_bytes()
    entry.write_bytes(damage)
    assert cache.ask() == cache.ask() == good
    assert entry.read_bytes() == stored
    assert len(cache.measured) == 2


@of("job")
def test_a_cache_that_cannot_be_written_is_ignored(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("", encoding="utf-8")
    assert cache.ask() == KNOWN
