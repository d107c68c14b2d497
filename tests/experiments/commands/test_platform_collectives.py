"""``faultline platform probe``: a collective on an idle platform."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml

from tests.experiments.command_line import Cli

COMMAND = ("platform",)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four servers of eight GPUs."""
    path = tmp_path_factory.mktemp("platform") / "hgx.xml"
    write_xml(load_preset("hgx-h100", domains=4), path)
    return path


def test_json_has_time_bandwidths_and_limit(servers: Path, cli: Cli) -> None:
    """Ring in a server, options first: 1.5 GB at 361 GB/s and six steps of 3.4 us after 8.4."""
    words = ("--bytes", "1GB", "--gpus", 4)
    printed = cli.json("probe", servers, *words, "all-reduce", "ring")
    assert printed["time_s"] == pytest.approx(1.5 / 361 + 8.4e-6 + 6 * 3.4e-6, rel=1e-6)
    assert printed["latency_s"] == pytest.approx(8.4e-6 + 6 * 3.4e-6)
    assert printed["bus_bandwidth"] == pytest.approx(1.5e9 / printed["time_s"])
    assert printed["algorithm_bandwidth"] == pytest.approx(1e9 / printed["time_s"])
    assert printed["algorithm"] == "ring"
    assert printed["limited_by"] == "nvlink"


def test_a_person_reads_units(servers: Path, cli: Cli) -> None:
    """Four servers: 62/32 of 8 GB at 361 GB/s by rings over all adapters, faster than trees."""
    printed = cli("probe", servers, "--bytes", "8GB")
    for words in ("all-reduce by ring, 8GB", "43.22 ms", "358.6 GB/s", "limited by"):
        assert words in printed
    assert "not checked" not in printed


def test_small_messages_are_reported_as_unchecked(servers: Path, cli: Cli) -> None:
    status, _, note = cli.all("probe", servers, "--bytes", "1MiB")
    assert status == 0
    assert "below 16 MiB" in note


def test_a_shipped_rail_plane_is_made_for_the_ranks(cli: Cli) -> None:
    assert cli.json("probe", "spare-600k", "--gpus", 24)["limited_by"] == "up_leaf"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpus", 33], "has 32 GPUs: 33 ranks are too many"),
        (["--gpus", 1], "at least 2 ranks"),
        (["--bytes", "0B"], "use a size above zero"),
        (["--bytes", "64M"], "write 64MB"),
        (["all-to-all", "ring"], "use one of direct"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_wrong_requests_are_reported_in_one_line(
    words: list[object], message: str, servers: Path, cli: Cli
) -> None:
    assert message in cli.refused("probe", servers, *words)
