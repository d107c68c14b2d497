"""Hosts, racks, host memory, disks, shared adapters and rails: against counting by hand."""

from itertools import permutations
from typing import Any

import networkx as nx
import pytest
from faultline.platforms.preset_library import load_preset
from faultline.platforms.simgrid_check import simulate_flows
from faultline.platforms.topology import rail_plane
from faultline.platforms.xml_reader import read_platform

from tests.platforms.helpers import Write, graph_of, route_of, shift

DOORS: dict[str, Any] = {"domains": 4, "domains_per_leaf": 2, "host.doors": True}


@pytest.mark.parametrize(
    ("name", "both_ways_together"),
    [("nvlink2", 300e9), ("nvlink3", 600e9), ("nvlink4", 900e9), ("nvlink5", 1.8e12)],
)
def test_a_generation_is_half_of_what_datasheets_state(
    name: str, both_ways_together: float
) -> None:
    scale_up = load_preset("hgx-h100", nvlink=name).scale_up
    assert scale_up.bandwidth_bytes_per_s == both_ways_together / 2
    assert scale_up.latency_s == 250e-9
    own = {"scale_up.bandwidth": "400GB/s", "scale_up.switch_latency": "1us"}
    stated = load_preset("hgx-h100", nvlink=name, **own).scale_up
    assert (stated.bandwidth_bytes_per_s, stated.switch_latency_s) == (400e9, 1e-6)


def test_hosts_and_racks_are_counted_through_the_cluster(write: Write) -> None:
    """Two domains of 72 GPUs: 18 hosts of 4 each, a rack each."""
    platform = read_platform(write(load_preset("gb200-nvl72", domains=2)))
    assert len(platform.hosts) == 36
    assert {len(gpus) for gpus in platform.hosts.values()} == {4}
    assert [gpu.host for gpu in platform.gpus[:5]] == [0, 0, 0, 0, 1]
    assert platform.gpus[72].host == 18
    assert [platform.gpus[index].rack for index in (0, 71, 72)] == [0, 0, 1]


def test_few_rails_are_dealt_in_turn(write: Write) -> None:
    platform = read_platform(write(load_preset("gb200-nvl72", domains=2)))
    assert [gpu.leaf[-2:] for gpu in platform.gpus[:6]] == ["00", "01", "02", "03", "00", "01"]
    # 2 domains of 18 GPUs a rail.
    assert platform.links["up_leaf-00000-00"].bandwidth_bytes_per_s == 36 * 50e9


@pytest.mark.parametrize(
    "overrides", [{"gpus_per_nic": 2}, {"rails": 4}, {"gpus_per_nic": 2, "rails": 2}]
)
def test_the_plane_of_shared_adapters_and_few_rails(
    overrides: dict[str, Any], write: Write
) -> None:
    cluster = load_preset(
        "hgx-h100", domains=8, domains_per_leaf=2, oversubscription=[2], **overrides
    )
    whole_s = simulate_flows(write(cluster), shift(64, by=32, size_bytes=1e8))
    plane_s = simulate_flows(write(rail_plane(cluster)), shift(8, by=4, size_bytes=1e8))
    assert whole_s == pytest.approx([plane_s[0]] * 64, rel=1e-9)
    sharers = overrides.get("gpus_per_nic", 1)
    assert plane_s[0] == pytest.approx(2.3e-6 + 2 * sharers * 1e8 / 50e9, rel=1e-6)


def test_an_adapter_is_shared_by_neighbours_only(write: Write) -> None:
    path = write(load_preset("hgx-h100", domains=2, gpus_per_nic=2))
    platform = read_platform(path)
    assert platform.link_classes["nic"].count == 8
    assert platform.gpus[1].leaf == platform.gpus[0].leaf != platform.gpus[2].leaf
    target = {gpu: f"gpu-{gpu + 8:06d}" for gpu in range(8)}
    both_s = simulate_flows(path, [(f"gpu-{n:06d}", target[n], 1e9) for n in (0, 1, 2)])
    # GPUs 0 and 1 have half an adapter each, GPU 2 a whole one.
    assert both_s == pytest.approx([2 / 50, 2 / 50, 1 / 50], rel=1e-3)


