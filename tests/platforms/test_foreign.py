"""Platforms from elsewhere: SimGrid reports their hosts, links and routes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faultline.platforms.errors import PlatformError
from faultline.platforms.fabric import bisection
from faultline.platforms.foreign_reader import read_foreign, with_gpus
from faultline.platforms.outages import (
    gpus_cut_off_by_a_leaf_switch,
    links_of_component,
    outage_of,
)
from faultline.platforms.platform_data import Platform
from faultline.platforms.preset_library import load_preset
from faultline.platforms.simgrid_check import check_report, simulate_flows
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_differences import platform_differences
from faultline.platforms.symmetry import Symmetry
from faultline.platforms.xml_reader import read_platform

from tests.platforms.helpers import Write, route_of

Save = Callable[[str], Path]
"""Writes the content of <platform> to a file and returns its path."""

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
PAIR = '<host id="a" speed="1Gf"/><host id="b" speed="2Gf"/>'
LINK = '<link id="l" bandwidth="1GBps" latency="1us"/>'
ROUTE = '<route src="a" dst="b"><link_ctn id="l"/></route>'
WORLD = '<zone id="w" routing="Full">'


def zone(content: str, routing: str = "Full", name: str = "w") -> str:
    return f'<zone id="{name}" routing="{routing}">{content}</zone>'


def cluster(name: str, radical: str = "0-3", more: str = "") -> str:
    return (
        f'<cluster id="{name}" prefix="{name}-" suffix=".org" radical="{radical}" speed="1Gf" '
        f'bw="1GBps" lat="5us" router_id="{name}-router" {more}/>'
    )


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def save_fresh(content: str) -> Path:
        path = tmp_path / "foreign.xml"
        path.write_text(f'{HEAD}<platform version="4.1">\n{content}\n</platform>\n', "utf-8")
        return path

    return save_fresh


NESTED = zone(
    zone(cluster("x"), name="site-x")
    + zone(cluster("y"), name="site-y")
    + '<link id="wide" bandwidth="2GBps" latency="1ms"/>'
    '<zoneRoute src="site-x" dst="site-y" gw_src="x-router" gw_dst="y-router">'
    '<link_ctn id="wide"/></zoneRoute>'
)
BATSIM = zone(
    '<host id="master_host" speed="100Mf"><prop id="role" value="master"/></host>'
    '<host id="node_1" speed="100Mf,50Mf" pstate="0">'
    '<prop id="wattage_per_state" value="95:190,93:170"/></host>'
    '<host id="node_2" speed="100Mf,50Mf"/>' + LINK + '<link id="loop" bandwidth="9GBps"'
    ' latency="0us" sharing_policy="FATPIPE"/>'
    '<route src="node_1" dst="node_1" symmetrical="NO"><link_ctn id="loop"/></route>'
    '<route src="node_1" dst="node_2"><link_ctn id="l"/></route>'
    '<route src="master_host" dst="node_1"><link_ctn id="l"/></route>'
    '<route src="master_host" dst="node_2"><link_ctn id="l"/></route>'
)
WRENCH = zone(
    '<host id="a" speed="1Gf" core="10"><disk id="d" read_bw="100MBps" write_bw="40MBps">'
    '<prop id="size" value="5000GiB"/><prop id="mount" value="/"/></disk></host>'
    '<host id="b" speed="1Gf"/>' + LINK + ROUTE
)
CABINETS = zone(
    '<cabinet id="c1" prefix="n-" suffix="" radical="1-2" speed="1Gf" bw="1GBps" lat="1us"/>'
    '<cabinet id="c2" prefix="n-" suffix="" radical="3-4" speed="1Gf" bw="2GBps" lat="1us"/>'
    '<backbone id="bb" bandwidth="3GBps" latency="2us"/>',
    "Cluster",
)
FORMS = {
    "two hosts": (zone(PAIR + LINK + ROUTE), 2),
    "AS": (zone(PAIR + LINK + ROUTE).replace("zone", "AS"), 2),
    "cluster": (cluster("c", "0-2,5", 'bb_bw="4GBps" bb_lat="1us"'), 4),
    "shared": (cluster("c", more='sharing_policy="SHARED"'), 4),
    "fat tree": (
        zone(cluster("c", "0-15", 'topology="FAT_TREE" topo_parameters="2;4,4;1,2;1,2"')),
        16,
    ),
    "torus": (zone(cluster("c", "0-11", 'topology="TORUS" topo_parameters="3,2,2"')), 12),
    "nested": (NESTED, 8),
    "Batsim": (BATSIM, 2),
    "WRENCH": (WRENCH, 2),
    "cabinets": (CABINETS, 4),
    "Dijkstra": (zone(PAIR + '<router id="r"/>' + LINK + "".join(
        f'<route src="{name}" dst="r"><link_ctn id="l"/></route>' for name in "ab"
    ), "Dijkstra"), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_flow_takes_the_time_of_its_route(name: str, save: Save) -> None:
    content, gpus = FORMS[name]
    path = save(content)
    platform = read_platform(path, "n*_?" if name == "Batsim" else "*")
    assert len(platform.gpus) == gpus
    for end in {1, gpus - 1}:
        pair = platform.gpu_names[0], platform.gpu_names[end]
        (measured_s,) = simulate_flows(path, [(*pair, 1e9)])
        # In "Dijkstra", the flow takes a link twice: it has half of its bandwidth.
        route = route_of(platform, *pair)
        twice = len(route.links) // len(set(route.links))
        assert measured_s == pytest.approx(route.seconds(twice * 1e9))


def test_routes_cross_zones_and_name_both_directions(save: Save) -> None:
    platform = read_platform(save(NESTED), "*")
    names = [link.name for link in route_of(platform, "x-0.org", "y-3.org").links]
    assert names == ["x_link_0_UP", "wide", "y_link_3_DOWN"]
    assert platform.links["x_link_0_UP"].sharing == "SPLITDUPLEX"
    assert platform.links["wide"].sharing == "SHARED"
    assert platform.spec is None


def test_gpus_are_in_the_order_of_their_numbers(save: Save) -> None:
    platform = read_platform(save(cluster("gpu", "8-11")))
    assert [name.partition(".")[0] for name in platform.gpu_names] == [
        *("gpu-8", "gpu-9", "gpu-10", "gpu-11")
    ]
    assert [gpu.domain for gpu in platform.gpus] == [0, 1, 2, 3]
    assert {gpu.speed_flop_per_s for gpu in platform.gpus} == {1e9}


def test_gpus_by_property_keep_their_domains_and_storage_is_found(save: Save) -> None:
    role = '<prop id="role" value="{}"/>'
    gpu = role.format("gpu") + '<prop id="domain" value="{}"/>'
    hosts = "".join(
        f'<host id="{name}" speed="1Gf">{inside}</host>'
        for name, inside in (("p", gpu.format(7)), ("q", gpu.format(7)), ("r", role.format("gpu")),
                             ("files", role.format("storage")))
    )  # fmt: skip
    routes = "".join(
        f'<route src="{one}" dst="{other}"><link_ctn id="l"/></route>'
        for one, other in ("pq", "pr", "qr", ("files", "p"), ("files", "q"), ("files", "r"))
    )
    platform = read_platform(save(zone(hosts + LINK + routes)))
    assert [(gpu.name, gpu.domain) for gpu in platform.gpus] == [("p", 7), ("q", 7), ("r", 10)]
    assert platform.storage == "files"
    assert route_of(platform, "p", "files").bandwidth_bytes_per_s == 1e9


def two_behind_a_link(sharing: str) -> str:
    """Two servers of two GPUs: 200 GB/s inside, and a link of 1 GB/s between them."""
    hosts = "".join(
        f'<host id="gpu-{number}" speed="1Tf"><prop id="domain" value="{number // 2}"/></host>'
        f'<link id="in-{number}" bandwidth="200GBps" latency="1us"/>'
        for number in range(4)
    )
    hosts = "".join(sorted(hosts.replace("><link", ">\n<link").splitlines()))
    direction = {"SPLITDUPLEX": ' direction="UP"'}.get(sharing, "")
    routes = "".join(
        f'<route src="gpu-{number}" dst="s-{number // 2}"><link_ctn id="in-{number}"/></route>'
        for number in range(4)
    )
    routers = '<router id="s-0"/><router id="s-1"/>'
    link = f'<link id="between" bandwidth="1GBps" latency="1us" sharing_policy="{sharing}"/>'
    cable = f'<route src="s-0" dst="s-1"><link_ctn id="between"{direction}/></route>'
    return zone(hosts.replace("<link", routers + "<link", 1) + link + routes + cable, "Dijkstra")


@pytest.mark.parametrize(("sharing", "each_way"), [("SHARED", 0.5e9), ("FATPIPE", 2e9)])
def test_the_bisection_counts_both_directions_of_a_shared_link_once(
    sharing: str, each_way: float, save: Save
) -> None:
    path = save(two_behind_a_link(sharing))
    width = bisection(read_platform(path))
    assert width is not None
    assert width.bandwidth_bytes_per_s == each_way
    flows = [("gpu-0", "gpu-2", 1e9), ("gpu-1", "gpu-3", 1e9)]
    both_ways = [*flows, *((end, start, size) for start, end, size in flows)]
    assert max(simulate_flows(path, both_ways)) == pytest.approx(2e9 / each_way, rel=1e-4)


def test_the_bisection_of_a_cluster_is_its_backbone_or_its_adapters(save: Save) -> None:
    for more, expected in (("", 2e9), ('bb_bw="1GBps" bb_lat="1us"', 0.5e9)):
        width = bisection(read_platform(save(cluster("c", more=more)), "*"))
        assert width is not None
        assert (width.bandwidth_bytes_per_s, width.full_bytes_per_s) == (expected, 2e9)


def test_of_many_gpus_some_routes_are_known(save: Save) -> None:
    """Those with the first GPU suffice to probe, those with the opposite one for the bisection."""
    platform = read_platform(save(cluster("c", "9-408")), "*")
    names = platform.gpu_names
    assert (names[0], names[399]) == ("c-9.org", "c-408.org")
    assert {end for end, _ in platform.flow_routes[names[5]]} == {
        *(names[place] for place in (0, 4, 6, 205)),
    }
    width = bisection(platform)
    assert width is not None
    assert width.bandwidth_bytes_per_s == 200e9


def test_a_platform_without_gpus_is_checked(save: Save) -> None:
    path = save(NESTED)
    report = check_report(path)
    assert (report["gpus"], report["simgrid_hosts"], report["bisection"]) == (0, 8, None)
    assert report["links"]["SPLITDUPLEX"]["count"] == 16
    with pytest.raises(PlatformError, match=r"has no GPU hosts: name them by --gpu-hosts"):
        read_platform(path)
    with pytest.raises(PlatformError, match=r"no host is named like 'z\*'; the first host is 'x-0"):
        check_report(path, "z*")


def test_switches_of_foreign_platforms_are_unknown(save: Save) -> None:
    platform = read_platform(save(NESTED), "*")
    assert gpus_cut_off_by_a_leaf_switch(platform) is None
    assert Symmetry(platform).stand_ins(platform.gpu_names)["y-0.org"] == "y-0.org"
    for unknown in (
        lambda: links_of_component(platform, "switch", 0),
        lambda: outage_of(platform, ["wide"]),
    ):
        with pytest.raises(PlatformError, match="switches and cables are unknown"):
            unknown()


def test_edited_links_of_foreign_platforms_differ(save: Save) -> None:
    before: Platform = read_platform(save(NESTED), "*")
    after = read_platform(save(NESTED.replace("1GBps", "2GBps")), "*")
    (difference,) = platform_differences(after, before, "before")
    assert difference.effect == "network"
    assert difference.text.endswith("before says 1GB/s (16 of 17 link differ)")


@pytest.mark.parametrize(
    "content",
    [
        f'<zone id="a>b" routing="Full">{PAIR}{LINK}{ROUTE}</zone>',
        f'<!-- <cluster/> é --><config><prop id="path" value="x"/></config>{cluster("c")}',
        NESTED,
    ],
)
def test_a_file_can_name_its_gpus(content: str, save: Save) -> None:
    path = save(content)
    named = read_platform(path, "[!m]*").gpu_names
    text = with_gpus(path.read_bytes(), str(path), "[!m]*")
    path.write_bytes(text)
    assert read_platform(path).gpu_names == named


def test_a_file_can_name_the_kind_of_its_gpus(save: Save) -> None:
    path = save(BATSIM)
    assert read_platform(path, "node_?").gpu is None
    path.write_bytes(with_gpus(path.read_bytes(), str(path), "node_?", "h100-sxm5"))
    platform = read_platform(path)
    assert platform.gpu == load_preset("hgx-h100").gpu
    assert {gpu.speed_flop_per_s for gpu in platform.gpus} == {989e12}
    assert b'speed="989Tf,989Tf" pstate="0"' in path.read_bytes()


def test_an_unknown_kind_is_refused(save: Save) -> None:
    path = save(cluster("gpu"))
    with pytest.raises(PlatformError, match=r"no GPU is called 'h100'.*there are a100-sxm4"):
        with_gpus(path.read_bytes(), str(path), gpu_kind="h100")


def test_a_pattern_is_quoted(save: Save) -> None:
    path = save(zone(PAIR + LINK + ROUTE))
    path.write_bytes(with_gpus(path.read_bytes(), "p.xml", '"<&'))
    with pytest.raises(PlatformError, match=r"no host is named like '\"<&'"):
        read_platform(path)


REFUSED = [
    (f'<include file="/etc/passwd"/>{WORLD}{PAIR}</zone>', "3: <include> is not allowed: it reads"),
    (f'{WORLD}{PAIR}</zone><trace id="t">0 1</trace>', "<trace> is not allowed: it changes"),
    (f'{WORLD}{PAIR}</zone><actor host="a" function="f"/>', "<actor> is not allowed: it starts"),
    (f'{WORLD}{PAIR}</zone><process host="a" function="f"/>', "<process> is not allowed"),
    (f'{WORLD}<host id="a" speed="1Gf" state_file="x"/></zone>', "'state_file' of <host> reads"),
    (f'{WORLD}<peer id="p" speed_file="x"/></zone>', "'speed_file' of <peer> reads another file"),
    (
        f'<config><prop id="tracing/filename" value="x"/></config>{WORLD}{PAIR}</zone>',
        "option 'tracing/filename': is not allowed, since options can make SimGrid write files",
    ),
    (
        f'<config><prop id="precision/timing" value="1"/></config>{WORLD}{PAIR}</zone>',
        "is '1': write a number above 0",
    ),
    ("<config/>", "has no <zone>"),
    (f"{WORLD}<unknown/></zone>", "<unknown> is not allowed in <zone>"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_nothing_that_reads_writes_or_runs_is_loaded(content: str, message: str) -> None:
    """The file does not exist, so the scan alone refuses it."""
    text = f'{HEAD}<platform version="4.1">{content}</platform>'
    with pytest.raises(PlatformError) as caught:
        read_foreign(text.encode(), "/none.xml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_document_type_is_named() -> None:
    content = f'<platform version="4.1">{WORLD}{PAIR}</zone></platform>'
    with pytest.raises(PlatformError, match="has no document type, which SimGrid needs"):
        read_foreign(content.encode(), "/none.xml")


APART = zone(zone('<host id="a" speed="1Gf"/>', name="x") + zone(
    '<host id="b" speed="1Gf"/>', name="y"))  # fmt: skip
WIFI = (
    '<zone id="w" routing="Wifi"><prop id="access_point" value="r"/>'
    + PAIR
    + '<link id="air" sharing_policy="WIFI" bandwidth="54Mbps" latency="0ms"/>'
    '<router id="r"/></zone>'
)


@pytest.mark.parametrize(
    ("content", "pattern", "message"),
    [
        (APART, None, "SimGrid rejects it: zones are not joined: add a <zoneRoute>"),
        (APART, "*", "SimGrid rejects it: zones are not joined: add a <zoneRoute>"),
        (zone(zone(PAIR + LINK + ROUTE, name="x") + zone('<host id="c" speed="1Gf"/>', name="y")),
         "[ab]", "SimGrid rejects it: zones are not joined: add a <zoneRoute>"),
        (zone(PAIR + '<host id="c" speed="1Gf"/>' + LINK + ROUTE), "[ab]",
         "no route joins 'a' and 'c'"),
        (zone(PAIR), None, "no route joins 'a' and 'b': add a <route>, or a <zoneRoute>"),
        (zone(PAIR + LINK + ROUTE.replace(">", ' symmetrical="NO">', 1)), "*",
         "no route leads from 'b' to 'a'"),
        (zone(PAIR, "None"), None, "its hosts have no routes: write a routing other than None"),
        (zone(""), None, "has no hosts"),
        (zone('<host id="a" speed="0f"/>'), "*", "host 'a': speed: is zero"),
        (zone('<host id="a" speed="1e300Tf"/>'), "*", "host 'a': speed: is out of range"),
        (zone(PAIR + LINK.replace("1us", "-1us") + ROUTE), "*", "has 1e+09 bytes/s and -1e-06 s"),
        (zone('<host id="a" speed="fast"/>'), None, "cannot parse number"),
        (zone(PAIR + ROUTE), None, "Link not found: l"),
        (WIFI, "*", "link 'air' is WIFI"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_explained_in_one_line(
    content: str, pattern: str | None, message: str, save: Save
) -> None:
    path = save(content)
    with pytest.raises(PlatformError) as caught:
        check_report(path, pattern)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_way_routes_are_enough_without_gpus(save: Save) -> None:
    content = zone(PAIR + LINK + ROUTE.replace(">", ' symmetrical="NO">', 1))
    assert check_report(save(content))["simgrid_hosts"] == 2


def test_files_of_faultline_name_their_gpus(small: ClusterSpec, write: Write) -> None:
    with pytest.raises(PlatformError, match="leave out the pattern 'gpu-00000"):
        read_platform(write(small), "gpu-00000?")


@pytest.mark.slow
def test_a_short_file_of_a_huge_cluster_is_refused(save: Save) -> None:
    with pytest.raises(PlatformError, match=r"GiB of memory|did not finish"):
        read_platform(save(zone(cluster("c", "0-99999999"))), "*")
