"""What must be the same wherever the runs of a sweep are played, for their records to agree."""

from __future__ import annotations

import sys
from importlib.metadata import version

from experiments.sweeps.code_digest import code_digest

# numpy may change its random streams between versions (NEP 19), scipy its special functions.
_PACKAGES = ("faultline", "numpy", "scipy", "simgrid")

Environment = dict[str, str]


def environment() -> Environment:
    """Return the versions that a record depends on, and a digest of the simulation's source."""
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        **{package: version(package) for package in _PACKAGES},
        "source digest": code_digest(),
    }


def difference(expected: Environment, found: Environment) -> str | None:
    """Say in which version two environments differ first, or return None where they agree."""
    for name, wanted in expected.items():
        if found.get(name) != wanted:
            return f"{name} is {found.get(name)} there, and {wanted} where the sweep was started"
    return None
