"""``faultline plot``: files with pictures, one line for mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.command_line import Cli

COMMAND = ("plot",)

GRID = """
scenario = "spare-study"
seeds = 2
[set]
"job.groups" = 24
"job.steps" = 20
"failures.mtbf_s" = 1200.0
[grid]
"strategy.name" = ["replication", "spare"]
"strategy.redundancy" = [2, 3]
"""
MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def test_the_usual_pictures_go_beside_the_file_of_the_sweep(swept: Path, cli: Cli) -> None:
    printed = cli(str(swept)).splitlines()
    written = sorted(swept.with_name("out-figures").iterdir())
    names = ["badput.png", "ratio-over-strategy-redundancy.png"]
    assert [path.name for path in written] == names
    assert sorted(Path(line.partition(": ")[0]) for line in printed) == written


@pytest.mark.parametrize("suffix", MAGIC)
def test_a_format_and_a_folder(swept: Path, tmp_path: Path, suffix: str, cli: Cli) -> None:
    cli(str(swept), "--format", suffix, "-o", str(tmp_path))
    written = list(tmp_path.iterdir())
    assert {path.suffix for path in written} == {f".{suffix}"}
    assert all(path.read_bytes().startswith(MAGIC[suffix]) for path in written)
