"""Schemes, protections and mixes of packages and of files: used, or named and left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.plugins.scheme_package import write_scheme_package

from tests.child_processes import output_of_python
from tests.experiments.command_line import in_a_process

pytestmark = pytest.mark.system

SMALL = ["--set", "job.groups=24", "--set", "job.steps=30"]

_MIX = """
description = "Fans"
source = "our own count"

[observed]
gpus = 1024
span = "30d"

[[cause]]
name = "fan"
count = 3
level = "host"
kind = "hardware"
repair = "3h"
"""


def faultline(*words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command with a folder on Python's path, as if what is in it were installed."""
    before = os.environ.get("PYTHONPATH", "")
    places = os.pathsep.join(filter(None, [str(path) if path else "", before]))
    return in_a_process(*words, env={**os.environ, "PYTHONPATH": places})


def install(folder: Path, entry_points: str) -> None:
    """Leave beside the code what pip would leave of its metadata."""
    info = folder / "plugged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.mark.slow
def test_its_own_test_passes(tmp_path: Path) -> None:
    write_scheme_package("twin-pairs", tmp_path)
    before = os.environ.get("PYTHONPATH", "")
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), before])}
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path)
    printed = output_of_python(*words, "-s", cwd=tmp_path, env=path)
    assert "2 passed" in printed
    assert "  engines agree          replay and SimGrid have the same events" in printed


@pytest.mark.parametrize("name", ["spare", "two words"])
def test_a_package_of_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError):
        write_scheme_package(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_package_is_not_written_over_another(tmp_path: Path) -> None:
    write_scheme_package("twin-pairs", tmp_path)
    with pytest.raises(UserError, match="exists already"):
        write_scheme_package("twin-pairs", tmp_path)


def test_what_is_broken_is_named_and_breaks_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text("x = 1 / 0\n")
    (tmp_path / "thief.py").write_text(
        "from faultline.strategies.schemes.checkpoint import Checkpoint\n"
        "class Mine(Checkpoint):\n    name = 'spare'\n    summary = 'not SPARe'\n"
        "class Loud(Checkpoint):\n    name = 'LOUD!'\n    summary = 'loud'\n"
        "class NoOptions(Checkpoint):\n    name = 'none'\n    summary = 's'\n    Options = dict\n"
        "class OddOptions(Checkpoint.Options):\n    unknown: Checkpoint\n"
        "class Odd(Checkpoint):\n    name = 'odd'\n    summary = 's'\n    Options = OddOptions\n"
    )
    install(
        tmp_path,
        "[faultline.schemes]\nhalf=half:Half\nthief=thief\nabsent=nowhere:X\nnumber=math:pi\n"
        "[faultline.protections]\nbad=thief:Mine\n[faultline.mixes]\nfans=nowhere\n",
    )
    done = faultline("list", "mixes", "--json", path=tmp_path)
    assert done.returncode == 0
    assert {mix["name"] for mix in json.loads(done.stdout)} == {
        "llama3",
        "rsc-1",
        "llama3-kinds",
        "rsc-1-kinds",
        "rsc-2",
    }
    printed = done.stderr.splitlines()
    for words in (
        "half of plugged (half:Half) is left out: ZeroDivisionError",
        "absent of plugged (nowhere:X) is left out: ModuleNotFoundError",
        "number of plugged (math:pi) is left out: TypeError: has no subclass of Strategy",
        "thief of plugged (thief) is left out: 'spare' is the name of "
        "strategies/schemes/spare/spare.py",
        "Loud.name is 'LOUD!': use small letters",
        "NoOptions.Options is not a subclass of StrategyOptions",
        "thief of plugged (thief) is left out: PydanticSchemaGenerationError",
        "bad of plugged (thief:Mine) is left out: TypeError: has no subclass of Protection",
        "fans (nowhere) is left out: there is no fans.toml in that package",
    ):
        assert sum(words in line for line in printed) == 1, words
    assert len(printed) == 9


@pytest.mark.slow
def test_a_mix_of_a_package_is_one_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "__init__.py").touch()
    (tmp_path / "ours" / "fans.toml").write_text(_MIX)
    install(tmp_path, "[faultline.mixes]\nfans=ours\n")
    done = faultline("list", "mixes", "--json", path=tmp_path)
    assert "fans" in {mix["name"] for mix in json.loads(done.stdout)}, done.stderr
    arguments = ["--set", "failures.model=mix", "--set", "failures.mix=fans", *SMALL, "--json"]
    hashes = []
    for count in (3, 30):
        (tmp_path / "ours" / "fans.toml").write_text(_MIX.replace("= 3\n", f"= {count}\n"))
        simulated = faultline("run", "spare-sound", *arguments, path=tmp_path)
        assert simulated.returncode == 0, simulated.stderr
        hashes.append(json.loads(simulated.stdout)["scenario_hash"])
    assert hashes[0] != hashes[1], "an edited mix is another scenario"


