"""Layers, bisection and differences come from the links of the file."""

import re
from pathlib import Path

import pytest
from faultline.platforms import (
    bisection,
    check_in_simgrid,
    fabric_layers,
    load_preset,
    read_platform,
    spec_differences,
    storage_rates,
)

from tests.platforms.helpers import THREE_LEVELS, Write


def edit(path: Path, pattern: str, replacement: str, count: int = 1) -> None:
    text, edits = re.subn(pattern, replacement, path.read_text(encoding="utf-8"), count=count)
    assert edits
    path.write_text(text, encoding="utf-8")


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
    spec = load_preset("hgx-h100", domains=4, domains_per_leaf=4, oversubscription=[4])
    width = bisection(read_platform(write(spec)))
    assert width is not None
    assert width.bandwidth_bytes_per_s == 16 * 50e9


def test_one_domain_has_no_bisection(write: Write) -> None:
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
    assert check_in_simgrid(path) is None
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
    assert spec_differences(read_platform(path)) is None
    edit(path, r'(<prop id="role" value=)"storage"', r'\1"other"')
    assert storage_rates(read_platform(path)) is None


def test_storage_of_a_plane_and_its_clients(write: Write) -> None:
    rates = storage_rates(read_platform(write(load_preset("hgx-h100", domains=2))))
    assert rates is not None
    assert (rates.read_bytes_per_s, rates.write_bytes_per_s) == (100e9, 50e9)
    assert rates.client_bytes_per_s == 20e9
