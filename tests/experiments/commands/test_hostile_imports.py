"""Files for ``platform import`` that are none: one line, nothing written, no waiting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.experiments.command_line import Cli
from tests.platforms.imported.test_imports import MATRIX, nccl

TOPOLOGY = nccl().decode()
HOSTILE_TOPOLOGIES = {
    "no XML": "graph",
    "empty": "",
    "cut off": TOPOLOGY[:200],
    "another encoding": '<?xml version="1.0" encoding="utf-16"?>' + TOPOLOGY,
    "no encoding": '<?xml version="1.0" encoding="no-such"?>' + TOPOLOGY,
    "no system": "<graphml/>",
    "deep": '<system><cpu numaid="0">' + "<pci>" * 100_000,
    "laughs": '<!DOCTYPE g [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><system>&b;</system>',
    "many digits": TOPOLOGY.replace('"400000"', '"' + "9" * 5_000 + '"'),
    "other digits": TOPOLOGY.replace('"400000"', '"\u0661\u0662"'),
    "a number below zero": TOPOLOGY.replace('"18"', '"-18"'),
    "a long name": TOPOLOGY.replace("mlx5_0", "m" * 100_000),
    "half a letter": TOPOLOGY.replace("mlx5_0", "\ud800"),
}
HOSTILE_MATRICES = {
    "no number of links": MATRIX.replace("NV18", "NVx", 1),
    "no links": MATRIX.replace("NV18", "NV", 1),
    "other digits": MATRIX.replace("NV18", "NV\u0661\u0662"),
    "many digits": MATRIX.replace("NV18", "NV" + "9" * 5_000),
    "cells missing": MATRIX.replace("NV18", "", 3),
    "one GPU twice": MATRIX.replace("GPU1", "GPU0"),
    "no text": "\x00\x01",
}
HOSTILE = {
    **{f"nccl: {name}": (".xml", text) for name, text in HOSTILE_TOPOLOGIES.items()},
    **{f"matrix: {name}": (".txt", text) for name, text in HOSTILE_MATRICES.items()},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_imported_is_refused_in_a_line(name: str, tmp_path: Path, cli: Cli) -> None:
    ending, text = HOSTILE[name]
    given, written = tmp_path / f"given{ending}", tmp_path / "written.toml"
    given.write_text(text, encoding="utf-8", errors="surrogatepass")
    printed = cli.refused("platform", "import", given, "-o", written)
    assert str(given) in printed
    assert not written.exists()


def test_imports_read_regular_files_alone(tmp_path: Path, cli: Cli) -> None:
    topology = tmp_path / "topo.txt"
    topology.write_text(MATRIX, encoding="utf-8")
    for ending in (".xml", ".txt", ".csv"):
        pipe, endless = tmp_path / f"pipe{ending}", tmp_path / f"endless{ending}"
        os.mkfifo(pipe)
        endless.symlink_to("/dev/zero")
        for odd in (pipe, endless, tmp_path, tmp_path / f"nothing{ending}"):
            words = (odd,) if ending != ".csv" else (topology, odd)
            assert str(odd) in cli.refused("platform", "import", *words, "-o", tmp_path / "out")
