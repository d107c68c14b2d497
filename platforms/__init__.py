"""Clusters: their specs, and the SimGrid platforms that are written from them and read back.

This package does not import SimGrid: `simgrid_check` runs it in a separate process.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultline.platforms.xml_reader import read_platform as read_platform


def __getattr__(name: str) -> object:
    if name != "read_platform":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported when first used, since most commands read no platform.
    from faultline.platforms.xml_reader import read_platform

    return read_platform
