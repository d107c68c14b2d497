"""Some keys of a spec changed, as on the command line."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from faultline.platforms.errors import PlatformError, nearest
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_file import known_keys, load_spec, read_toml, spec_from_mapping

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def with_overrides(
    mapping: Mapping[str, Any], overrides: Mapping[str, object], where: str
) -> dict[str, Any]:
    """Return the tables of a spec with new values.

    Parameters
    ----------
    mapping
        Tables and keys as in a TOML file.
    overrides
        New values, as they would stand in the file. A key is dotted (``nic.bandwidth``) or, where
        only one table has a key of that name, short (``domains``). ``groups`` is another name of
        ``scale_up.domains`` for planes.
    where
        Name of the spec in error messages.

    Raises
    ------
    PlatformError
        A key is unknown or ambiguous.
    """
    changed = copy.deepcopy(dict(mapping))
    for key, value in overrides.items():
        *tables, last = _full_key(key, where, "plane" in mapping).split(".")
        table = changed
        for part in tables:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise PlatformError(f"{part} is a value, not a table", where)
        table[last] = value
    return changed


def read_settings(settings: Iterable[str]) -> dict[str, object]:
    """Read ``key=value`` texts; a value is TOML (``4``, ``[2, 3]``, ``true``) or else plain text.

    Raises
    ------
    PlatformError
        A text has no key or no equals sign.
    """
    overrides: dict[str, object] = {}
    for setting in settings:
        key, equals, text = (part.strip() for part in setting.partition("="))
        if not equals or not key:
            raise PlatformError("write key=value, for example domains=4", f"--set {setting}")
        try:
            overrides[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            overrides[key] = text
    return overrides


def load_spec_with(path: str | Path, overrides: Mapping[str, object]) -> ClusterSpec:
    """Read a spec from a TOML file, with some of its keys changed."""
    if not overrides:
        return load_spec(path)
    # Lines of the file would blame a value that is no longer there.
    where = f"{path} with {', '.join(f'{key}={value}' for key, value in overrides.items())}"
    mapping, _ = read_toml(path)
    return spec_from_mapping(with_overrides(mapping, overrides, where), where)


def _full_key(key: str, where: str, is_plane: bool) -> str:
    if key == "groups" and is_plane:
        return "scale_up.domains"
    leaves = [known for known, table in known_keys().items() if table is None]
    if key in leaves:
        return key
    found = [known for known in leaves if known.rpartition(".")[2] == key]
    if len(found) == 1:
        return found[0]
    if found:
        raise PlatformError(f"key {key!r} is ambiguous: write {' or '.join(found)}", where)
    short = {known.rpartition(".")[2] for known in leaves}
    raise PlatformError(f"key {key!r} is unknown{nearest(key, {*leaves, *short})}", where)
