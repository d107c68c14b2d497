"""A digest of the source that decides what comes out of a run."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

_PACKAGES = ("platforms", "simulator", "strategies")
_FIRST = "single_run.py"
_DATA = {".csv", ".py", ".toml", ".xml"}


def code_digest() -> str:
    """Return a digest of the simulation's source files and tables, of those that are imported.

    Covered are the packages `platforms`, `simulator` and `strategies`, and of `experiments` the
    module `single_run`, which leads from a scenario to a record, with all that it imports. The
    others only carry records about, and may change while a sweep is under way.
    """
    experiments = _root("experiments")
    sources = [(path.relative_to(experiments.parent), path) for path in _imported(experiments)]
    for package in _PACKAGES:
        root = _root(package)
        sources += [(path.relative_to(root.parent), path) for path in _below(root)]
    digest = hashlib.sha256()
    for name, path in sorted(sources):
        content = path.read_bytes()
        digest.update(f"{name.as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def _root(package: str) -> Path:
    return Path(str(files(package)))


def _below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.suffix in _DATA)


def _imported(experiments: Path) -> set[Path]:
    """Return the files of `experiments` that its first module imports, directly or not."""
    found: set[Path] = set()
    waiting = [experiments / _FIRST]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix == ".py":
            # Tables that lie beside a module, such as the shipped mixes, are read by it.
            waiting += [data for data in path.parent.glob("*") if data.suffix in _DATA - {".py"}]
            for module in _modules_named_in(path.read_bytes()):
                below = experiments.joinpath(*module.split(".")[1:])
                waiting += [*_below(below)] if below.is_dir() else _if_there(below)
    return found


def _if_there(module: Path) -> list[Path]:
    path = module.with_suffix(".py")
    return [path] if path.is_file() else []


@lru_cache
def _modules_named_in(source: bytes) -> list[str]:
    """Return what may be a module of `experiments`; what is imported from one may be one, too."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.startswith("experiments.")]
