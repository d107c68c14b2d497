"""Which GPUs a failed part cuts off and which servers it slows: by hand, and against networkx."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import networkx as nx
import pytest
from faultline.platforms.fabric import network_switches
from faultline.platforms.outages import Outage, gpus_cut_off_by_a_leaf_switch, outage_of
from faultline.platforms.platform_data import Platform
from faultline.platforms.preset_library import load_preset
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.xml_reader import read_platform

from tests.platforms.helpers import Write, edit, four_by_four

FABRICS: dict[str, dict[str, Any]] = {
    "rails": {},
    "plain": {"rail_optimised": False},
    "oversubscribed": {"oversubscription": [2]},
    "spines": {"routing": "ecmp", "spines": 4},
    "two hosts a domain": {"host.gpus_per_host": 2},
    "shared adapters": {"gpus_per_nic": 2},
    "pods": {"levels": 3, "leaves_per_pod": 1, "oversubscription": [1, 1]},
}


def fabric(name: str) -> ClusterSpec:
    """Four domains of four GPUs, two domains a set of leaf switches."""
    return four_by_four(**FABRICS[name])


def by_name(platform: Platform, names: Iterable[str]) -> dict[str, Outage]:
    return {name: outage_of(platform, [name]) for name in names}


def gpus(*numbers: int) -> tuple[str, ...]:
    return tuple(f"gpu-{number:06d}" for number in numbers)


def test_a_rail_that_is_lost_slows_and_does_not_kill(write: Write) -> None:
    platform = read_platform(write(fabric("rails")))
    found = by_name(platform, ("leaf-00000-01", "up_leaf-00000-01", "nic-000001", "core"))
    for name in ("leaf-00000-01", "up_leaf-00000-01"):
        assert found[name] == Outage((), {0: 0.75, 1: 0.75})
    assert found["nic-000001"] == Outage((), {0: 0.75})
    assert found["core"] == Outage(gpus(*range(16)), {})


def test_without_nvlink_nothing_takes_over(write: Write) -> None:
    spec = load_preset("hgx-h100", domains=4, gpus_per_domain=1, domains_per_leaf=2)
    found = by_name(read_platform(write(spec)), ("leaf-00001-00", "nic-000000"))
    assert found["leaf-00001-00"].cut_off == gpus(2, 3)
    assert found["nic-000000"].cut_off == gpus(0)


def test_what_a_leaf_switch_cuts_off_as_a_number(write: Write) -> None:
    def cut_off(**overrides: Any) -> int | None:
        spec = load_preset("hgx-h100", **{"domains": 5, "domains_per_leaf": 2, **overrides})
        return gpus_cut_off_by_a_leaf_switch(read_platform(write(spec)))

    assert cut_off() == 0
    assert cut_off(rail_optimised=False) == 16
    assert cut_off(rail_optimised=False, domains=4, domains_per_leaf=4) == 32
    assert cut_off(gpus_per_domain=1) == 2
    # One adapter for all GPUs of a server: there is no neighbour to take over.
    assert cut_off(gpus_per_nic=8) == 16


def test_leaf_switches_that_are_unlike_have_no_number(write: Write) -> None:
    """An edited file: a GPU of the first server has a second adapter, on the other leaf switch."""
    path = write(load_preset("hgx-h100", domains=2, domains_per_leaf=1, rail_optimised=False))
    edit(path, "(<link id=)", r'<link id="nic-second" bandwidth="50GBps" latency="1us"/>\1')
    way = '<route src="gpu-000003" dst="leaf-00001"><link_ctn id="nic-second"/></route>'
    edit(path, "(<route )", rf"{way}\1")
    found = by_name(read_platform(path), ("leaf-00000", "leaf-00001"))
    # One of nine adapters below the other switch: 400/9 GB/s of 400 and 400/9.
    assert found["leaf-00000"].cut_off == ()
    assert found["leaf-00000"].bandwidth_left == pytest.approx({0: 1 / 10})
    assert found["leaf-00001"].cut_off == gpus(*range(8, 16))
    assert gpus_cut_off_by_a_leaf_switch(read_platform(path)) is None


def test_a_lost_spine_takes_its_share_of_every_flow(write: Write) -> None:
    platform = read_platform(write(fabric("spines")))
    found = by_name(platform, ("spine-02", "up_leaf-00001-03_spine-00"))
    assert found["spine-02"] == Outage((), dict.fromkeys(range(4), 0.75))
    # One of four links of one of the four leaf switches of the second set.
    link = found["up_leaf-00001-03_spine-00"]
    assert link.bandwidth_left == pytest.approx({2: 15 / 16, 3: 15 / 16})
    assert link.cut_off == ()


def test_servers_of_a_domain_share_its_adapters(write: Write) -> None:
    platform = read_platform(write(fabric("two hosts a domain")))
    assert outage_of(platform, ["nic-000000"]) == Outage((), {0: 0.75, 1: 0.75})
    assert outage_of(platform, ["storage-read"]) == Outage((), {})


def network_parts(platform: Platform) -> list[str]:
    links = [name for name in platform.links if name.startswith(("up_", "nic"))]
    return [*network_switches(platform), *links]


def remaining(platform: Platform, gone: str | None) -> nx.DiGraph[str]:
    """Every cable of the platform as one edge, without what has failed or is no network."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(platform.gpu_names)
    for source, hops in platform.edges.items():
        for end, cable in hops:
            names = {source, end, *cable}
            if gone in names or any(name.startswith(("management", "storage")) for name in names):
                continue
            width = min(platform.links[link].bandwidth_bytes_per_s for link in cable)
            graph.add_edge(source, end, capacity=width)
    return graph


