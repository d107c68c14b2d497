"""Which parts of a platform may stand for others, and what of a route stays as it is then."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from faultline.platforms.platform_data import Platform
from faultline.platforms.preset_library import load_preset
from faultline.platforms.simgrid_check import routes_in_simgrid
from faultline.platforms.symmetry import Symmetry
from faultline.platforms.xml_names import gpu
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml

from tests.simulator.helpers import edited

EIGHT = {"domains": 8, "domains_per_leaf": 4, "scale_out.oversubscription": [2]}


def written(path: Path, name: str = "hgx-h100", **overrides: Any) -> Platform:
    write_xml(load_preset(name, **overrides), path)
    return read_platform(path)


def numbers(symmetry: Symmetry, gpus: Sequence[int]) -> list[str]:
    named = symmetry.stand_ins(map(gpu, gpus))
    return [named[gpu(number)] for number in gpus]


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        ([13], [5]),  # The same position in the first server.
        ([60, 61, 52], [4, 5, 12]),  # Two servers below one leaf.
        ([8, 40, 16], [0, 32, 8]),  # The other leaf stays another one.
        ([0, 1], [0, 1]),
    ],
)
def test_the_first_of_all_that_are_alike_stands_for_them(
    requested: list[int], expected: list[int], tmp_path: Path
) -> None:
    symmetry = Symmetry(written(tmp_path / "p.xml", **EIGHT))
    assert numbers(symmetry, requested) == list(map(gpu, expected))
    assert symmetry.stand_ins(["storage"]) == {"storage": "storage"}


def test_a_server_with_another_cable_stands_for_itself(tmp_path: Path) -> None:
    """One slow adapter: its server is like none, and its leaf switches like no other leaf's."""
    written(tmp_path / "p.xml", **EIGHT)
    slow = r'(<link id="nic-000043" bandwidth=)"50GBps"'
    path = edited(tmp_path / "p.xml", tmp_path / "slow.xml", slow, r'\1"49GBps"')
    symmetry = Symmetry(read_platform(path))
    assert numbers(symmetry, [40]) == [gpu(40)]
    assert numbers(symmetry, [56]) == [gpu(32)]
    assert numbers(symmetry, [24]) == [gpu(0)]


def test_no_server_stands_for_others_where_flows_choose_their_spine(tmp_path: Path) -> None:
    """The spine depends on the receiver, so that servers differ in the flows that they meet."""
    routed = {**EIGHT, "scale_out.routing": "ecmp", "scale_out.spines": 4}
    symmetry = Symmetry(written(tmp_path / "p.xml", **routed))
    assert numbers(symmetry, [60, 13]) == [gpu(60), gpu(13)]


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("hgx-h100", {**EIGHT, "host.doors": True}),
        ("hgx-h100", {"domains": 6, "domains_per_leaf": 4}),
        ("gb200-nvl72", {"domains": 3, "scale_up.gpus_per_domain": 4}),
        (
            "hgx-h100",
            {
                "domains": 16,
                "domains_per_leaf": 2,
                "scale_out.levels": 3,
                "scale_out.oversubscription": [2, 2],
                "scale_out.leaves_per_pod": 2,
            },
        ),
    ],
)
def test_routes_meet_as_those_do_that_they_stand_for(
    name: str, overrides: dict[str, Any], tmp_path: Path
) -> None:
    """Link by link: one to one, of the same values, in the same order."""
    platform = written(tmp_path / "p.xml", name, **overrides)
    symmetry, chance = Symmetry(platform), random.Random(1)
    hosts = [host for host, role in platform.roles.items() if role != "controller"]
    sets = [[chance.sample(hosts, 2) for _ in range(4)] for _ in range(40)]
    moved = 0
    for flows in sets:
        named = symmetry.stand_ins(host for flow in flows for host in flow)
        assert len(set(named.values())) == len(named)
        moved += any(host != other for host, other in named.items())
        there: dict[str, str] = {}
        pairs = [(one, other) for one, other in flows]
        pairs += [(named[one], named[other]) for one, other in flows]
        routes = routes_in_simgrid(platform, pairs)
        for one_route, other_route in zip(routes[:4], routes[4:], strict=True):
            ours, theirs = one_route.links, other_route.links
            assert len(ours) == len(theirs)
            for one, other in zip(ours, theirs, strict=True):
                assert there.setdefault(one.name, other.name) == other.name
                assert one.bandwidth_bytes_per_s == other.bandwidth_bytes_per_s
                assert (one.latency_s, one.sharing) == (other.latency_s, other.sharing)
        assert len(set(there.values())) == len(there)
    assert moved > 20
