"""The origin of a run: a digest of the simulation's source, and the versions that must agree."""

from __future__ import annotations

import hashlib
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from faultline.experiments.config.distribution import own_version
from faultline.strategies.plugins.registry import plugged_sources

_CODE = {".csv", ".py", ".toml", ".xml"}
# numpy may change its random streams between versions (NEP 19), scipy its special functions.
_VERSIONS = ("numpy", "scipy", "simgrid")
_OF_A_RUN = ("config/*.py", "config/logs/*", "config/mixes/*", "config/tables/*", "job/*")
_OF_A_STUDY = ("analysis/*", "planner/*", "studies/**/*")

RUN = "faultline.experiments.runs.single_run"
"""The module whose imports determine a record."""

Environment = dict[str, str]


def environment(source: str = RUN) -> Environment:
    """Return the versions that a result depends on, and a digest of its source."""
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "faultline": own_version(),
        **{package: version(package) for package in _VERSIONS},
        "source digest": code_digest(source),
    }


def difference(expected: Environment, found: Environment) -> str | None:
    """Return the first difference of two environments as text, or None if they agree."""
    for name, wanted in expected.items():
        if found.get(name) != wanted:
            return f"{name} is {found.get(name)} there, but {wanted} on the machine of the sweep"
    return None


def code_digest(source: str = RUN) -> str:
    """Return a digest of the source files and tables that a result of a module depends on.

    They are the packages `platforms`, `simulator` and `strategies`, the rooms of `experiments`
    below the module, and the files of plugged-in schemes and protections. Other files of
    `experiments` only pass records on, and may change during a sweep.
    """
    root = Path(str(files("faultline.experiments")))
    patterns = list(_OF_A_RUN)
    found = [root / "runs" / name for name in ("record.py", "single_run.py")]
    if source != RUN:
        patterns += _OF_A_STUDY
        found.append(Path(str(sys.modules[source].__file__)))
    found += [path for pattern in patterns for path in root.glob(pattern)]
    for package in ("platforms", "simulator", "strategies"):
        found += Path(str(files(f"faultline.{package}"))).rglob("*")
    contents = {f"plugged/{name}": content for name, content in plugged_sources()}
    for path in found:
        if path.suffix in _CODE:
            inside = path.is_relative_to(root.parent)
            name = path.relative_to(root.parent).as_posix() if inside else path.name
            contents[name] = path.read_bytes()
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:12]