@pytest.mark.parametrize("name", FABRICS)
def test_what_cannot_reach_the_top_is_cut_off(name: str, write: Write) -> None:
    platform = read_platform(write(fabric(name)))
    for part in network_parts(platform):
        graph = remaining(platform, part)
        cut_off = set()
        for inside in platform.domains.values():
            own = {gpu.name for gpu in inside}
            alone = graph.subgraph(set(graph) - set(platform.gpu_names) | own)
            reached = {one: nx.descendants(alone, one) for one in own}
            tops = ("core", "spine")
            cut_off |= {one for one in own if not any(n.startswith(tops) for n in reached[one])}
        assert set(outage_of(platform, [part]).cut_off) == cut_off, part


@pytest.mark.parametrize("name", [name for name in FABRICS if name != "shared adapters"])
def test_bandwidth_left_against_one_flow_of_all(name: str, write: Write) -> None:
    """All domains send at once to the top: what the shares add up to is the largest flow.

    Where switches are oversubscribed, others may fill what a lost adapter leaves, which the shares
    do not count. Shared adapters would need a node for the link.
    """
    platform = read_platform(write(fabric(name)))

    def largest_flow(part: str | None) -> float:
        graph = remaining(platform, part)
        for gpu in platform.gpu_names:
            graph.add_edge("source", gpu)
        for switch in [node for node in graph if node.startswith(("core", "spine"))]:
            graph.remove_edges_from(list(graph.out_edges(switch)))
            graph.add_edge(switch, "sink")
        graph.add_node("sink")
        return float(nx.maximum_flow_value(graph, "source", "sink"))

    whole = largest_flow(None)
    slowed = 0
    for part in network_parts(platform):
        outage = outage_of(platform, [part])
        host_share = [
            outage.bandwidth_left.get(gpu.host, 1.0)
            for gpu in platform.gpus
            if gpu.name not in outage.cut_off
        ]
        counted = sum(host_share) / len(platform.gpus) * whole
        if part.startswith("nic") and name == "oversubscribed":
            assert counted < largest_flow(part), part
        else:
            assert counted == pytest.approx(largest_flow(part)), part
        slowed += bool(outage.bandwidth_left)
    assert slowed > 0
