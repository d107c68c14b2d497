"""The name of the distribution on PyPI, where "faultline" is another project."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

DISTRIBUTION = "faultline-sim"


@cache
def own_version() -> str:
    """Return the installed version of Faultline."""
    return version(DISTRIBUTION)


def with_extra(extra: str) -> str:
    """Return the command that installs an optional part of Faultline."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
