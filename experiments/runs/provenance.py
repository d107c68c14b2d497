"""The origin of a run: a digest of the simulation's source, and the versions that must agree."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from faultline.experiments.config.distribution import own_version
from faultline.strategies.plugins.registry import plugged_sources

_PACKAGES = ("platforms", "simulator", "strategies")
_DATA = {".csv", ".py", ".toml", ".xml"}
# numpy may change its random streams between versions (NEP 19), scipy its special functions.
_VERSIONS = ("numpy", "scipy", "simgrid")

Environment = dict[str, str]


def environment() -> Environment:
    """Return the versions that a record depends on, and a digest of the simulation's source."""
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "faultline": own_version(),
        **{package: version(package) for package in _VERSIONS},
        "source digest": code_digest(),
    }


def difference(expected: Environment, found: Environment) -> str | None:
    """Return the first difference of two environments as text, or None if they agree."""
    for name, wanted in expected.items():
        if found.get(name) != wanted:
            return f"{name} is {found.get(name)} there, but {wanted} on the machine of the sweep"
    return None


def code_digest(source: str = "faultline.experiments.runs.single_run") -> str:
    """Return a digest of the source files and tables that a result depends on.

    The digest covers the packages `platforms`, `simulator` and `strategies`, the module `source` of
    `experiments` with all that it imports, and the files of plugged-in schemes and protections.
    Other files of `experiments` only pass records on, and may change during a sweep.
    """
    experiments = _root("experiments")
    faultline, package, *below = source.split(".")
    if (faultline, package) == ("faultline", "experiments"):
        first = experiments.joinpath(*below).with_suffix(".py")
    else:
        first = Path(str(sys.modules[source].__file__))
    sources = [
        (path.relative_to(experiments.parent) if path.is_relative_to(experiments) else path, path)
        for path in _imported(experiments, first)
    ]
    # Scenarios name shipped mixes of failures, so no import leads to these files.
    mixes = experiments / "config" / "mixes"
    sources += [(path.relative_to(experiments.parent), path) for path in _below(mixes)]
    for package in _PACKAGES:
        root = _root(package)
        sources += [(path.relative_to(root.parent), path) for path in _below(root)]
    contents = [(name.as_posix(), path.read_bytes()) for name, path in sources]
    contents += [(f"plugged/{name}", source) for name, source in plugged_sources()]
    digest = hashlib.sha256()
    for name, content in sorted(contents):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def _root(package: str) -> Path:
    return Path(str(files(f"faultline.{package}")))


def _below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.suffix in _DATA)


def _imported(experiments: Path, first: Path) -> set[Path]:
    """Return the files of `experiments` that a module imports, directly or not."""
    found: set[Path] = set()
    waiting = [first]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix == ".py":
            # A module reads the tables in its folder.
            if path.is_relative_to(experiments):
                waiting += [
                    file for file in path.parent.glob("*") if file.suffix in _DATA - {".py"}
                ]
            for module in _modules_named_in(path.read_bytes()):
                below = experiments.joinpath(*module.split(".")[2:])
                file = below.with_suffix(".py")
                waiting += [*_below(below)] if below.is_dir() else [file] * file.is_file()
    return found


@lru_cache
def _modules_named_in(source: bytes) -> list[str]:
    """Return the imported names that may be modules of `experiments`."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.startswith("faultline.experiments.")]