@pytest.mark.slow
def test_a_scheme_of_a_file_is_simulated_everywhere(tmp_path: Path) -> None:
    """Here, in processes of their own, and in SimGrid's; the file counts as code of the results."""
    write_scheme_package("twin-pairs", tmp_path / "package")
    file = tmp_path / "mine.py"
    text = (tmp_path / "package" / "faultline_twin_pairs" / "__init__.py").read_text()
    file.write_text(text)
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'scenario = "spare-study"\nseeds = 1\n[set]\njob = {groups = 24, steps = 20}\n'
        '[grid]\n"strategy.name" = ["spare", "twin-pairs"]\n'
    )
    sweep = ["--scheme-file", str(file), "sweep", str(grid), "-o", str(tmp_path / "kept.sqlite")]
    done = faultline(*sweep)
    assert done.returncode == 0, done.stderr
    assert "2 runs simulated, 0 already there, 0 failed" in done.stdout
    arguments = ["run", "spare-sound", "--set", "strategy.name=twin-pairs", *SMALL]
    simulated = faultline("--scheme-file", str(file), *arguments, "--engine", "simgrid")
    assert "time-to-train ratio" in simulated.stdout, simulated.stderr
    file.write_text(text + "# changed\n")
    assert "were made by other code" in faultline(*sweep).stderr


MINE = """
from faultline.strategies.schemes.checkpoint import Checkpoint
class Mine(Checkpoint):
    name, summary, title = "mine", "As checkpoint only", "Mine"
"""


def test_a_scheme_file_may_import_the_check_of_its_tests(tmp_path: Path) -> None:
    """It is imported while Faultline still looks for schemes."""
    file = tmp_path / "mine.py"
    file.write_text("from faultline.testing import SchemeError, check_scheme\n" + MINE)
    arguments = ["run", "spare-study", "--set", "strategy.name=mine", *SMALL, "--json"]
    done = faultline("--scheme-file", str(file), *arguments)
    assert json.loads(done.stdout)["strategy"] == "mine", done.stderr
    assert "left out" not in done.stderr


def test_of_two_scheme_files_of_one_name_the_first_is_used(tmp_path: Path) -> None:
    files = tmp_path / "mine.py", tmp_path / "yours.py"
    for file in files:
        file.write_text(MINE)
    named = ["--scheme-file", str(files[0]), "--scheme-file", str(files[1])]
    arguments = ["run", "spare-study", "--set", "strategy.name=mine", *SMALL, "--json"]
    done = faultline(*named, *arguments)
    assert json.loads(done.stdout)["strategy"] == "mine"
    taken = f"'mine' is the name of {files[0]}, choose another"
    assert f"faultline: {files[1]} is left out: {taken}\n" in done.stderr


_NOTEBOOK = """
import faultline
from faultline.strategies.interface.scheme import StrategyOptions
from faultline.strategies.schemes.checkpoint import Checkpoint
from pydantic import Field

@faultline.register
class Mine(Checkpoint):
    \"\"\"As checkpoint only.\"\"\"
    name, summary, title = "mine", "As checkpoint only", "Mine"

    class Options(StrategyOptions):
        depth: int = Field(3, description="Of nothing")

if __name__ == "__main__":
    small = {"job__groups": 24, "job__steps": 30, "strategy__mine__depth": 4}
    runs = faultline.sweep("spare-study", {"strategy.name": ["mine"]}, seeds=2, **small)
    print(*runs["error"].isna(), *runs["strategy"].unique())
    one = {"strategy__name": "mine", "engine": "simgrid", **small}
    print(faultline.run("spare-sound", **one)["strategy"])
    class Mine(Checkpoint):
        name, summary = "mine", "Defined again, as in a cell that runs twice"
    faultline.register(Mine)
    del small["strategy__mine__depth"]
    print(faultline.run("spare-sound", strategy__name="mine", **small)["strategy"])
    class Spare(Checkpoint):
        name = "spare"
    faultline.register(Spare)
"""


def test_a_registered_scheme_is_simulated_everywhere(tmp_path: Path) -> None:
    """Here, in workers and in SimGrid's processes; only a shipped name stays as it is."""
    script = tmp_path / "script.py"
    script.write_text(_NOTEBOOK)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout.splitlines() == ["True True mine", "mine", "mine"], done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.endswith(
        "UserError: register(Spare): 'spare' is the name of another; change the class"
    )


def test_a_scheme_file_that_is_not_there_is_reported() -> None:
    done = faultline("--scheme-file", "nowhere.py", "list", "scenarios")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("faultline: --scheme-file nowhere.py: no such file")


def test_a_scheme_file_is_never_taken_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine:other.py").write_text("")
    (tmp_path / "other.py").write_text("print('ran')")
    done = faultline("--scheme-file", "mine:other.py", "list", "scenarios")
    assert (done.returncode, done.stdout) == (2, "")
    assert "has ':' in its absolute path; rename or move it" in done.stderr
