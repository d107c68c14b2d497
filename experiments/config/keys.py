"""Keys of a schema: listing, finding the likely one, mistakes, setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, time
from difflib import get_close_matches
from functools import cache, partial
from typing import Any, get_args, get_origin

from faultline.experiments.config.errors import UserError
from faultline.platforms.errors import printable
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

KeyPath = tuple[str, ...]
Schema = type[BaseModel]

_LONGEST_NAME = 100


def path_of(dotted: str) -> KeyPath:
    """Return the parts of a key."""
    return tuple(dotted.split("."))


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a schema."""

    path: KeyPath  # Its parts, from the outermost table.
    field: FieldInfo  # Its declaration in the schema.
    # Schemas of the tables below it: none for a value, several for a choice of tables.
    tables: tuple[Schema, ...]

    @property
    def dotted(self) -> str:
        """The key as ``--set`` takes it."""
        return ".".join(self.path)


@cache
def schema_keys(schema: Schema) -> dict[KeyPath, Key]:
    """Return all tables and keys of a schema by their paths, in the order of the schema."""
    keys: dict[KeyPath, Key] = {}
    for key in _keys_below(schema, ()):
        keys.setdefault(key.path, key)
    return keys


def schema_path(location: Sequence[str | int], schema: Schema) -> KeyPath:
    """Return the path in the schema of a place in a file.

    Positions in lists and names of union members are left out. The last part is kept even if it is
    unknown.
    """
    keys = schema_keys(schema)
    path: KeyPath = ()
    for part in location[:-1]:
        if isinstance(part, str) and (*path, part) in keys:
            path = (*path, part)
    return (*path, *map(str, location[-1:]))


def remedy_for(path: KeyPath, schema: Schema) -> str:
    """Return the remedy for an unknown key: the likely ones, or all keys of its table."""
    likely = likely_keys(path, schema)
    if likely:
        return f"did you mean {' or '.join(repr(key) for key in likely)}?"
    keys = schema_keys(schema)
    siblings = [key.dotted for key in keys.values() if key.path[:-1] == path[:-1]]
    siblings = siblings or [key.dotted for key in keys.values() if len(key.path) == 1]
    return f"use one of {', '.join(siblings)}"


def likely_keys(path: KeyPath, schema: Schema) -> list[str]:
    """Return the known keys, dotted, that an unknown key most likely means.

    The first kind that has any counts: keys of the same name in other tables, keys of the same
    table with a similar name, keys with a similar path, keys with a similar name anywhere.
    """
    if not path or len(path[-1]) > _LONGEST_NAME:
        return []
    keys = schema_keys(schema)
    *above, name = path
    if same := [key.dotted for key in keys.values() if key.path[-1] == name]:
        return same
    siblings = [key.path[-1] for key in keys.values() if key.path[:-1] == tuple(above)]
    if close := get_close_matches(name, siblings, n=1):
        return [".".join((*above, *close))]
    if close := get_close_matches(".".join(path), [key.dotted for key in keys.values()], n=1):
        return close
    names = {key.path[-1] for key in keys.values()}
    close = get_close_matches(name, sorted(names), n=1, cutoff=0.75)
    return [key.dotted for key in keys.values() if key.path[-1] in close]


def _keys_below(schema: Schema, path: KeyPath) -> Iterator[Key]:
    for name, field in schema.model_fields.items():
        tables = tuple(_models_in(field.annotation))
        yield Key((*path, name), field, tables)
        for table in tables:
            yield from _keys_below(table, (*path, name))


def _models_in(annotation: Any) -> Iterator[Schema]:
    """Yield the models that an annotation mentions: itself, in a list, or as one of a choice."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not dict:  # The schema does not know the keys of a dict.
        for part in get_args(annotation):
            yield from _models_in(part)


def value_at(table: BaseModel | Mapping[str, Any], path: KeyPath) -> Any:
    """Return the value at a path below a table or nested mappings; None if there is none."""
    value: Any = table
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
    return value


Location = tuple[str | int, ...]

_LONGEST_QUOTE = 60
_SUBJECT = re.compile(r"^(?:Input |String |List |Value error, )")
_PHRASES = {
    "model_type": "should be a table",
    "model_attributes_type": "should be a table",
    "list_type": "should be a list",
    "string_type": "should be text",
    "string_unicode": "should be text that can be printed",
    "bool_type": "should be true or false",
    "float_type": "should be a valid number",
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in the tables of a file."""

    # Path of the wrong key, with positions in lists; empty if no key is named.
    location: Location
    # Returns one line: the key, the mistake, the remedy. A function, since finding the likely key
    # is slow and few mistakes are printed.
    describe: Callable[[], str]


