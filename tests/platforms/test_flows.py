"""What flows get in SimGrid is what the links have. Every simulation is a process of its own."""

import subprocess
import sys
from typing import Any

import pytest
from faultline.platforms.preset_library import load_preset
from faultline.platforms.simgrid_check import simulate_flows, single_flow
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.topology import rail_plane
from faultline.platforms.xml_reader import read_platform

from tests.platforms.helpers import THREE_LEVELS, Flow, Write, four_by_four, shift


@pytest.mark.parametrize(
    ("name", "overrides", "bandwidths"),
    [
        ("hgx-h100", {"domains": 4, "domains_per_leaf": 2}, [450e9, 50e9]),
        ("gb200-nvl72", {"domains": 2, "nic.bandwidth": "800Gbps"}, [900e9, 64e9]),
        ("spare-600k", {"groups": 24}, [6.25e9]),
    ],
)
def test_a_single_flow_gets_what_its_links_have(
    name: str, overrides: dict[str, Any], bandwidths: list[float], write: Write
) -> None:
    """By hand: the narrowest link; PCIe at 64 GB/s for an adapter of 100 GB/s.

    NVLink has 2 * 250 ns + 100 ns beside it, the fabric of three switches 2.3 us.
    """
    checks = single_flow(write(load_preset(name, **overrides)))
    assert [check.kind for check in checks] == ["nvlink", "nic"][-len(checks) :]
    assert [check.route.bandwidth_bytes_per_s for check in checks] == bandwidths
    for check in checks:
        assert check.measured_s == pytest.approx(check.expected_s, rel=1e-6)
        assert check.measured_bandwidth_bytes_per_s == pytest.approx(
            check.route.bandwidth_bytes_per_s, rel=1e-6
        )
        assert check.passes()
    if name == "hgx-h100":
        latencies_s = [check.route.latency_s for check in checks]
        assert latencies_s == pytest.approx([0.6e-6, 2.3e-6])


@pytest.mark.parametrize(
    ("ratio", "by", "overrides"),
    [
        # Two sets of leaf switches: a shift by 8 sends everything over the spines.
        *((ratio, 8, {"rail_optimised": rails}) for ratio in (1, 2, 4) for rails in (True, False)),
        # A shift by 5 of 16 changes the rail of every GPU: rails meet in the spine layer only.
        (2, 5, {"domains_per_leaf": 4}),
    ],
)
def test_a_shift_over_the_spines_runs_at_one_kth(
    ratio: int, by: int, overrides: dict[str, Any], write: Write
) -> None:
    spec = four_by_four(oversubscription=[ratio], **overrides)
    measured_s = simulate_flows(write(spec), shift(16, by=by, size_bytes=1e9))
    assert measured_s == pytest.approx([2.3e-6 + ratio * 1e9 / 50e9] * 16, rel=1e-6)


def test_oversubscriptions_of_three_levels_multiply(write: Write) -> None:
    """2:1 above the leaf switches and 3:1 above the pods: 1/2 inside a pod, 1/6 between pods."""
    spec = load_preset("hgx-h100", gpus_per_domain=2, **THREE_LEVELS)
    path = write(spec)
    between_pods_s = simulate_flows(path, shift(16, by=8, size_bytes=1e9))
    assert between_pods_s == pytest.approx([2.9e-6 + 6 * 1e9 / 50e9] * 16, rel=1e-6)
    inside = [flow for flow in shift(16, by=4, size_bytes=1e9) if int(flow[0][-2:]) % 8 < 4]
    inside_s = simulate_flows(path, inside)
    assert inside_s == pytest.approx([2.3e-6 + 2 * 1e9 / 50e9] * 8, rel=1e-6)


class TestStorage:
    def test_clients_share_the_file_system(self, small: ClusterSpec, write: Write) -> None:
        """16 GPUs write 1 GB each at 50 GB/s altogether, and read at 100 GB/s."""
        path = write(small)
        names = read_platform(path).gpu_names
        latency_s = 250e-9 + 500e-9 + 100e-9 + (100e-9 + 200e-9) + 100e-6 + 100e-9
        writing_s = simulate_flows(path, [(name, "storage", 1e9) for name in names])
        assert writing_s == pytest.approx([latency_s + 16 / 50] * 16, rel=1e-6)
        reading_s = simulate_flows(path, [("storage", name, 1e9) for name in names])
        assert reading_s == pytest.approx([latency_s + 16 / 100] * 16, rel=1e-6)

    def test_a_client_alone_has_its_limit(self, small: ClusterSpec, write: Write) -> None:
        (seconds,) = simulate_flows(write(small), [("gpu-000000", "storage", 20e9)])
        assert seconds == pytest.approx(1 + 0.10125e-3, rel=1e-6)

    def test_the_checkpoint_of_the_plane(self, write: Write) -> None:
        """2e13 bytes at 340 GB/s take 58.8 s; the rank writes its 1/M at its part of the rate."""
        spec = load_preset("spare-600k", groups=24)
        size_bytes = 2e13 / spec.gpus_per_rank
        (seconds,) = simulate_flows(write(spec), [("gpu-000000", "storage", size_bytes)])
        assert seconds == pytest.approx(2e13 / 340e9, rel=1e-6)


def test_control_messages_take_no_time_while_bulk_flows_run(
    small: ClusterSpec, write: Write
) -> None:
    path = write(small)
    names = read_platform(path).gpu_names
    control = [("controller", name, 1000) for name in names]
    control += [(name, "controller", 1000) for name in names]
    bulk = shift(16, by=8, size_bytes=1e9)
    seconds = simulate_flows(path, control + bulk)
    assert max(seconds[: len(control)]) < 1e-9
    assert seconds[len(control) :] == pytest.approx([2.3e-6 + 1 / 50] * 16, rel=1e-6)


class TestRailPlane:
    """128 GPUs whose rails all do the same: one rail plane has the time of the cluster."""

    @pytest.fixture(params=[2, 3])
    def cluster(self, request: pytest.FixtureRequest) -> ClusterSpec:
        levels = request.param
        three = {"leaves_per_pod": 2} if levels == 3 else {}
        return load_preset(
            "hgx-h100",
            domains=16,
            domains_per_leaf=4,
            levels=levels,
            oversubscription=[2, 3][: levels - 1],
            **three,
        )

    @pytest.mark.parametrize("across", [1, 8], ids=["ring on every rail", "all over the core"])
    def test_a_shift_on_every_rail(self, across: int, cluster: ClusterSpec, write: Write) -> None:
        whole_s = simulate_flows(write(cluster), shift(128, by=8 * across, size_bytes=1e8))
        plane_s = simulate_flows(write(rail_plane(cluster)), shift(16, by=across, size_bytes=1e8))
        for rail in range(8):
            assert whole_s[rail::8] == pytest.approx(plane_s, rel=1e-9)

    def test_all_hosts_writing_to_storage(self, cluster: ClusterSpec, write: Write) -> None:
        def writes(gpus: int) -> list[Flow]:
            return [(f"gpu-{index:06d}", "storage", 1e8) for index in range(gpus)]

        whole_s = simulate_flows(write(cluster), writes(128))
        plane_s = simulate_flows(write(rail_plane(cluster)), writes(16))
        assert whole_s == pytest.approx(plane_s * 8, rel=1e-6)
        assert plane_s[0] == pytest.approx(128e8 / 50e9, rel=1e-3)


def test_importing_platforms_does_not_import_simgrid() -> None:
    code = "import faultline.platforms, sys; sys.exit('simgrid' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
