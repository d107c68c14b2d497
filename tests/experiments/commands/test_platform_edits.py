"""``platform diff``: an edit changes the phases that its links and GPUs are on, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.asking import Ask

IMPORTED = Path(__file__).parents[2] / "platforms" / "imported"


@pytest.fixture
def servers(ask: Ask, tmp_path: Path) -> Path:
    path = tmp_path / "servers.xml"
    ask("platform", "generate", "hgx-h100", "--set", "domains=2", "-o", path)
    return path


def edited(path: Path, old: str, new: str) -> Path:
    text = path.read_text(encoding="utf-8")
    assert old in text
    other = path.with_name("edited.xml")
    other.write_text(text.replace(old, new), encoding="utf-8")
    return other


def test_half_of_the_adapters_doubles_the_all_reduce(ask: Ask, servers: Path) -> None:
    slower = edited(
        servers, 'bandwidth="50GBps" latency="600ns"', 'bandwidth="25GBps" latency="600ns"'
    )
    told = ask.json("platform", "diff", servers, slower)
    changes = {one["phase"]: one["change"] for one in told["phases"]}
    assert changes["all-reduce"] == pytest.approx(1.0, rel=0.05)
    assert changes["checkpoint"] == 0
    (difference,) = told["differences"]
    assert "bandwidth is 25GB/s" in difference["text"]
    assert "(16 of 16 nic differ)" in difference["text"]
    assert difference["effect"] == "network"


def test_slower_gpus_slow_the_compute_of_a_model(ask: Ask, servers: Path) -> None:
    slower = edited(servers, 'speed="989Tf"', 'speed="494.5Tf"')
    model = ("--set", "model.name=llama3-8b", "--set", "job.groups=2", "--set", "model.pipeline=1")
    job = ("--scenario", "llama3-70b-hgx", *model)
    told = ask.json("platform", "diff", servers, slower, *job)
    changes = {one["phase"].strip(): one["change"] for one in told["phases"]}
    assert changes["computing"] > 0.3
    assert abs(changes["messages of tensor parallelism"]) < 0.1 < changes["step"]
    assert abs(changes["gradients and weights between groups"]) < 0.1


def test_the_same_file_changes_nothing(ask: Ask, servers: Path) -> None:
    printed = ask("platform", "diff", servers, servers)
    assert "No phase of this job changes." in printed
    assert "The files say the same." in printed


def test_what_cannot_be_compared_is_told(ask: Ask, servers: Path) -> None:
    assert "no such file" in ask.refused("platform", "diff", servers, "nowhere.xml")
    job = ("--scenario", "llama3-70b-hgx")
    assert "has 16 GPUs, the job takes 256" in ask.refused(
        "platform", "diff", servers, servers, *job
    )


def test_a_spec_is_imported_and_generated(ask: Ask, tmp_path: Path) -> None:
    topology, spec = IMPORTED / "topo-hgx-h100.txt", tmp_path / "ours.toml"
    assert "a spec of 8 GPUs" in ask("platform", "import", topology, "-o", spec)
    assert "8 GPUs" in ask("platform", "generate", spec, "-o", tmp_path / "ours.xml")


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_drawings_can_be_zoomed(ask: Ask, servers: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"servers.{suffix}"
    ask("platform", "draw", servers, "-o", path)
    assert path.read_bytes()[:5] in (b"<?xml", b"%PDF-")
