"""Read specs from TOML text, with errors that name the file, the line and the key.

A spec may also have keys that the command line changes, or come from a platform file's properties.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from faultline.platforms import xml_names
from faultline.platforms.errors import KeyedError, PlatformError, nearest
from faultline.platforms.files import MEBIBYTE, read_text
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.toml_lines import line_of, load_toml
from pydantic import BaseModel, ValidationError

_Location = tuple[str | int, ...]


def load_spec(path: str | Path, overrides: Mapping[str, object] | None = None) -> ClusterSpec:
    """Read a cluster spec from a TOML file; `overrides` change some of its keys.

    Raises
    ------
    PlatformError
        The file is missing, is no TOML, or has a wrong value. The message names file, line and key.
    """
    mapping, text = read_toml(path)
    if not overrides:
        return spec_from_mapping(mapping, str(path), text)
    # No text, hence no line numbers: they would point to a replaced value.
    where = f"{path} with {', '.join(f'{key}={value}' for key, value in overrides.items())}"
    return spec_from_mapping(with_overrides(mapping, overrides, where), where)


def read_toml(path: str | Path) -> tuple[dict[str, Any], str]:
    """Return the tables of a TOML file and its text."""
    try:
        text = read_text(path, MEBIBYTE)
    except OSError as error:
        raise PlatformError(f"cannot be read: {error.strerror}", str(path)) from None
    return _tables(text, str(path)), text


def parse_spec(text: str, where: str = "spec") -> ClusterSpec:
    """Read a cluster spec from TOML text; `where` is its name in error messages."""
    return spec_from_mapping(_tables(text, where), where, text)


def _tables(text: str, where: str) -> dict[str, Any]:
    try:
        return load_toml(text)
    except (ValueError, OverflowError, RecursionError) as error:
        raise PlatformError(f"is no TOML: {error}", where) from None


def spec_from_mapping(mapping: Mapping[str, Any], where: str, text: str = "") -> ClusterSpec:
    """Check the nested dictionaries of a TOML file and return their spec.

    `where` names the source in error messages, and `text` has the lines of its keys if known.
    """
    try:
        return ClusterSpec.model_validate(dict(mapping))
    except ValidationError as error:
        location, what = _explain(error)
    line = line_of(text, location)
    place = where if line is None else f"{where}:{line}"
    key = ".".join(str(part) for part in location)
    # A message that begins with a verb continues the key.
    colon = "" if what.startswith(("is ", "has ", "makes ", "lead ")) else ":"
    raise PlatformError(f"{key}{colon} {what}", place)


def known_keys(
    table: type[BaseModel] = ClusterSpec, prefix: str = ""
) -> dict[str, type[BaseModel] | None]:
    """Return the dotted name of every key of a spec, with the model of those that are tables."""
    keys: dict[str, type[BaseModel] | None] = {}
    for name, info in table.model_fields.items():
        dotted = prefix + (info.alias or name)
        below = _model_of(info.annotation)
        keys[dotted] = below
        if below is not None:
            keys.update(known_keys(below, dotted + "."))
    return keys


def _model_of(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _explain(error: ValidationError) -> tuple[_Location, str]:
    """Return the place and the explanation of the first error, unknown keys before missing ones."""
    first = min(error.errors(), key=lambda mistake: mistake["type"] != "extra_forbidden")
    location: _Location = first["loc"]
    kind = first["type"]
    if kind == "extra_forbidden":
        parent = "".join(f"{part}." for part in location[:-1])
        siblings = {
            key.removeprefix(parent)
            for key in known_keys()
            if key.startswith(parent) and "." not in key.removeprefix(parent)
        }
        hint = nearest(str(location[-1]), siblings)
        return location, "is unknown" + (hint or f": known are {', '.join(sorted(siblings))}")
    if kind == "missing":
        if known_keys().get(".".join(str(part) for part in location)) is not None:
            return location, "is missing: the file needs a table of this name"
        return location, "is missing"
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, KeyedError):
        return cause.key, str(cause)
    if isinstance(cause, ValueError):
        return location, str(cause)
    message = first["msg"][:1].lower() + first["msg"][1:]
    return location, f"{first['input']!r} is wrong: {message}"


def with_overrides(
    mapping: Mapping[str, Any], overrides: Mapping[str, object], where: str
) -> dict[str, Any]:
    """Return the tables of a spec with new values.

    A key is dotted (``nic.bandwidth``), or short (``domains``) if only one table has a key of that
    name. ``groups`` is ``scale_up.domains`` in planes.
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
    """Read ``key=value`` texts; a value is TOML (``4``, ``[2, 3]``) or else plain text."""
    overrides: dict[str, object] = {}
    for setting in settings:
        key, equals, text = (part.strip() for part in setting.partition("="))
        if not equals or not key:
            raise PlatformError("write key=value, for example domains=4", f"--set {setting}")
        overrides[key] = _toml_value(text)
    return overrides


def _toml_value(text: str) -> object:
    """Return a TOML value, or the text itself if it is none, such as ``400Gbps``."""
    try:
        return load_toml(f"value = {text}")["value"]
    except (ValueError, OverflowError, RecursionError):
        return text


def _full_key(key: str, where: str, is_plane: bool) -> str:
    if key == "groups" and is_plane:
        return "scale_up.domains"
    leaves = [name for name, table in known_keys().items() if table is None]
    if key in leaves:
        return key
    candidates = [leaf for leaf in leaves if leaf.rpartition(".")[2] == key]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise PlatformError(f"key {key!r} is ambiguous: write {' or '.join(candidates)}", where)
    short = {leaf.rpartition(".")[2] for leaf in leaves}
    raise PlatformError(f"key {key!r} is unknown{nearest(key, {*leaves, *short})}", where)


_LISTS = {"scale_out.oversubscription", "scale_out.failed_spines"}
_TEXTS = {"name", "description", "source", "gpu.name"}


def spec_properties(spec: ClusterSpec) -> Iterator[tuple[str, str]]:
    """Yield name and value of the properties that keep a spec in the XML."""
    yield xml_names.VERSION_PROPERTY, xml_names.FORMAT_VERSION
    yield xml_names.GPUS_PER_RANK_PROPERTY, str(spec.gpus_per_rank)
    for key, value in _flat(spec.as_mapping()):
        yield xml_names.SPEC_PROPERTY_PREFIX + key, value


def spec_from_properties(properties: Mapping[str, str], where: str) -> ClusterSpec | None:
    """Return the spec kept in properties, or None if there is none."""
    mapping: dict[str, Any] = {}
    for name, text in properties.items():
        if not name.startswith(xml_names.SPEC_PROPERTY_PREFIX):
            continue
        key = name.removeprefix(xml_names.SPEC_PROPERTY_PREFIX)
        *tables, last = key.split(".")
        table: Any = mapping
        for part in tables:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                what = f"{part} is a value in another property; remove one of them"
                raise PlatformError(f"property {name!r}: {what}", where)
        table[last] = _value(key, text)
    return spec_from_mapping(mapping, where) if mapping else None


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, bool):
            yield prefix + key, str(value).lower()
        elif isinstance(value, (list, tuple)):
            yield prefix + key, " ".join(f"{item:g}" for item in value)
        else:
            yield prefix + key, str(value)


def _value(key: str, text: str) -> object:
    """Return the TOML value of a property's text."""
    if key in _LISTS:
        return [_toml_value(item) for item in text.split()]
    return text if key in _TEXTS else _toml_value(text)
