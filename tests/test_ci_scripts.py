"""The scripts of .ci: recipes of published files, same results, and speeds beside a commit's."""

from __future__ import annotations

import subprocess
from pathlib import Path
from signal import SIGTERM
from time import monotonic, sleep

import pytest

from tests.child_processes import run_program, run_python

ROOT = Path(__file__).resolve().parents[1]
BENCH_AGAINST = str(ROOT / ".ci" / "bench-against")


def publish(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python(ROOT / ".ci" / "publish", *arguments)


def test_each_published_file_has_one_recipe() -> None:
    lines = publish("--list").stdout.splitlines()
    files = [file for line in lines for file in line.split(maxsplit=1)[1].split(", ")]
    assert sorted(files) == sorted(one.name for one in (ROOT / "results" / "published").iterdir())


def test_an_unknown_recipe_is_refused() -> None:
    refused = publish("spare", "spar")
    assert refused.returncode == 2
    assert refused.stdout.startswith("publish: no recipe spar; known are step-time,")
    assert len(refused.stdout.splitlines()) == 1


def compared(*folders: Path) -> tuple[int, str]:
    done = run_python(ROOT / ".ci" / "compare-results", *folders)
    return done.returncode, done.stdout


def test_differences_are_named_with_their_first_line(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        folder.mkdir()
        (folder / "rows.csv").write_text("quantity,value\nratio,1.5\nratio,2.5\n")
    assert compared(before, after) == (0, "no difference in rows.csv\n")
    (after / "rows.csv").write_text("quantity,value\nratio,1.5\nratio,2.50\n")
    (after / "more.csv").write_text("quantity\n")
    status, printed = compared(before, after)
    assert status == 1
    assert printed.splitlines() == [
        "more.csv: only after",
        "rows.csv: 3 and 3 lines, 1 different; line 3:",
        "  - ratio,2.5",
        "  + ratio,2.50",
    ]


@pytest.mark.parametrize("arguments", [(), ("no-such-commit",)])
def test_a_commit_that_there_is_has_to_be_named(arguments: tuple[str, ...]) -> None:
    done = run_program(BENCH_AGAINST, *arguments)
    assert done.returncode == 2
    assert ".ci/bench-against COMMIT" in done.stdout or "no-such-commit" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("pairs", ["many", "1", "-3", "1.5"])
def test_pairs_that_are_no_number_are_one_line(pairs: str) -> None:
    done = run_program(BENCH_AGAINST, "HEAD", pairs)
    assert done.returncode == 2
    assert done.stderr == f"PAIRS is {pairs!r}; use a whole number from 2\n"


def test_no_worktree_is_left_where_it_is_ended() -> None:
    call = [BENCH_AGAINST, "HEAD", "2"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        try:
            deadline_s = monotonic() + 60.0
            while not (mine := worktrees(running.pid)) and monotonic() < deadline_s:
                sleep(0.05)
            assert mine
        finally:
            running.terminate()
        assert running.wait(60.0) == 128 + SIGTERM
    assert not worktrees(running.pid)


def worktrees(pid: int) -> list[str]:
    """Return the lines that name worktrees of a comparison."""
    listing = ("git", "-C", ROOT, "worktree", "list", "--porcelain")
    printed = run_program(*listing, check=True).stdout
    return [line for line in printed.splitlines() if f"faultline-bench-{pid}-" in line]


@pytest.mark.slow
def test_a_commit_is_as_fast_as_itself_on_the_same_runs() -> None:
    done = run_program(BENCH_AGAINST, "HEAD", "2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert all(" ms   x " in line and "failures" not in line.partition(" ms ")[2] for line in lines)
