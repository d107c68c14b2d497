"""Reading specs: from TOML text, with errors that name the file, the line and the key."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from faultline.platforms.errors import PlatformError, nearest
from faultline.platforms.files import MEBIBYTE, read_text
from faultline.platforms.quantity_fields import KeyedError
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.toml_lines import line_of
from pydantic import BaseModel, ValidationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_Location = tuple[str | int, ...]


def load_spec(path: str | Path) -> ClusterSpec:
    """Read a cluster spec from a TOML file.

    Raises
    ------
    PlatformError
        The file is missing, is no TOML, or says something wrong; the message names file, line and
        key.
    """
    mapping, text = read_toml(path)
    return spec_from_mapping(mapping, str(path), text)


def read_toml(path: str | Path) -> tuple[dict[str, Any], str]:
    """Return the tables of a TOML file and its text.

    Raises
    ------
    PlatformError
        The file is missing or is no TOML.
    """
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
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PlatformError(f"is no TOML: {error}", where) from None


def spec_from_mapping(mapping: Mapping[str, Any], where: str, text: str = "") -> ClusterSpec:
    """Check nested dictionaries as they come out of a TOML file.

    Parameters
    ----------
    mapping
        Tables and keys as in the file, quantities as text with units.
    where
        Name of the source in error messages.
    text
        The TOML text, to find the line of a key; may be empty.
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
    found = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    first = found[0]
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
