"""What is installed: everything under the name ``faultline``, with all that it reads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import faultline as fl
import pytest

from tests.child_processes import output_of_python, run_program

pytestmark = pytest.mark.system

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
FOLDERS: dict[str, str] = SETUPTOOLS["package-dir"]


def folder_of(package: str) -> Path:
    """Return the folder that a package is installed from."""
    name, below = package, []
    while name not in FOLDERS:
        name, _, last = name.rpartition(".")
        below.insert(0, last)
    return ROOT.joinpath(FOLDERS[name], *below)


def shipped_files() -> set[str]:
    """Return every file in a package's folder or below, by the name it is installed under."""
    public = ROOT / FOLDERS["faultline"]
    found = {f"faultline/{file.name}" for file in public.iterdir() if file.is_file()}
    for package, folder in FOLDERS.items():
        if package != "faultline":
            found |= {
                f"{package.replace('.', '/')}/{file.relative_to(ROOT / folder).as_posix()}"
                for file in (ROOT / folder).rglob("*")
                if file.is_file() and public not in file.parents and "__pycache__" not in file.parts
            }
    return found


def test_every_folder_of_code_is_a_package_that_is_installed() -> None:
    listed = [folder_of(package) for package in SETUPTOOLS["packages"]]
    there = {file.parent for top in FOLDERS.values() for file in (ROOT / top).rglob("__init__.py")}
    assert set(listed) == there
    assert len(listed) == len(set(listed))


def test_no_code_stands_outside_of_a_package() -> None:
    """Setuptools would leave it out, and an editable install would not show it."""
    code = {file.parent for top in FOLDERS.values() for file in (ROOT / top).rglob("*.py")}
    assert all((folder / "__init__.py").is_file() for folder in code)


def test_the_version_stands_in_one_place_and_is_named_where_people_look() -> None:
    version = PROJECT["project"]["version"]
    assert fl.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "docs" / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = changes.partition("\n## ")[2]
    assert newest.startswith(version)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy: a build leaves its traces beside the sources."""
    source = tmp_path_factory.mktemp("source") / "faultline"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for top in {folder.partition("/")[0] for folder in FOLDERS.values()}:
        shutil.copytree(ROOT / top, source / top, ignore=shutil.ignore_patterns("__pycache__"))
    place = source.parent / "wheels"
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", place, source)
    (found,) = place.glob("faultline_sim-*.whl")
    return found


def pip(*words: object, python: Path = Path(sys.executable)) -> None:
    output_of_python("-m", "pip", "--python", python, "-q", *words)


@pytest.fixture(scope="module")
def faultline(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel, and nothing else of this project, beside our dependencies."""
    place = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    pip("install", "--no-deps", "--no-index", wheel, python=place / "bin" / "python")
    (site,) = place.glob("lib/python*/site-packages")
    # As a line of a .pth file it counts for itself, and its own .pth files, such as that of an
    # editable install, do not.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return place / "bin" / "faultline"


@pytest.mark.slow
def test_a_wheel_has_every_file_and_nothing_generic(wheel: Path) -> None:
    with ZipFile(wheel) as content:
        names = set(content.namelist())
    code = {name for name in names if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in code} == {"faultline"}
    assert code == shipped_files()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("run spare-study --set job.steps=50", "time-to-train ratio"),
        ("scenario show spare-study", 'name = "spare-study"'),
        ("platform generate hgx-h100 --set domains=2 -o p.xml", "p.xml: 16 GPUs"),
        ("list mixes", "llama3"),
        ("list studies", "spare"),
        ("run spare-study --set job.steps=50 -o run.png", "spare, r = 8"),
    ],
)
def test_an_installed_wheel_works_anywhere(
    faultline: Path, words: str, printed: str, tmp_path: Path
) -> None:
    """With a folder in its way that is called like one of ours."""
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").touch()
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = run_program(faultline, *words.split(), cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert printed in done.stdout
