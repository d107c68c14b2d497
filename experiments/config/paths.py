"""Paths in a scenario file are relative to that file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from faultline.experiments.config.mix_file import shipped_mixes
from faultline.platforms.preset_library import preset_names


def resolve_paths(tables: dict[str, Any], directory: Path) -> None:
    """Make the paths in the tables of a scenario file relative to the working directory.

    Names of shipped clusters and mixes, and absolute paths, stay as they are.

    Parameters
    ----------
    tables : dict
        Nested tables as read; changed in place. Values that are no text are left to the schema.
    directory : Path
        Where the scenario file is.
    """
    shipped: dict[tuple[str, str], Collection[str]] = {
        ("platform", "file"): preset_names(),
        ("failures", "mix"): shipped_mixes(),
        ("failures", "trace"): (),
    }
    for (table, key), names in shipped.items():
        inner = tables.get(table)
        stated = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and isinstance(stated, str) and stated not in names:
            inner[key] = str(directory / stated)