@pytest.mark.parametrize(
    "overrides", [DOORS, DOORS | {"rail_optimised": False}, DOORS | {"gpus_per_nic": 2}]
)
def test_doors_and_shared_adapters_leave_one_way_of_fewest_links(
    overrides: dict[str, Any], write: Write
) -> None:
    platform = read_platform(write(load_preset("hgx-h100", **overrides)))
    graph = graph_of(platform)
    gpus = platform.gpu_names[::3]
    doors = [f"{role}-{name[4:]}" for name in gpus for role in ("memory", "disk")]
    for source, destination in permutations([*gpus, *doors, "storage"], 2):
        assert len(list(nx.all_shortest_paths(graph, source, destination, weight="weight"))) == 1


class TestDoors:
    def test_the_gpus_of_a_host_share_its_memory(self, write: Write) -> None:
        spec = load_preset("hgx-h100", **DOORS, memory_bandwidth="200GB/s")
        path = write(spec)
        platform = read_platform(path)
        assert platform.memory_of("gpu-000003") == "memory-000003"
        flows = [(f"gpu-{n:06d}", f"memory-{n:06d}", 1e9) for n in range(8)]
        assert simulate_flows(path, flows[:1]) == pytest.approx([1 / 64], rel=1e-4)
        assert simulate_flows(path, flows) == pytest.approx([8 / 200] * 8, rel=1e-4)
        # Reading shares the bus with writing.
        back = [(door, gpu, size) for gpu, door, size in flows[4:]]
        assert simulate_flows(path, flows[:4] + back) == pytest.approx([8 / 200] * 8, rel=1e-4)

    def test_a_peer_is_reached_over_its_own_adapter(self, write: Write) -> None:
        """As a snapshot in the memory of a peer goes: adapter, adapter, PCIe, memory."""
        path = write(load_preset("hgx-h100", **DOORS))
        route = route_of(read_platform(path), "gpu-000002", "memory-000018")
        classes = sorted(link.link_class for link in route.links)
        assert classes == sorted([*2 * ["nic", "up_leaf"], *3 * ["pcie"], "hostmemory"])
        assert {link.name for link in route.links} >= {"nic-000002", "nic-000018"}

    def test_disks_read_and_write_at_their_rates(self, write: Write) -> None:
        path = write(load_preset("hgx-h100", **DOORS))
        assert read_platform(path).roles["disk-000003"] == "disk"
        writes = [(f"gpu-{n:06d}", f"disk-{n:06d}", 1e9) for n in range(8)]
        reads = [(disk, gpu, size) for gpu, disk, size in writes]
        both_s = simulate_flows(path, writes + reads)
        assert both_s == pytest.approx([8 / 32] * 8 + [8 / 52] * 8, rel=2e-3)

    def test_a_link_of_its_own_to_memory(self, write: Write) -> None:
        path = write(load_preset("gb200-nvl72", domains=1, **{"host.doors": True}))
        (alone_s,) = simulate_flows(path, [("gpu-000000", "memory-000000", 1e9)])
        assert alone_s == pytest.approx(1 / 225, rel=1e-3)

    def test_the_plane_has_its_part(self, write: Write) -> None:
        plane = rail_plane(load_preset("hgx-h100", **DOORS))
        assert plane.host.memory_bandwidth_bytes_per_s == 614e9 / 8
        assert plane.disk is not None
        assert plane.disk.write_bandwidth_bytes_per_s == 32e9 / 8
        path = write(plane)
        (seconds,) = simulate_flows(path, [("gpu-000000", "disk-000000", 1e9)])
        assert seconds == pytest.approx(1 / 4, rel=2e-3)
