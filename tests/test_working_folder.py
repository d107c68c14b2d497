"""Nothing runs or obeys what lies in the folder that it is started in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faultline.platforms import child_python
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml

from tests.child_processes import output_of_python, run_python

pytestmark = pytest.mark.system

SHADOWS = ("json", "simgrid", "multiprocessing", "numpy", "faultline")
COMMAND = "from faultline.experiments.cli import main; sys.exit(main(sys.argv[1:]))"
SWEEP = 'scenario = "spare-study"\nseeds = 1\n[set]\njob.steps = 5\njob.groups = 12\n'
CHILDREN: dict[str, tuple[str, ...]] = {
    "platform check": (COMMAND, "platform", "check", "../cluster.xml"),
    "doctor": (COMMAND, "doctor"),
    "engine": (
        *(COMMAND, "run", "spare-sound", "--engine", "simgrid", "--set", "job.steps=2"),
        *("--set", "job.groups=4"),
    ),
    "sweep": (COMMAND, "sweep", "../grid.toml", "-o", "../out.sqlite", "--workers", "1"),
}


def run_beside_shadows(folder: Path, code: str, *words: str) -> None:
    """Run a script in a folder of shadow modules; the script is elsewhere, as a command is."""
    work = folder / "work"
    work.mkdir()
    for name in SHADOWS:
        code_of_shadow = f"open({str(folder / 'ran')!r}, 'a').write('{name} ')\n"
        (work / f"{name}.py").write_text(code_of_shadow, encoding="utf-8")
    (folder / "bin").mkdir()
    script = folder / "bin" / "command.py"
    script.write_text(f"import sys\n{code}\n", encoding="utf-8")
    cache = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    ended = run_python(script, *words, cwd=work, env=cache)
    ran = folder / "ran"
    assert not ran.exists(), ran.read_text(encoding="utf-8")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("kind", CHILDREN)
def test_no_child_imports_from_the_working_folder(kind: str, tmp_path: Path) -> None:
    write_xml(load_preset("hgx-h100", domains=2), tmp_path / "cluster.xml")
    (tmp_path / "grid.toml").write_text(SWEEP, encoding="utf-8")
    run_beside_shadows(tmp_path, *CHILDREN[kind])


def test_no_figure_obeys_the_working_folder(tmp_path: Path) -> None:
    figures = []
    for name, written in (("without", None), ("with", b"text.usetex: True\nfont.size: -3\n")):
        folder = tmp_path / name
        folder.mkdir()
        if written is not None:
            (folder / "matplotlibrc").write_bytes(written)
        words = ("failures", "draw", "llama3", "--days", "1", "-o", "drawn.png")
        output_of_python("-P", "-c", f"import sys; {COMMAND}", *words, cwd=folder)
        figures.append((folder / "drawn.png").read_bytes())
    assert figures[0] == figures[1]


@pytest.mark.parametrize("flag", ["-P", "-I"])
def test_each_pythons_flag_leaves_the_working_folder_out(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.10 has no ``-P``."""
    (tmp_path / "json.py").write_text("raise SystemExit(7)", encoding="utf-8")
    monkeypatch.setattr(child_python, "_SAFE_PATH", flag)
    with child_python.helpers_on_safe_path():
        from multiprocessing import util

        flags = vars(util)["_args_from_interpreter_flags"]()
    assert flags[-1] == flag
    assert vars(util)["_args_from_interpreter_flags"]()[-1:] != [flag]
    for command in (
        child_python.python_command("import json, faultline.platforms"),
        [sys.executable, *flags, "-c", "import json"],
    ):
        assert subprocess.run(command, cwd=tmp_path, timeout=60, check=False).returncode == 0
