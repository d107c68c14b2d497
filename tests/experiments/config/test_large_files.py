"""Large files: time and memory grow with their size, and are bounded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from faultline.experiments.config.toml_text import parse_toml
from faultline.experiments.config.trace_file import read_trace
from faultline.simulator.failures.failure import JobLayout

from tests.experiments.command_line import Cli
from tests.experiments.runs.processes import with_tests

LAYOUT = JobLayout(
    groups=128, gpus_per_group=128, gpus_per_host=8, gpus_per_domain=8, gpus_per_switch=16
)
LINES = {
    "tables": lambda n: "".join(f"[t{k}]\na = 1\n" for k in range(n)),
    "the same key": lambda n: "a = 1\n" * n,
    "open tables": lambda n: "[job\n" * n,
}

HEAVY = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("tables", "open tables")]


@pytest.mark.parametrize("kind", ["the same key", *HEAVY])
def test_a_large_scenario_is_refused(kind: str, tmp_path: Path, cli: Cli) -> None:
    text = LINES[kind](60_000)[:800_000]
    path = tmp_path / "large.toml"
    path.write_text(text, encoding="utf-8")
    status, _, _ = cli.all("scenario", "check", path)
    assert status == 2


def test_a_short_text_has_all_its_mistakes_told() -> None:
    assert len(parse_toml("a = 1\n" * 10)[1]) == 9


def test_a_trace_of_many_rows_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    count = 120_000
    rows = "".join(f"{count - n},gpu-{n % 16384},c{n % 7}\n" for n in range(count))
    path.write_text(f"time,component,cause\n{rows}", encoding="utf-8")
    recorded = read_trace(path, LAYOUT)
    assert len(recorded) == count
    assert recorded[0].time_s == 1.0
    assert recorded[0].component == f"gpu-{(count - 1) % 16384}"
    assert [failure.time_s for failure in recorded[5:8]] == [6.0, 7.0, 8.0]
    assert set(recorded.causes) == {f"c{n}" for n in range(7)}


READS = """
import sys
from pathlib import Path
from tests.experiments.config.test_large_files import LAYOUT
from faultline.experiments.config.trace_file import read_trace
count = len(read_trace(Path(sys.argv[1]), LAYOUT))
peak_kb = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
print(count, peak_kb * 1024)
"""


@pytest.mark.slow
def test_ten_million_rows_of_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write("time,component\n")
        for start in range(0, 10_000_000, 100_000):
            rows = range(start, start + 100_000)
            file.write("".join(f"{n}.5,gpu-{n * 7919 % 16384}\n" for n in rows))
    words = [sys.executable, "-c", READS, str(path)]
    printed = subprocess.run(words, capture_output=True, text=True, check=True, env=with_tests())
    count, peak_bytes = printed.stdout.split()
    assert int(count) == 10_000_000
    assert int(peak_bytes) < 1e9