FORMULA = ("=", "+", "-", "@")
"""First characters of texts that a spreadsheet evaluates."""


def mistakes_in(error: ValidationError, schema: Schema) -> list[Mistake]:
    """Return all mistakes of tables by a schema."""
    return [
        Mistake(mistake["loc"], partial(_describe, mistake, schema))
        for mistake in error.errors(include_url=False)
    ]


def and_more(mistakes: int, at_least: str = "") -> str:
    """Return the number of further mistakes, for the end of a message."""
    return f" (and {at_least}{mistakes} more)" if mistakes else ""


def raise_first(mistakes: Sequence[str], most: int | None = None) -> None:
    """Raise UserError with the first mistake, if there is one, and the number of others.

    If there are more than `most`, there may be others that were not looked for.
    """
    if mistakes:
        at_least = "at least " if most is not None and len(mistakes) > most else ""
        raise UserError(mistakes[0] + and_more(len(mistakes) - 1, at_least))


def quote(value: object) -> str:
    """Return a value for a message: on one line, shortened if it is long."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    if isinstance(value, str):
        return _shortened(repr(value[: 2 * _LONGEST_QUOTE]))
    if isinstance(value, (int, float, date, time)):
        return str(value)
    return "a table" if isinstance(value, Mapping) else "a list"


def shown_path(location: Location) -> str:
    """Return a path for a message; positions in lists count from 1, in brackets."""
    name = ""
    for part in location:
        if isinstance(part, int):
            name += f"[{part + 1}]"
        else:
            name += ("." if name else "") + (part or '""')
    return _shortened(printable(name))


def _shortened(text: str) -> str:
    half = _LONGEST_QUOTE // 2
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:half]}…{text[-half:]}"


def _describe(mistake: Any, schema: Schema) -> str:
    location: Location = mistake["loc"]
    kind, given = mistake["type"], mistake["input"]
    key = shown_path(location)
    if kind == "extra_forbidden":
        return f"{key}: unknown key; {remedy_for(schema_path(location, schema), schema)}"
    if kind == "missing":
        return f"{key}: is missing"
    if kind == "prior":
        return f"{key}: {mistake['msg']}"
    what = _PHRASES.get(kind) or _SUBJECT.sub("", mistake["msg"])
    if kind == "literal_error" and isinstance(given, str):
        what += _likely_choice(given, mistake["ctx"]["expected"])
    if isinstance(given, Mapping) and kind == "value_error":
        # The message about a whole table names the mistake itself.
        return f"{key}: {what}" if key else what
    return f"{key} = {quote(given)}: {what}"


def _likely_choice(given: str, expected: str) -> str:
    choices = [choice for choice in expected.split("'") if choice.strip(" ,") not in ("", "or")]
    close = get_close_matches(given[:_LONGEST_QUOTE], choices, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def set_keys(
    tables: MutableMapping[str, Any], changes: Mapping[str, object], where: str = ""
) -> None:
    """Set values in nested tables by dotted keys; None leaves a key out.

    Raises UserError, which begins with `where`, if a part of a key is a value and no table.
    """
    try:
        for dotted, value in changes.items():
            _set_key(tables, dotted, deepcopy(value))
    except UserError as error:
        raise UserError(f"{where}{error}") from error


def _set_key(tables: MutableMapping[str, Any], dotted: str, value: object) -> None:
    *above, last = path_of(dotted)
    inner = tables
    for part in above:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise UserError(f"{dotted}: {part} is a value, not a table")
    if value is None:
        inner.pop(last, None)
    else:
        inner[last] = value
