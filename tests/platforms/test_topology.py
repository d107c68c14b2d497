"""Routes, as the reader finds them, against networkx and against counting by hand."""

from itertools import permutations
from typing import Any

import networkx as nx
import pytest
from faultline.platforms import ClusterSpec, Platform, load_preset, play_flows, read_platform

from tests.platforms.helpers import THREE_LEVELS, Write

TWO_GPU_DOMAINS = THREE_LEVELS | {"gpus_per_domain": 2}


def graph_of(platform: Platform) -> "nx.DiGraph[str]":
    graph: nx.DiGraph[str] = nx.DiGraph()
    for source, hops in platform.edges.items():
        for destination, cable in hops:
            graph.add_edge(source, destination, weight=len(cable))
    return graph


@pytest.mark.parametrize(
    "overrides",
    [
        {"domains": 4, "gpus_per_domain": 4, "domains_per_leaf": 2},
        {"domains": 4, "gpus_per_domain": 4, "domains_per_leaf": 2, "rail_optimised": False},
        TWO_GPU_DOMAINS,
        TWO_GPU_DOMAINS | {"rail_optimised": False},
    ],
)
def test_the_way_intended_is_the_only_one_of_fewest_links(
    overrides: dict[str, Any], write: Write
) -> None:
    platform = read_platform(write(load_preset("hgx-h100", **overrides)))
    graph = graph_of(platform)
    for source, destination in permutations(platform.gpus, 2):
        names = (source.name, destination.name)
        ways = list(nx.all_shortest_paths(graph, *names, weight="weight"))
        assert len(ways) == 1
        route = platform.route(*names)
        assert len(route.links) == nx.path_weight(graph, ways[0], "weight")
        classes = [link.link_class for link in route.links]
        nic = ["pcie", "nic"]
        if source.domain == destination.domain:
            assert classes == ["nvlink", "nvswitch", "nvlink"]
        elif source.leaf == destination.leaf:
            assert classes == [*nic, *nic[::-1]]
        elif source.pod == destination.pod or overrides.get("levels") != 3:
            assert classes == [*nic, "up_leaf", "up_leaf", *nic[::-1]]
        else:
            trunks = ["up_leaf", "up_pod", "up_pod", "up_leaf"]
            assert classes == [*nic, *trunks, *nic[::-1]]


def test_simgrid_takes_the_same_ways(write: Write) -> None:
    """A byte takes the latency of its route; every pair, all at once, on a three-level fabric."""
    path = write(load_preset("hgx-h100", **TWO_GPU_DOMAINS))
    platform = read_platform(path)
    pairs = list(permutations(platform.gpu_names, 2))
    measured_s = play_flows(path, [(*pair, 1) for pair in pairs])
    expected_s = [platform.route(*pair).latency_s for pair in pairs]
    assert measured_s == pytest.approx(expected_s, abs=1e-8)
    assert len({round(seconds, 9) for seconds in expected_s}) == 4


def test_trunks_are_as_wide_as_what_is_below_over_k(write: Write) -> None:
    platform = read_platform(write(load_preset("hgx-h100", **TWO_GPU_DOMAINS)))
    # Rail-optimised: a leaf switch has one GPU of each of its two domains.
    assert platform.links["up_leaf-00000-00"].bandwidth_bytes_per_s == 2 * 50e9 / 2
    # A pod has 2 sets of 2 domains of 2 GPUs.
    assert platform.links["up_pod-00000"].bandwidth_bytes_per_s == pytest.approx(8 * 50e9 / 2 / 3)


def test_a_path_counts_each_switch_once(small: ClusterSpec, write: Write) -> None:
    platform = read_platform(write(small))
    pcie, nic, hop, switch = 250e-9, 500e-9, 100e-9, 200e-9
    same_leaf = platform.route("gpu-000000", "gpu-000004").latency_s
    over_spine = platform.route("gpu-000000", "gpu-000008").latency_s
    assert same_leaf == pytest.approx(2 * (pcie + nic) + switch)
    assert over_spine == pytest.approx(2 * (pcie + nic) + 2 * hop + 3 * switch)


def test_several_adapters_of_a_gpu_add_up(write: Write) -> None:
    spec = load_preset("hgx-h100", domains=2, per_gpu=2)
    platform = read_platform(write(spec))
    assert platform.links["nic-000000"].bandwidth_bytes_per_s == 100e9


def test_gpus_are_named_and_placed_in_order(small: ClusterSpec, write: Write) -> None:
    platform = read_platform(write(small))
    assert platform.gpu_names == tuple(f"gpu-{index:06d}" for index in range(16))
    assert [(gpu.domain, gpu.position) for gpu in platform.gpus] == [
        (domain, position) for domain in range(4) for position in range(4)
    ]
    assert platform.gpus[5].leaf == "leaf-00000-01"
    assert platform.gpus[13].leaf == "leaf-00001-01"
