"""Sealed files; sweeps of a user without rights, and of one who ends them."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faultline.experiments.runs.manifest import DamagedError, seal, unseal
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.child_processes import run_program
from tests.experiments.runs.in_process import Invented, plan_of, some_record, sweep
from tests.experiments.runs.processes import start_python, wait_for, with_tests

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)
)
contents = st.dictionaries(
    st.text(max_size=5).filter(lambda key: key != "checksum"),
    st.one_of(
        scalars, st.lists(scalars, max_size=3), st.dictionaries(st.text(max_size=3), scalars)
    ),
    max_size=5,
)
SEALED = seal({"run_id": "0123456789abcdef", "record": {"time_s": 0.1, "restarts": 3}})


@settings(max_examples=50)
@given(content=contents)
def test_every_bit_comes_back_in_the_same_order(content: dict[str, Any]) -> None:
    back = unseal(seal(content))
    assert repr(back) == repr(content)


def test_numbers_that_json_does_not_know_come_back() -> None:
    back = unseal(seal({"ratio": math.inf, "none": math.nan, "seed": np.int64(3)}))
    assert back["ratio"] == math.inf
    assert math.isnan(back["none"])
    assert back["seed"] == 3


def test_a_file_that_was_cut_off_is_noticed() -> None:
    for length in range(len(SEALED) - 1):
        with pytest.raises(DamagedError):
            unseal(SEALED[:length])


def test_a_changed_letter_is_noticed() -> None:
    for position in range(len(SEALED) - 1):
        changed = bytearray(SEALED)
        changed[position] ^= 1
        with pytest.raises(DamagedError):
            unseal(bytes(changed))


@pytest.mark.parametrize(
    "foreign", [b"", b"[]", b"3", b'"text"', b"{}", b'{"run_id": 3}', b"\xff\xfe", b"[" * 100_000]
)
def test_what_was_never_sealed_is_noticed(foreign: bytes) -> None:
    with pytest.raises(DamagedError):
        unseal(foreign)


def test_an_edited_number_is_noticed() -> None:
    edited = json.loads(SEALED)
    edited["record"]["restarts"] = 4
    with pytest.raises(DamagedError, match="checksum"):
        unseal(json.dumps(edited).encode())


GRID = 'scenario = "spare-study"\nseeds = 2\n[grid]\nstrategy.redundancy = [2, 3]'
SHORT = f'{GRID}\n[set]\n"job.steps" = 20\n"job.groups" = 12'


# One who may read what is installed, wherever that is, and write nothing but what is his.
NOBODY = (
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
)  # fmt: skip


def as_nobody(code: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run Python as a user who owns nothing, whose files only he may read."""
    return run_program(
        *(*(NOBODY if os.geteuid() == 0 else ()), sys.executable, "-c", code, *words),
        env=with_tests() | {"HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"},
        umask=0o077,
    )


MAIN = "import sys; from faultline.experiments.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that anybody may enter: that of the tests is for their user alone."""
    with tempfile.TemporaryDirectory(prefix="faultline-test-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        if os.geteuid() == 0 and shutil.which("setpriv") is None:
            pytest.skip("there is nobody else to try it as")
        yield folder


@pytest.mark.slow
def test_a_user_without_rights_sweeps_reads_and_is_told(open_folder: Path) -> None:
    grid = open_folder / "grid.toml"
    grid.write_text(SHORT, encoding="utf-8")
    grid.chmod(0o644)
    out = open_folder / "out"
    done = as_nobody(MAIN, "sweep", grid, "-o", out, "--workers", "1")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    modes = {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in out.rglob("*")}
    assert modes == {0}
    assert as_nobody(MAIN, "compare", out).returncode == 0
    closed = open_folder / "closed"
    closed.mkdir(mode=0o755)
    for words in (
        ("sweep", grid, "-o", closed, "--workers", "1"),
        ("sweep", grid, "-o", closed / "inner", "--workers", "1"),
        ("report", out, "-o", closed / "report.html"),
        ("run", "spare-study", "--set", "job.steps=5", "--timeline", closed / "t.csv"),
        ("platform", "generate", "hgx-h100", "-o", closed / "p.xml"),
    ):
        refused = as_nobody(MAIN, *words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.count("\n") == 1
        assert f"{closed}" in refused.stderr
        assert "Permission denied" in refused.stderr
    assert list(closed.iterdir()) == []


@pytest.mark.slow
def test_a_sweep_that_is_ended_goes_on(tmp_path: Path) -> None:
    """An interrupt is tested with the command, which then says more."""
    grid = tmp_path / "grid.toml"
    grid.write_text(SHORT.replace("20", "20000"), encoding="utf-8")
    words = ("sweep", str(grid), "-o", str(tmp_path / "out"), "--workers", "1")
    started = start_python("-c", MAIN, *words, stderr=subprocess.PIPE, text=True)
    assert wait_for((tmp_path / "out" / "runs").is_dir)
    started.send_signal(signal.SIGTERM)
    _, said = started.communicate(timeout=60)
    assert started.returncode == -signal.SIGTERM
    assert "Traceback" not in said
    plan = plan_of(tmp_path, grid.read_text(encoding="utf-8"))
    outcome, _ = sweep(plan, tmp_path / "out", Invented(some_record))
    assert outcome.failed == 0
