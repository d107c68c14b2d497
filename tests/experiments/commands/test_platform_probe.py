"""``faultline platform probe``: what it prints, and what it says to wrong requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from faultline.experiments.cli import execute, parser
from faultline.experiments.config.errors import UserError
from faultline.platforms import PlatformError, load_preset, write_xml


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("platform") / "hgx.xml"
    write_xml(load_preset("hgx-h100", domains=4), path)
    return path


def probe(*words: object) -> int:
    return execute(parser().parse_args(["platform", "probe", *map(str, words)]))


def test_json_has_time_bandwidths_and_limit(
    servers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ring among four servers on one rail: 1.5 GB at 50 GB/s and six rounds of 1.7 us."""
    words = ("--collective", "all-reduce", "--algorithm", "ring", "--bytes", "1GB", "--ranks", 4)
    assert probe(servers, *words, "--placement", "spread", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["time_s"] == pytest.approx(0.03 + 6 * 1.7e-6, rel=1e-6)
    assert told["alpha_beta_s"] == pytest.approx(told["time_s"], rel=1e-6)
    assert told["bus_bandwidth"] == pytest.approx(50e9, rel=1e-3)
    assert told["algorithm_bandwidth"] == pytest.approx(50e9 / 1.5, rel=1e-3)
    assert told["limited_by"] == "nic"


def test_a_person_reads_units(servers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """14 rounds of 600 ns and 1/8 GB at 450 GB/s, 6 of 1.7 us and 1/32 GB at 50 GB/s."""
    assert probe(servers, "--algorithm", "hierarchical", "--fidelity", "chunk") == 0
    told = capsys.readouterr().out
    for words in ("all-reduce hierarchical, 1GB, chunk", "7.657 ms", "253 GB/s", "limited by"):
        assert words in told


def test_a_shipped_rail_plane_is_made_for_the_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    assert probe("spare-600k", "--ranks", 24, "--json") == 0
    assert json.loads(capsys.readouterr().out)["limited_by"] == "up_leaf"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ranks", 33], "has 32 GPUs: 33 ranks are too many"),
        (["--ranks", 1], "at least 2 ranks"),
        (["--ranks", -3], "at least 2 ranks"),
        (["--bytes", "0B"], "write a size from 1B to 1EB"),
        (["--bytes", "2EB"], "write a size from 1B to 1EB"),
        (["--bytes", "1000"], "has no unit"),
        (["--bytes", "1Gb"], "is in bits"),
        (["--collective", "all-reduse"], "no collective is called 'all-reduse'"),
        (["--collective", "broadcast", "--algorithm", "ring"], "use one of binomial, chain"),
        (["--collective", "point-to-point"], "point-to-point has 2 ranks, not 32"),
        (["--algorithm", "hierarchical", "--ranks", 12], "equally many ranks"),
        (["--placement", "spread", "--ranks", 5], "has 4 scale-up domains"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_wrong_requests_are_told_in_one_line(
    words: list[object], message: str, servers: Path
) -> None:
    with pytest.raises((UserError, PlatformError), match=message) as caught:
        probe(servers, *words)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match=r"nowhere\.xml: no such file.*hgx-h100"):
        probe("nowhere.xml")


def test_a_broken_file_is_explained(tmp_path: Path) -> None:
    broken = tmp_path / "broken.xml"
    broken.write_text("<platform version='4.1'><zone", encoding="utf-8")
    with pytest.raises(PlatformError, match="is no well-formed XML"):
        probe(broken)
