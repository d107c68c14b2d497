"""Clusters that come with Faultline, by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from platforms.errors import PlatformError, nearest
from platforms.spec import ClusterSpec
from platforms.spec_file import known_keys, spec_from_mapping

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_DIRECTORY = Path(__file__).parent / "presets"


def preset_names() -> list[str]:
    """Return the names of all presets, sorted."""
    return sorted(file.stem for file in _DIRECTORY.glob("*.toml"))


def load_preset(name: str, **overrides: object) -> ClusterSpec:
    """Return the spec of a preset, with some of its keys changed.

    Parameters
    ----------
    name
        One of `preset_names`.
    **overrides
        New values, as they would stand in the TOML file. A key is dotted (``**{"nic.bandwidth":
        "800Gbps"}``) or, where only one table has a key of that name, short (``domains=4``).
        ``groups`` is another name of ``scale_up.domains`` for planes.

    Raises
    ------
    PlatformError
        No preset of this name, an unknown or ambiguous key, or a value that is wrong.

    Examples
    --------
    >>> load_preset("spare-600k", groups=600).gpus_per_rank
    1000
    """
    if name not in preset_names():
        raise PlatformError(
            f"no preset is called {name!r}{nearest(name, preset_names())}: "
            f"there are {', '.join(preset_names())}"
        )
    text = (_DIRECTORY / f"{name}.toml").read_text(encoding="utf-8")
    mapping: dict[str, Any] = tomllib.loads(text)
    for key, value in overrides.items():
        *tables, last = _full_key(key, name, "plane" in mapping).split(".")
        table = mapping
        for part in tables:
            table = table.setdefault(part, {})
        table[last] = value
    return spec_from_mapping(mapping, f"preset {name}")


def _full_key(key: str, preset: str, is_plane: bool) -> str:
    if key == "groups" and is_plane:
        return "scale_up.domains"
    leaves = [known for known, table in known_keys().items() if table is None]
    if key in leaves:
        return key
    found = [known for known in leaves if known.rpartition(".")[2] == key]
    if len(found) == 1:
        return found[0]
    where = f"preset {preset}"
    if found:
        raise PlatformError(f"key {key!r} is ambiguous: write {' or '.join(found)}", where)
    short = {known.rpartition(".")[2] for known in leaves}
    raise PlatformError(f"key {key!r} is unknown{nearest(key, {*leaves, *short})}", where)
