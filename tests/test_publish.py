"""Each published file has a recipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def publish(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "publish"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_published_file_has_one_recipe() -> None:
    lines = publish("--list").stdout.splitlines()
    files = [file for line in lines for file in line.split(maxsplit=1)[1].split(", ")]
    assert sorted(files) == sorted(one.name for one in (ROOT / "results" / "published").iterdir())


def test_an_unknown_recipe_is_refused() -> None:
    refused = publish("spare", "spar")
    assert refused.returncode == 2
    assert refused.stdout.startswith("publish: no recipe spar: choose of step-time,")
    assert len(refused.stdout.splitlines()) == 1
