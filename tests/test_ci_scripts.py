"""The scripts of .ci: recipes of published files, same results, and speeds beside a commit's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.child_processes import run_program, run_python

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[1]
BENCH_AGAINST = str(ROOT / ".ci" / "bench-against")


def publish(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python(ROOT / ".ci" / "publish", *arguments)


def test_each_published_file_has_one_recipe() -> None:
    lines = publish("--list").stdout.splitlines()
    files = [file for line in lines for file in line.split(maxsplit=1)[1].split(", ")]
    # The last recipe is followed by the numbers of the pages.
    files.append("numbers.json")
    assert sorted(files) == sorted(one.name for one in (ROOT / "results" / "published").iterdir())


@pytest.mark.slow
def test_a_commit_is_as_fast_as_itself_on_the_same_runs() -> None:
    done = run_program(BENCH_AGAINST, "HEAD", "2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert all(" ms   x " in line and "failures" not in line.partition(" ms ")[2] for line in lines)
