"""Platform files: written, read back, edited, broken."""

from pathlib import Path
from typing import Any

import faultline.platforms
import pytest
from faultline.platforms.errors import PlatformError
from faultline.platforms.preset_library import load_preset, preset_names
from faultline.platforms.simgrid_check import load_in_simgrid
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.topology import rail_plane
from faultline.platforms.xml_reader import platform_from_xml, read_platform
from faultline.platforms.xml_writer import xml_text

from tests.platforms.helpers import Write, edit


@pytest.mark.parametrize("name", preset_names())
def test_a_platform_keeps_its_spec(name: str, write: Write) -> None:
    spec = load_preset(name)
    platform = read_platform(write(spec))
    assert platform.spec == spec
    assert len(platform.gpus) == spec.gpus
    assert len(platform.domains) == spec.scale_up.domains
    assert platform.gpus_per_rank == spec.gpus_per_rank
    assert (platform.storage, platform.controller) == ("storage", "controller")
    assert {gpu.speed_flop_per_s for gpu in platform.gpus} == {spec.gpu.speed_flop_per_s}


def test_link_classes(small: ClusterSpec, write: Write) -> None:
    classes = read_platform(write(small)).link_classes
    assert {name: found.count for name, found in classes.items()} == {
        "management": 3,
        "nic": 16,
        "nvlink": 16,
        "nvswitch": 4,
        "pcie": 16,
        "storage": 3,
        "up_leaf": 8,
    }
    assert classes["nic"].bandwidth_bytes_per_s == (50e9, 50e9)
    assert classes["nvlink"].latency_s == (250e-9, 250e-9)


def test_the_plane_states_its_scale(write: Write) -> None:
    platform = read_platform(write(load_preset("spare-600k", groups=600)))
    assert platform.gpus_per_rank == 1000
    assert platform.properties["faultline:gpus_per_rank"] == "1000"
    assert platform.properties["faultline:spec.plane.cluster_gpus"] == "600000"
    assert platform.links["storage-write"].bandwidth_bytes_per_s == 340e9 / 1000
    assert platform.links["up_leaf-00000-00"].bandwidth_bytes_per_s == 6.25e9


@pytest.mark.parametrize(
    ("preset", "overrides", "name"),
    [
        ("spare-600k", {"groups": 24}, "spare-600k-24-groups.xml"),
        ("hgx-h100", {"domains": 4, "domains_per_leaf": 2}, "hgx-h100-32-gpus.xml"),
        ("gb200-nvl72", {"domains": 2, "domains_per_leaf": 1}, "gb200-nvl72-144-gpus.xml"),
    ],
)
def test_the_tracked_examples_are_what_the_writer_writes(
    preset: str, overrides: dict[str, Any], name: str
) -> None:
    """As ``faultline platform generate PRESET --set KEY=VALUE -o FILE`` writes them."""
    path = Path(faultline.platforms.__file__).parent / "generated" / name
    assert path.read_text(encoding="utf-8") == xml_text(load_preset(preset, **overrides))
    load_in_simgrid(path)


BROKEN = [
    (
        r'bandwidth="50GBps"',
        'bandwidth="50GB/s"',
        "bandwidth: '50GB/s' is a bandwidth, not a bandwidth of SimGrid (written like 50GBps)",
    ),
    (r'bandwidth="50GBps"', 'bandwidth="0Bps"', "bandwidth: is zero: nothing would ever arrive"),
    (r'latency="600ns"', 'latency="-1us"', "latency: '-1us' is negative"),
    (r'speed="989Tf"', 'speed="fast"', "speed: 'fast' is not a speed of SimGrid: write a number"),
    (
        r'<link_ctn id="nic-000000"',
        '<link_ctn id="nic-00000"',
        "route has an unknown link 'nic-00000' (did you mean 'nic-",
    ),
    (
        r'dst="leaf-00000-00"',
        'dst="leaf-0"',
        "route names 'leaf-0', which is not a host or router of zone 'fabric'",
    ),
    (
        r'<link_ctn id="nic-000000" direction="UP" />',
        '<link_ctn id="nic-000000" />',
        "link 'nic-000000' has two directions: write direction=",
    ),
    (r'direction="UP"', 'direction="SIDEWAYS"', "direction is 'SIDEWAYS': write UP or DOWN"),
    (r'sharing_policy="SPLITDUPLEX"', 'sharing_policy="OPEN"', "sharing_policy is 'OPEN': write"),
    (r'id="gpu-000001"', 'id="gpu-000000"', "host 'gpu-000000' repeats the name of line"),
    (r'<prop id="domain" value="0" />', '<prop id="domain" value="x" />', "property 'domain' is"),
    (r'<route src="gpu-000000" dst="leaf', '<route src="gpu-000004" dst="leaf', "exists already"),
    (r"</zone>", "</zon>", "is not well-formed XML: mismatched tag"),
    (r'<router id="core" />', '<router id="core" /><router id="lost" />', "no route leads from"),
    (
        r'id="faultline:gpus_per_rank" value="1"',
        'id="faultline:gpus_per_rank" value="one"',
        "property faultline:gpus_per_rank is 'one': write a whole number",
    ),
    (
        r'id="faultline:spec.nic.latency" value="500ns"',
        'id="faultline:spec.nic.latency" value="500"',
        "nic.latency: 500 what? Write 500s",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "message"), BROKEN)
