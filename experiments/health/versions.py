"""Which versions are installed, and whether they are those that Faultline asks for."""

from __future__ import annotations

import platform
import re
from importlib import metadata

from faultline.experiments.health.check import Check

_SECTION = "versions"
_REQUIREMENT = re.compile(r"^(?P<name>[\w.-]+)\s*(?:(?P<relation>==|>=)\s*(?P<version>[\d.]+))?$")
_REMEDY = "run: make setup"


def version_checks() -> list[Check]:
    """Look at Faultline, Python and every package that Faultline requires."""
    python = Check(_SECTION, "python", platform.python_version(), "ok", platform.platform())
    try:
        own = metadata.version("faultline")
        requirements = metadata.requires("faultline") or []
    except metadata.PackageNotFoundError:
        missing = Check(
            _SECTION, "faultline", "not installed", "failed", f"no package data; {_REMEDY}"
        )
        return [missing, python]
    # Those with a marker are for developers, or for other Pythons.
    always = [requirement for requirement in requirements if ";" not in requirement]
    return [
        Check(_SECTION, "faultline", own, "ok", ""),
        python,
        *(_package_check(requirement) for requirement in always),
    ]


def _package_check(requirement: str) -> Check:
    parts = _REQUIREMENT.match(requirement)
    name = parts["name"] if parts else requirement
    wanted = requirement.removeprefix(name) or "any version"
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(_SECTION, name, "missing", "failed", f"needs {name} {wanted}; {_REMEDY}")
    if parts and parts["version"] and not _satisfies(found, parts["relation"], parts["version"]):
        return Check(_SECTION, name, found, "failed", f"needs {name} {wanted}; {_REMEDY}")
    return Check(_SECTION, name, found, "ok", f"needs {wanted}")


def _satisfies(found: str, relation: str, wanted: str) -> bool:
    if relation == "==":
        return _release(found) == _release(wanted)
    return _release(found) >= _release(wanted)


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, without zeros at the end: 2.0rc1 is (2,)."""
    digits = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in digits.group().split(".")] if digits else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
