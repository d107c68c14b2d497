"""What SimGrid measures on the paper's rail plane."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from faultline.platforms import load_preset, read_platform, write_xml
from faultline.simulator.collectives.schedule import Fidelity
from faultline.simulator.durations import ConstantTime, RingTime
from faultline.simulator.simgrid_engine.probes import ProbeResult, probe
from faultline.simulator.simgrid_engine.traffic import Traffic

GPUS = 600_000
REPLICA_BYTES = 2e13
CORE_BYTES_PER_S = 6.25e9
"""A NIC of 12.5 GB/s behind a core that is oversubscribed 2:1."""


def plane(groups: int, directory: Path, fidelity: Fidelity = "flow") -> tuple[Path, Traffic]:
    path = directory / f"plane-{groups}.xml"
    write_xml(load_preset("spare-600k", groups=groups), path)
    platform = read_platform(path)
    traffic = Traffic(
        [[name] for name in platform.gpu_names],
        platform.storage or "",
        REPLICA_BYTES / (GPUS / groups),
        all_reduce=True,
        save=True,
        load=True,
        fidelity=fidelity,
    )
    return path, traffic


@pytest.mark.parametrize("groups", [4, 8, 24])
def test_a_ring_all_reduce_takes_what_its_closed_form_says(groups: int, tmp_path: Path) -> None:
    """2 (n - 1)/n of a group's share of 2e13 B over 6.25 GB/s, and latencies well below 1 ms."""
    measured = probe(*plane(groups, tmp_path))
    transfer_s = REPLICA_BYTES / (GPUS / groups) / CORE_BYTES_PER_S
    assert measured.all_reduce_s == pytest.approx(RingTime(0.0, transfer_s)(groups), rel=1e-3)
    hop_s = measured.empty_all_reduce_s / (2 * (groups - 1))
    assert 2e-6 < hop_s < 20e-6
    assert measured.all_reduce_s == pytest.approx(
        RingTime(hop_s, transfer_s)(groups), abs=groups * 1e-6
    )


def test_every_message_takes_as_long_as_steady_flows(tmp_path: Path) -> None:
    flows = probe(*plane(8, tmp_path, "flow"))
    messages = probe(*plane(8, tmp_path, "chunk"))
    assert messages.all_reduce_s == pytest.approx(flows.all_reduce_s, rel=1e-6)
    assert messages.empty_all_reduce_s == pytest.approx(flows.empty_all_reduce_s, rel=1e-3)


def test_a_checkpoint_takes_what_the_storage_s_bandwidth_says(tmp_path: Path) -> None:
    """One replica of 2e13 B at 340 GB/s is 58.8 s; loading passes it on along a chain at once."""
    measured = probe(*plane(8, tmp_path))
    assert measured.save_s == pytest.approx(REPLICA_BYTES / 340e9, rel=1e-3)
    assert measured.load_s >= measured.save_s


def test_the_fitted_ring_time_agrees_with_both_measurements() -> None:
    measured = ProbeResult(2.5, 0.5, 1.0, 1.0, groups=6)
    fitted = measured.ring_time()
    assert fitted(6) == pytest.approx(2.5)
    assert RingTime(fitted.hop_s, 0.0)(6) == pytest.approx(0.5)


def test_an_all_reduce_among_one_takes_no_time() -> None:
    assert RingTime(1.0, 1.0)(1) == RingTime(1.0, 1.0)(0) == 0.0
    assert ProbeResult(0.0, 0.0, 1.0, 1.0, groups=1).ring_time()(1) == 0.0
    assert ConstantTime(2.0)(1) == 2.0


def test_a_ring_of_the_survivors_takes_the_time_of_a_smaller_ring(tmp_path: Path) -> None:
    """Fitted on 8 and asked for 5, it foretells what a ring of the first 5 hosts measures."""
    path, traffic = plane(8, tmp_path)
    fitted = probe(path, traffic).ring_time()
    survivors = replace(traffic, hosts=traffic.hosts[:5])
    assert fitted(5) == pytest.approx(probe(path, survivors).all_reduce_s, rel=1e-6)
