"""What goes down together, by hand on small platforms and by brute force."""

import re
from typing import Any

import networkx as nx
import pytest
from faultline.platforms import (
    FailureDomain,
    Platform,
    failure_domains,
    load_preset,
    read_platform,
)

from tests.platforms.helpers import Write


def by_name(platform: Platform) -> dict[str, FailureDomain]:
    found = failure_domains(platform)
    named = {component.name: component for component in found}
    assert len(named) == len(found)
    return named


@pytest.fixture
def eight(write: Write) -> Platform:
    """Four domains of two hosts of two GPUs, two domains a set of leaf switches, two a rack."""
    spec = load_preset(
        "hgx-h100",
        domains=4,
        gpus_per_domain=4,
        domains_per_leaf=2,
        domains_per_rack=2,
        **{"host.gpus_per_host": 2, "host.doors": True},
    )
    return read_platform(write(spec))


def test_components_are_complete(eight: Platform) -> None:
    counts: dict[str, int] = {}
    for component in failure_domains(eight):
        counts[component.level] = counts.get(component.level, 0) + 1
    assert counts.pop("link") == 16 * 3 + 8 * 3 + 8 + 3
    # Eight leaf switches, the core and four NVSwitches.
    assert counts == {"gpu": 16, "host": 8, "domain": 4, "rack": 2, "switch": 13}


def test_what_hangs_on_a_component(eight: Platform) -> None:
    found = by_name(eight)
    assert found["gpu-000005"].links == ("nic-000005", "nvlink-000005", "pcie-000005")
    host = found["host-00001"]
    assert host.gpus == ("gpu-000002", "gpu-000003")
    assert {"hostmemory-00001", "disk_read-00001", "disk_write-00001"} < set(host.links)
    assert len(host.links) == 3 * 2 + 3
    domain = found["domain-00001"]
    assert len(domain.gpus) == 4
    assert "nvswitch-00001" in domain.links
    assert len(found["rack-00001"].gpus) == 8
    switch = found["nvswitch-00000"]
    assert switch.gpus == tuple(f"gpu-{n:06d}" for n in range(4))
    assert switch.links == (*(f"nvlink-{n:06d}" for n in range(4)), "nvswitch-00000")
    leaf = found["leaf-00000-01"]
    assert leaf.gpus == ("gpu-000001", "gpu-000005")
    assert leaf.links == ("nic-000001", "nic-000005", "up_leaf-00000-01")
    assert found["up_leaf-00000-01"].gpus == leaf.gpus
    assert len(found["core"].gpus) == 16
    assert found["nvlink-000003"].gpus == ("gpu-000003",)
    assert found["hostmemory-00001"].gpus == host.gpus
    assert found["disk_read-00001"].gpus == found["storage-read"].gpus == ()
    assert not any(name.startswith("management") for name in found)


def test_a_shared_adapter_goes_with_the_host_and_not_with_a_gpu(write: Write) -> None:
    found = by_name(read_platform(write(load_preset("hgx-h100", domains=2, gpus_per_nic=2))))
    assert "nic-000000" not in found["gpu-000000"].links
    assert "nic-000000" in found["host-00000"].links
    assert found["nic-000000"].gpus == ("gpu-000000", "gpu-000001")


def test_a_second_uplink_keeps_the_gpus_of_a_leaf_switch(write: Write) -> None:
    path = write(load_preset("hgx-h100", domains=2, domains_per_leaf=1, rail_optimised=False))
    text = path.read_text(encoding="utf-8")
    second = (
        '<route src="leaf-00000" dst="leaf-00001"><link_ctn id="across-0" direction="UP"/></route>'
    )
    text = re.sub(
        r'(<link id="nic-000000")',
        r'<link id="across-0" bandwidth="1GBps" latency="1us" sharing_policy="SPLITDUPLEX"/>\1',
        text,
    )
    path.write_text(text.replace("<route", second + "<route", 1), encoding="utf-8")
    found = by_name(read_platform(path))
    assert found["up_leaf-00000"].gpus == ()
    assert len(found["leaf-00000"].gpus) == 8
    assert len(found["core"].gpus) == 16


@pytest.mark.parametrize(
    "overrides",
    [
        {"rail_optimised": True},
        {"levels": 3, "leaves_per_pod": 2, "oversubscription": [1, 2], "rail_optimised": False},
    ],
)
def test_cut_off_gpus_against_brute_force(overrides: dict[str, Any], write: Write) -> None:
    """Take each switch and trunk out of the graph, and see whom the core still reaches."""
    spec = load_preset("hgx-h100", domains=8, gpus_per_domain=2, domains_per_leaf=2, **overrides)
    platform = read_platform(write(spec))
    for component in failure_domains(platform):
        if not component.name.startswith(("leaf", "pod", "up_", "nic", "pcie")):
            continue
        graph: nx.DiGraph[str] = nx.DiGraph()
        for source, hops in platform.edges.items():
            if source.startswith(("gpu", "nvswitch", "management", component.name)):
                continue
            graph.add_edges_from(
                (source, end)
                for end, cable in hops
                if component.name not in (*cable, end) and not end.startswith("nvswitch")
            )
        reached = nx.descendants(graph, "core")
        assert set(component.gpus) == set(platform.gpu_names) - reached, component.name
