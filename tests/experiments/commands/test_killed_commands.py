"""Commands that write files are killed at any moment; the same command then ends as if undisturbed.

`faultline sweep` under kills has tests of its own, beside its store.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.runs.processes import PATIENCE_S, start_python

pytestmark = pytest.mark.system

KILLS = 20
KEPT = {".sqlite"}
GRID = """\
scenario = "spare-study"
seeds = 2
[set]
job.steps = 300
[grid]
strategy.redundancy = [2, 3]
"""

# Each command runs in a folder of its own, with the sweep `sweep.sqlite` and a page or a table of
# before, so that a kill that spoils it shows.
COMMANDS = {
    "sweep": "sweep grid.toml -o swept.sqlite",
    "compare": "compare sweep.sqlite --by strategy.redundancy -o compared.csv",
    "report": "report sweep.sqlite -o page.html",
    "head-to-head": ("head-to-head --quick --only settings --schemes checkpoint,spare -o out"),
    "reproduce": "reproduce recovery -o out",
}


def start(folder: Path, command: str) -> subprocess.Popen[bytes]:
    with (folder / "printed").open("wb") as printed, (folder / ".errors").open("wb") as errors:
        words = ("-m", "faultline.experiments.cli", "-q", *command.split())
        return start_python(
            *words, cwd=folder, stdout=printed, stderr=errors, start_new_session=True
        )


def ended(folder: Path, command: str) -> dict[str, bytes]:
    process = start(folder, command)
    assert process.wait(PATIENCE_S) == 0, (folder / ".errors").read_text()
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        # What is kept of each run includes how long it took, too.
        if path.is_file() and not path.name.startswith(".") and path.suffix not in KEPT
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_killed_at_random_ends_with_the_same_bytes(name: str, tmp_path: Path) -> None:
    command, source = COMMANDS[name], tmp_path / "source"
    source.mkdir()
    (source / "grid.toml").write_text(GRID)
    ended(source, "sweep grid.toml -o sweep.sqlite")
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    for folder in (undisturbed, killed):
        shutil.copytree(source, folder)
    ended(undisturbed, command)  # Twice: it reports what was there already.
    began_s = time.monotonic()
    expected = ended(undisturbed, command)
    took_s = time.monotonic() - began_s
    random = np.random.default_rng(len(name))
    deaths = 0
    while deaths < KILLS:
        process = start(killed, command)
        time.sleep(took_s * random.uniform(0.1, 1.0))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            deaths += 1
            process.wait(PATIENCE_S)
        else:
            # It was through before it was killed: from the beginning.
            shutil.rmtree(killed)
            shutil.copytree(source, killed)
    ended(killed, command)
    assert ended(killed, command) == expected
