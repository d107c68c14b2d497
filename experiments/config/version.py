"""Versions of the scenario schema: what is said to a file that was made for another one.

There is one version so far. A second one brings what turns tables of the first into its own, and
this is where it belongs: `check_version` runs before anything else looks at the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CURRENT_VERSION = 1


def version_mistake(tables: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the version of a scenario's tables; None if nothing is.

    A scenario without a version is taken for one of the current version.
    """
    stated = tables.get("version", CURRENT_VERSION)
    if type(stated) is int and stated == CURRENT_VERSION:
        return None
    if type(stated) is int and stated > CURRENT_VERSION:
        return (
            f"made for a newer Faultline: this one knows version {CURRENT_VERSION} of scenarios; "
            "update Faultline"
        )
    return f"there is no such version of scenarios; write version = {CURRENT_VERSION}"
