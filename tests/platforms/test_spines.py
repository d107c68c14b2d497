"""Spines that are switches of their own, and flows that keep to one of them."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from faultline.platforms.errors import PlatformError
from faultline.platforms.fabric import bisection, fabric_layers, storage_rates
from faultline.platforms.network_model import engine_arguments
from faultline.platforms.platform_data import Route
from faultline.platforms.preset_library import load_preset
from faultline.platforms.simgrid_check import load_in_simgrid, routes_in_simgrid, simulate_flows
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_differences import spec_differences
from faultline.platforms.topology import hashed, rail_plane
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.processes.process import in_own_process

from tests.platforms.helpers import Write, four_by_four, route_of


def hashing(**overrides: Any) -> ClusterSpec:
    """Four domains of four GPUs, eight leaf switches of two adapters, four spines of 25 GB/s."""
    return four_by_four(**{"routing": "ecmp", "spines": 4, **overrides})


def spine_of(platform_path: Path, source: str, destination: str) -> str | None:
    return spine_on(route_of(read_platform(platform_path), source, destination))


def spine_on(route: Route) -> str | None:
    links = route.links
    found = {link.name.rpartition("_")[2] for link in links if link.link_class == "up_leaf"}
    assert len(found) <= 1
    return found.pop() if found else None


def test_the_hash_is_the_documented_one_for_good() -> None:
    """The same number by b2sum: printf '0:gpu-000000>gpu-000008' | b2sum -l 64."""
    assert hashed("gpu-000000", "gpu-000008", 1 << 64) == int("bb1decd1a30f735c", 16)
    assert hashed("a", "b", 7) == hashed("a", "b", 1 << 64) % 7
    ends = (("a", "b"), ("b", "a"), ("b", "c"))
    ways = {hashed(near, far, 1 << 64, seed) for near, far in ends for seed in (0, 1)}
    assert len(ways) == 6


def test_each_leaf_switch_has_its_uplink_split_among_the_spines(write: Write) -> None:
    platform = read_platform(write(hashing()))
    leaf, spine = fabric_layers(platform)
    assert (leaf.switches, leaf.oversubscription) == (8, (1.0, 1.0))
    assert (spine.name, spine.switches) == ("spine", 4)
    assert spine.down_bytes_per_s == leaf.up_bytes_per_s == 16 * 50e9
    assert platform.links["up_leaf-00000-01_spine-02"].bandwidth_bytes_per_s == 100e9 / 4
    width = bisection(platform)
    assert width is not None
    assert width.bandwidth_bytes_per_s == width.full_bytes_per_s == 8 * 50e9
    adaptive = read_platform(write(hashing(routing="adaptive")))
    assert storage_rates(platform) == storage_rates(adaptive)
    assert adaptive.flow_routes == {}
    assert spec_differences(platform) == []


@pytest.mark.parametrize("routing", ["ecmp", "d-mod-k"])
def test_simgrid_takes_the_spine_that_the_file_names(routing: str, write: Write) -> None:
    """Every pair of hosts, doors to memory and disks and the storage among them."""
    spec = hashing(routing=routing, **{"host.doors": True, "failed_spines": [1]})
    path = write(spec)
    platform = read_platform(path)
    assert platform.spec == spec
    pairs = list(permutations(sorted(set(platform.roles) - {"controller"}), 2))
    named = {
        (start, end): sorted(links)
        for start, hops in platform.flow_routes.items()
        for end, links in hops
    }
    assert len(named) > 100
    for pair, route in zip(pairs, routes_in_simgrid(platform, pairs), strict=True):
        # SimGrid lists the links of a hop backwards.
        names = sorted(link.name for link in route.links)
        assert names == named.get(pair, names)
        assert not any(name.endswith("spine-01") for name in names)


def test_flows_on_one_spine_share_its_link_and_others_do_not(write: Write) -> None:
    """Two flows between two leaf switches, by each seed: 25 GB/s each, or half of it."""
    latency_s = 2.3e-6
    met: Counter[bool] = Counter()
    for seed in range(8):
        path = write(hashing(routing_seed=seed))
        flows = [("gpu-000000", "gpu-000008", 1e9), ("gpu-000004", "gpu-000012", 1e9)]
        collide = len({spine_of(path, *flow[:2]) for flow in flows}) == 1
        met[collide] += 1
        expected_s = latency_s + 1e9 / 25e9 * (2 if collide else 1)
        assert simulate_flows(path, flows) == pytest.approx([expected_s] * 2, rel=1e-6)
    assert set(met) == {True, False}


def test_lost_spines_leave_the_choice_among_the_others(write: Write) -> None:
    whole = read_platform(write(hashing()))
    path = write(hashing(failed_spines=[3, 0]))
    left = read_platform(path)
    assert [name for name in left.switches if name.startswith("spine")] == ["spine-01", "spine-02"]
    assert {name for name in whole.links if "spine-01" in name or "spine-02" in name} == {
        name for name in left.links if "spine" in name
    }
    ends = list(permutations(left.gpu_names, 2))
    used = Counter(
        link.name[-8:]
        for route in routes_in_simgrid(left, ends)
        for link in route.links
        if link.link_class == "up_leaf"
    )
    assert min(used.values()) > 0.35 * sum(used.values())
    load_in_simgrid(path)
    assert spec_differences(left) == []
    adaptive = read_platform(write(hashing(routing="adaptive", failed_spines=[2])))
    assert adaptive.links["up_leaf-00000-00"].bandwidth_bytes_per_s == 0.75 * 100e9


def test_destinations_below_one_leaf_switch_are_spread_on_each_rail(write: Write) -> None:
    """16 domains on two sets of leaf switches: the eight adapters of a rail take spines in turn."""
    spec = load_preset(
        "hgx-h100",
        domains=16,
        gpus_per_domain=2,
        domains_per_leaf=8,
        **{"spines": 4, "routing": "d-mod-k"},
    )
    platform = read_platform(write(spec))
    plane = read_platform(write(rail_plane(spec)))
    for rail in range(2):
        numbers = range(8)
        of_all = [(f"gpu-{rail:06d}", f"gpu-{16 + 2 * number + rail:06d}") for number in numbers]
        of_plane = [("gpu-000000", f"gpu-{8 + number:06d}") for number in numbers]
        for each, pairs in ((platform, of_all), (plane, of_plane)):
            used = [spine_on(route) for route in routes_in_simgrid(each, pairs)]
            assert used == [f"spine-{number % 4:02d}" for number in numbers]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"spines": None}, 'scale_out.spines is missing: routing = "ecmp" needs it'),
        ({"routing": "flowlet"}, "scale_out.routing: 'flowlet' is wrong: input should be"),
        (
            {"levels": 3, "leaves_per_pod": 2, "oversubscription": [1, 1]},
            "scale_out.spines has no effect with 3 levels",
        ),
        ({"failed_spines": [4]}, "scale_out.failed_spines: 4 is not a spine: there are 0 to 3"),
        (
            {"failed_spines": [3, 1, 2, 0]},
            "scale_out.failed_spines has all spines: leave at least one out",
        ),
        (
            {"routing": None, "spines": None, "failed_spines": [0]},
            "scale_out.spines is missing: scale_out.failed_spines needs it",
        ),
        (
            {"routing": "d-mod-k", "routing_seed": 1},
            'scale_out.routing_seed has no effect without routing = "ecmp"',
        ),
        (
            {"domains": 65},
            'scale_out.routing: "ecmp" writes a route for each pair of GPUs, for at most 256 '
            "GPU hosts (got 260): simulate one rail plane",
        ),
    ],
)
def test_specs_that_cannot_be(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(PlatformError, match=re.escape(message)):
        hashing(**overrides)


_FAT_TREE = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
 <zone id="around" routing="Full">
  <cluster id="tree" prefix="gpu-" suffix="" radical="0-{last}" speed="1Gf" bw="50GBps" lat="1us"
   topology="FAT_TREE" topo_parameters="2;{below},{leaves};1,{spines};1,1"/>
 </zone>
</platform>
"""


