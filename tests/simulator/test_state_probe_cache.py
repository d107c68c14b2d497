"""The cache of what moving training state takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import faultline.simulator.simgrid_engine.state_probe as module
import pytest
from faultline.platforms import ClusterSpec, load_preset
from faultline.simulator.simgrid_engine.scenes import Flow
from faultline.simulator.simgrid_engine.state_probe import cached_state_probe, probe_state_transfers
from faultline.simulator.simgrid_engine.state_transfers import StateTransfers

TRANSFERS = StateTransfers(4, 1e9, 2e9, ((0, 1), (2, 3)), 1, 1e9)


def servers(**overrides: object) -> ClusterSpec:
    return load_preset("hgx-h100", domains=4, domains_per_leaf=2, **overrides)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replace the simulation by one that takes no time, and write down what it was for."""
    played: list[Path] = []

    def pretend(_: object, platform: Path, scenes: Sequence[Sequence[Flow]]) -> list[float]:
        played.append(platform)
        return [0.5 + number for number in range(len(scenes))]

    monkeypatch.setattr(module, "in_own_process", pretend)
    return played


def test_the_cache_gives_what_was_measured(tmp_path: Path) -> None:
    measured = probe_state_transfers(servers(), TRANSFERS)
    assert cached_state_probe(servers(), TRANSFERS, tmp_path) == measured
    assert cached_state_probe(servers(), TRANSFERS, tmp_path) == measured
    assert len(list(tmp_path.iterdir())) == 1


def test_it_is_measured_once(counted: list[Path], tmp_path: Path) -> None:
    first = cached_state_probe(servers(), TRANSFERS, tmp_path)
    assert cached_state_probe(servers(), TRANSFERS, tmp_path) == first
    assert len(counted) == 1
    assert not counted[0].exists()


def test_another_platform_or_request_is_measured_anew(counted: list[Path], tmp_path: Path) -> None:
    requests = [
        (servers(), TRANSFERS),
        (servers(memory_bandwidth="400GB/s"), TRANSFERS),
        (servers(pcie_bandwidth="128GB/s"), TRANSFERS),
        (servers(), replace(TRANSFERS, groups=2)),
        (servers(), replace(TRANSFERS, copies=0)),
        (servers(), replace(TRANSFERS, peers=((0, 2), (1, 3)))),
        (servers(), replace(TRANSFERS, snapshot_bytes_per_gpu=3e9)),
        (servers(), replace(TRANSFERS, state_bytes_per_gpu=3e9)),
        (servers(), replace(TRANSFERS, gradient_bytes_per_gpu=3e9)),
    ]
    for _ in range(2):
        for spec, transfers in requests:
            cached_state_probe(spec, transfers, tmp_path)
    assert len(counted) == len(requests)


@pytest.mark.parametrize(
    "damage",
    ["", "{", "null", "{}", "NaN", "negative", "a word", "another field", "whole number"],
)
def test_a_damaged_entry_is_thrown_away(damage: str, counted: list[Path], tmp_path: Path) -> None:
    good = cached_state_probe(servers(), TRANSFERS, tmp_path)
    (entry,) = tmp_path.iterdir()
    stored = json.loads(entry.read_text(encoding="utf-8"))
    changes: dict[str, dict[str, object]] = {
        "NaN": {"copy_s": float("nan")},
        "negative": {"load_s": -1.0},
        "a word": {"send_s": "long"},
        "another field": {"colour": 1.0},
        "whole number": {"fetch_s": 1},
    }
    text = json.dumps(stored | changes[damage]) if damage in changes else damage
    entry.write_text(text, encoding="utf-8")
    assert cached_state_probe(servers(), TRANSFERS, tmp_path) == good
    assert json.loads(entry.read_text(encoding="utf-8")) == stored
    assert len(counted) == 2
