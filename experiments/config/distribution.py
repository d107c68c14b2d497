"""The name of the distribution: on PyPI "faultline" is another project."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

DISTRIBUTION = "faultline-sim"


@cache
def own_version() -> str:
    """Return the version of Faultline that is installed."""
    return version(DISTRIBUTION)


def with_extra(extra: str) -> str:
    """Return the command that installs what an optional part of Faultline needs."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
