"""Routes, layers, bisection and differences: against networkx, and by hand from the links."""

from itertools import permutations
from typing import Any

import networkx as nx
import pytest
from faultline.platforms.fabric import bisection, fabric_layers, storage_rates
from faultline.platforms.preset_library import load_preset
from faultline.platforms.simgrid_check import (
    load_in_simgrid,
    routes_in_simgrid,
    simulate_flows,
)
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_differences import spec_differences
from faultline.platforms.xml_reader import read_platform

from tests.platforms.helpers import THREE_LEVELS, Write, edit, graph_of, route_of

TWO_GPU_DOMAINS = THREE_LEVELS | {"gpus_per_domain": 2}


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
    pairs = list(permutations(platform.gpus, 2))
    routes = routes_in_simgrid(platform, [(one.name, other.name) for one, other in pairs])
    for (source, destination), route in zip(pairs, routes, strict=True):
        names = (source.name, destination.name)
        ways = list(nx.all_shortest_paths(graph, *names, weight="weight"))
        assert len(ways) == 1
        assert len(route.links) == nx.path_weight(graph, ways[0], "weight")
        classes = sorted(link.link_class for link in route.links)
        nic = ["pcie", "nic"]
        if source.domain == destination.domain:
            assert classes == ["nvlink", "nvlink", "nvswitch"]
        elif source.leaf == destination.leaf:
            assert classes == sorted(2 * nic)
        elif source.pod == destination.pod or overrides.get("levels") != 3:
            assert classes == sorted(2 * [*nic, "up_leaf"])
        else:
            assert classes == sorted(2 * [*nic, "up_leaf", "up_pod"])


def test_a_byte_takes_the_latency_of_its_route(write: Write) -> None:
    """Every pair, all at once, on a three-level fabric."""
    path = write(load_preset("hgx-h100", **TWO_GPU_DOMAINS))
    platform = read_platform(path)
    pairs = list(permutations(platform.gpu_names, 2))
    measured_s = simulate_flows(path, [(*pair, 1) for pair in pairs])
    expected_s = [route.latency_s for route in routes_in_simgrid(platform, pairs)]
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
    same_leaf = route_of(platform, "gpu-000000", "gpu-000004").latency_s
    over_spine = route_of(platform, "gpu-000000", "gpu-000008").latency_s
    assert same_leaf == pytest.approx(2 * (pcie + nic) + switch)
    assert over_spine == pytest.approx(2 * (pcie + nic) + 2 * hop + 3 * switch)


@pytest.mark.parametrize("rail_optimised", [True, False])
def test_layers_and_bisection_of_three_levels(rail_optimised: bool, write: Write) -> None:
    """64 adapters of 50 GB/s; 3.2 TB/s over 2 over 3, and half of that from half to half."""
    spec = load_preset("hgx-h100", **THREE_LEVELS, rail_optimised=rail_optimised)
    platform = read_platform(write(spec))
    leaf, pod, core = fabric_layers(platform)
    assert (leaf.name, pod.name, core.name) == ("leaf", "pod", "core")
    assert (leaf.switches, pod.switches, core.switches) == (32 if rail_optimised else 4, 2, 1)
    assert leaf.oversubscription == pytest.approx((2, 2))
    assert pod.oversubscription == pytest.approx((3, 3))
    assert core.oversubscription is None
    assert leaf.down_bytes_per_s == 64 * 50e9
    width = bisection(platform)
    assert width is not None
    assert width.bandwidth_bytes_per_s == pytest.approx(32 * 50e9 / 6)
    assert width.full_bytes_per_s == 32 * 50e9


def test_inside_one_set_of_leaf_switches_nothing_is_oversubscribed(write: Write) -> None:
    """Eight GPUs with two adapters of 50 GB/s each on either side; one domain has no two sides."""
    spec = load_preset("hgx-h100", domains=2, domains_per_leaf=2, oversubscription=[4], per_gpu=2)
    width = bisection(read_platform(write(spec)))
    assert width is not None
    assert width.bandwidth_bytes_per_s == 8 * 100e9
    assert bisection(read_platform(write(load_preset("hgx-h100", domains=1)))) is None


def test_an_edited_trunk_shows_everywhere(write: Write) -> None:
    path = write(load_preset("hgx-h100", domains=4, domains_per_leaf=2))
    assert spec_differences(read_platform(path)) == []
    edit(path, r'(<link id="up_leaf-00001-03" bandwidth=)"100GBps"', r'\1"25GBps"')
    platform = read_platform(path)
    layer = fabric_layers(platform)[0]
    assert layer.oversubscription == (1.0, 4.0)
    width = bisection(platform)
    assert width is not None
    assert width.bandwidth_bytes_per_s == 16 * 50e9 - 75e9
    assert spec_differences(platform) == [
        ("up_leaf-00001-03: bandwidth is 25GB/s, the spec says 100GB/s", "network")
    ]


def test_differences_of_all_kinds(write: Write) -> None:
    path = write(load_preset("hgx-h100", domains=2))
    edit(path, r'(id="nvlink-0000\d\d" bandwidth=)"450GBps"', r'\1"300GBps"', count=16)
    edit(path, r'(<host id="gpu-000003" speed=)"989Tf"', r'\1"500Tf"')
    edit(path, r'(<router id="core" />)', r'\1<router id="leaf-extra" />')
    edit(
        path,
        r'(  <link id="nic-000000")',
        r'  <link id="extra-0" bandwidth="1GBps" latency="1us" sharing_policy="SHARED"/>\1',
    )
    edit(
        path,
        r'(<route src="gpu-000000" dst="leaf)',
        r'<route src="leaf-extra" dst="core"><link_ctn id="extra-0"/></route>\1',
    )
    platform = read_platform(path)
    load_in_simgrid(path)
    assert spec_differences(platform) == [
        ("switch leaf-extra is not in the spec", "network"),
        ("link extra-0 is not in the spec", "network"),
        (
            "nvlink-000000: bandwidth is 300GB/s, the spec says 450GB/s (16 of 16 nvlink differ)",
            "scale-up",
        ),
        ("gpu-000003: speed is 500TFLOP/s, the spec says 989TFLOP/s", "compute"),
        ("route core to leaf-extra over extra-0 (and 1 more) is not in the spec", "network"),
    ]


def test_a_file_without_spec_or_storage(write: Write) -> None:
    path = write(load_preset("hgx-h100", domains=2))
    assert spec_differences(read_platform(path)) == []
    edit(path, r'\s*<prop id="faultline:.*', "", count=0)
    platform = read_platform(path)
    assert platform.spec is None
    assert platform.gpus_per_rank == 1
    assert spec_differences(platform) is None
    edit(path, r'(<prop id="role" value=)"storage"', r'\1"other"')
    assert storage_rates(read_platform(path)) is None
