"""The comparison of speeds with a kept commit."""

import subprocess
from pathlib import Path
from signal import SIGTERM
from time import monotonic, sleep

import pytest

ROOT = Path(__file__).resolve().parents[1]


def bench_against(*arguments: str) -> subprocess.CompletedProcess[str]:
    call = [str(ROOT / ".ci" / "bench-against"), *arguments]
    return subprocess.run(call, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [(), ("no-such-commit",)])
def test_a_commit_that_there_is_has_to_be_named(arguments: tuple[str, ...]) -> None:
    done = bench_against(*arguments)
    assert done.returncode == 2
    assert ".ci/bench-against COMMIT" in done.stdout or "no-such-commit" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("pairs", ["many", "1", "-3", "1.5"])
def test_pairs_that_are_no_number_are_one_line(pairs: str) -> None:
    done = bench_against("HEAD", pairs)
    assert done.returncode == 2
    assert done.stderr == f"PAIRS is {pairs!r}; use a whole number from 2\n"


def test_no_worktree_is_left_where_it_is_ended() -> None:
    call = [str(ROOT / ".ci" / "bench-against"), "HEAD", "2"]
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
    listing = ["git", "-C", str(ROOT), "worktree", "list", "--porcelain"]
    printed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    return [line for line in printed.splitlines() if f"faultline-bench-{pid}-" in line]


@pytest.mark.slow
def test_a_commit_is_as_fast_as_itself_on_the_same_runs() -> None:
    done = bench_against("HEAD", "2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert all(" ms   x " in line and "failures" not in line.partition(" ms ")[2] for line in lines)
