"""The comparison of speeds with a kept commit."""

import subprocess
from pathlib import Path

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


@pytest.mark.slow
def test_a_commit_is_as_fast_as_itself_on_the_same_runs() -> None:
    done = bench_against("HEAD", "2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert all(" ms   x " in line and "failures" not in line.partition(" ms ")[2] for line in lines)