def _permutation_seconds(
    path: str, name: str, permutations_to_simulate: list[list[int]]
) -> list[list[float]]:
    """Run permutations of 1 GB flows, a thousand seconds apart; return how long each took."""
    import simgrid

    engine = simgrid.Engine(["test", "--log=root.thres:error", *engine_arguments()])
    engine.load_platform(path)
    seconds = [[0.0] * len(to) for to in permutations_to_simulate]

    def simulate(host: simgrid.Host, source: int) -> None:
        for number, to in enumerate(permutations_to_simulate):
            simgrid.this_actor.sleep_until(1000.0 * number)
            if to[source] != source:
                end = simgrid.Host.by_name(name.format(to[source]))
                simgrid.Comm.sendto_async(host, end, 1_000_000_000).wait()
                seconds[number][source] = simgrid.Engine.clock - 1000.0 * number

    for source in range(len(permutations_to_simulate[0])):
        host = simgrid.Host.by_name(name.format(source))
        host.add_actor(f"source-{source}", simulate, host, source)
    engine.run()
    return seconds


@pytest.mark.parametrize(
    ("leaves", "below", "spines"), [(4, 4, 4), (3, 6, 3), (4, 4, 2), (2, 4, 3)]
)
def test_against_the_fat_tree_of_simgrid(
    leaves: int, below: int, spines: int, write: Write, tmp_path: Path
) -> None:
    """Permutations and a ring, flow by flow, on SimGrid's zone with its own D-mod-k routing."""
    spec = load_preset(
        "hgx-h100",
        domains=leaves * below,
        gpus_per_domain=1,
        domains_per_leaf=below,
        rail_optimised=False,
        oversubscription=[max(1.0, below / spines)],
        routing="d-mod-k",
        spines=spines,
        **{
            "link_latency": "1us",
            "scale_out.switch_latency": "0s",
            "nic.latency": "1us",
            "pcie_bandwidth": "1000GB/s",
            "pcie_latency": "0s",
        },
    )
    ours = write(spec)
    theirs = tmp_path / "tree.xml"
    count = leaves * below
    content = _FAT_TREE.format(last=count - 1, below=below, leaves=leaves, spines=spines)
    theirs.write_text(content, encoding="utf-8")
    draw = random.Random(20_260)
    shuffled = [draw.sample(range(count), count) for _ in range(4)]
    shifts = [[(k + by) % count for k in range(count)] for by in range(1, count)]
    mine, simgrids = (
        in_own_process(_permutation_seconds, str(path), name, [*shifts, *shuffled])
        for path, name in ((ours, "gpu-{:06d}"), (theirs, "gpu-{}"))
    )
    for my_seconds, their_seconds in zip(mine, simgrids, strict=True):
        assert my_seconds == pytest.approx(their_seconds, rel=1e-6)
    # A tree without collisions would not prove much.
    assert any(max(seconds) > 1.5 * sorted(seconds)[1] for seconds in mine)