def test_a_broken_file_is_explained_in_one_line(
    right: str, wrong: str, message: str, small: ClusterSpec, write: Write
) -> None:
    path = write(small)
    edit(path, right, wrong)
    with pytest.raises(PlatformError) as caught:
        read_platform(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_line_of_a_mistake_is_named(small: ClusterSpec, write: Write) -> None:
    path = write(small)
    lines = path.read_text(encoding="utf-8").splitlines()
    number = next(n for n, line in enumerate(lines) if '<link id="nic-000003"' in line)
    lines[number] = lines[number].replace("50GBps", "50")
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(PlatformError, match=rf":{number + 1}: link 'nic-000003': bandwidth: '50'"):
        read_platform(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not well-formed XML: no element found"),
        ("<html/>", "starts with <html>: a SimGrid platform starts with <platform>"),
        ('<platform version="4.1"/>', "has no <zone>"),
        ('<platform version="4.1"><zone id="z" routing="Full"/></platform>', "has no GPU hosts"),
    ],
)
def test_a_file_that_is_no_platform(text: str, message: str) -> None:
    with pytest.raises(PlatformError) as caught:
        platform_from_xml(text.encode(), "p.xml")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (r'gw_dst="controller"', 'gw_dst="control"', "zoneRoute gw_dst='control' does"),
        (r'src="management"', 'src="nowhere"', "zoneRoute src='nowhere' does"),
        (r"(?s)<zoneRoute.*</zoneRoute>", "", "zones are not joined: add a <zoneRoute>"),
        (r'routing="DijkstraCache"', 'routing="Full"', "no route leads from 'gpu-000000' to 'gpu-"),
    ],
)
def test_simgrid_finds_routes_that_are_missing(
    right: str, wrong: str, message: str, small: ClusterSpec, write: Write
) -> None:
    path = write(small)
    edit(path, right, wrong)
    with pytest.raises(PlatformError) as refused:
        load_in_simgrid(path)
    assert message in str(refused.value)
    assert str(refused.value).startswith(f"{path}: SimGrid rejects it: ")
    assert "\n" not in str(refused.value)


def test_what_simgrid_prints_comes_as_one_line(small: ClusterSpec, write: Write) -> None:
    path = write(small)
    edit(path, r"</zone>", "</zon>")
    with pytest.raises(PlatformError) as refused:
        load_in_simgrid(path)
    assert str(refused.value).startswith(f"{path}: SimGrid rejects it: ")
    assert "\n" not in str(refused.value)


def test_simgrid_that_does_not_end_is_cut_short(small: ClusterSpec, write: Write) -> None:
    with pytest.raises(PlatformError, match=r"SimGrid did not finish in 0\.01 s$"):
        load_in_simgrid(write(small), timeout_s=0.01)


def test_only_rail_optimised_clusters_have_planes(small: ClusterSpec) -> None:
    with pytest.raises(PlatformError, match="only a rail-optimised fabric has rail planes"):
        rail_plane(load_preset("hgx-h100", rail_optimised=False))
    with pytest.raises(PlatformError, match="is a rail plane already"):
        rail_plane(rail_plane(small))
