"""Failures in the middle of a collective, as a user asks for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.cli import main
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two servers of eight GPUs."""
    path = tmp_path_factory.mktemp("platform") / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=2), path)
    return path


def told(capsys: pytest.CaptureFixture[str], servers: Path, component: str, *more: str) -> Any:
    words = ["platform", "break", str(servers), "--component", component, "--watchdog", "30s"]
    assert main([*words, "--algorithm", "ring", "--json", *more]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("fidelity", ["flow", "chunk"])
@pytest.mark.parametrize(
    ("component", "died"), [("gpu-000003", 1), ("host-00001", 8), ("domain-00000", 8)]
)
def test_ranks_that_lose_a_peer_hang_until_the_watchdog(
    capsys: pytest.CaptureFixture[str], servers: Path, component: str, died: int, fidelity: str
) -> None:
    aftermath = told(capsys, servers, component, "--fidelity", fidelity)
    assert len(aftermath["died"]) == died
    assert len(aftermath["hung"]) == 16 - died
    assert aftermath["end_s"] == pytest.approx(30.0)


def test_a_leaf_switch_cuts_ranks_off_and_kills_none(
    capsys: pytest.CaptureFixture[str], servers: Path
) -> None:
    """The ring leaves a server from its last GPU, for the first one of the other server."""
    aftermath = told(capsys, servers, "leaf-00000-07")
    assert aftermath["died"] == []
    assert len(aftermath["hung"]) == 16


def test_what_the_ring_does_not_use_may_fail(
    capsys: pytest.CaptureFixture[str], servers: Path
) -> None:
    aftermath = told(capsys, servers, "leaf-00000-03")
    assert aftermath["hung"] == []
    assert len(aftermath["through"]) == 16
    assert aftermath["end_s"] < 1.0


def test_a_failure_after_the_end_hurts_nobody(
    capsys: pytest.CaptureFixture[str], servers: Path
) -> None:
    assert told(capsys, servers, "gpu-000003", "--at", "20s")["hung"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--component", "gpu-3"], "no such component"),
        (["--component", "gpu-000003", "--at", "5"], "--at"),
        (["--component", "gpu-000003", "--at", "40s", "--watchdog", "30s"], "--watchdog"),
        (["--component", "gpu-000003", "--algorithm", "star"], "no algorithm 'star'"),
    ],
)
def test_bad_input_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], servers: Path, words: list[str], said: str
) -> None:
    assert main(["platform", "break", str(servers), *words]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1


def test_people_get_a_table(capsys: pytest.CaptureFixture[str], servers: Path) -> None:
    assert main(["platform", "break", str(servers), "--component", "gpu-000003"]) == 0
    printed = capsys.readouterr().out
    assert "gpu gpu-000003 fails" in printed
    assert "hung until the watchdog" in printed
