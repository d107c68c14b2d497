"""The program works with the wheel that pip builds from PyPI's source of SimGrid, too."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.child_processes import run_python
from tests.experiments.command_line import in_a_process

pytestmark = pytest.mark.system

IMPORT = "import simgrid; print(simgrid.__file__)"
FIND = "from faultline.platforms.simgrid_library import find_simgrid_library as find; find(); "
UNPATCHED = "UNPATCHED_SIMGRID"
RUN = ("run", "llama3-70b-stress", "--set", "job.steps=2", "--set", "failures.mtbf_s=30")


@pytest.fixture
def without_rpath(tmp_path: Path) -> Path:
    """Return a folder with SimGrid's module and library; the module looks elsewhere for it."""
    found = find_spec("simgrid")
    assert found is not None
    assert found.origin is not None
    module = Path(found.origin)
    folder = tmp_path / "wheel"
    folder.mkdir()
    for library in module.parent.glob("libsimgrid.so.*"):
        shutil.copy(library, folder)
    content = module.read_bytes()
    (folder / module.name).write_bytes(content.replace(b"$ORIGIN", b"/no/way"))
    return folder


def with_simgrid_of(folder: Path, cache: Path) -> Mapping[str, str]:
    inherited = {name: text for name, text in os.environ.items() if name != "LD_LIBRARY_PATH"}
    return {**inherited, "PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(cache)}


def test_the_library_is_found_beside_the_module(without_rpath: Path, tmp_path: Path) -> None:
    environment = with_simgrid_of(without_rpath, tmp_path)
    alone = run_python("-c", IMPORT, env=environment)
    assert "cannot open shared object file" in alone.stderr
    found = run_python("-c", FIND + IMPORT, env=environment)
    assert found.stdout.startswith(str(without_rpath)), found.stderr


def test_commands_find_the_library(without_rpath: Path, tmp_path: Path) -> None:
    environment = with_simgrid_of(without_rpath, tmp_path)
    small = ("--set", "job.groups=4", "--set", "job.gpus=32", "--set", "times.compute_s=1.0")
    command = ("run", "spare-sound", "--set", "platform.file=hgx-h100", *small)
    done = in_a_process(*command, "--set", "job.steps=2", "--engine", "simgrid", env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(UNPATCHED not in os.environ, reason=f"{UNPATCHED} names no wheel")
@pytest.mark.parametrize("engine", ["replay", "simgrid"])
def test_an_unpatched_simgrid_gives_the_same_record(engine: str, tmp_path: Path) -> None:
    """UNPATCHED_SIMGRID is the path that ``.ci/setup --unpatched`` prints."""
    folder = tmp_path / "wheel"
    with ZipFile(os.environ[UNPATCHED]) as wheel:
        wheel.extractall(folder)
    records = [
        json.loads(in_a_process(*RUN, "--engine", engine, "--json", env=environment).stdout)
        for environment in (
            {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "patched")},
            with_simgrid_of(folder, tmp_path / "unpatched"),
        )
    ]
    assert records[0] == records[1]
