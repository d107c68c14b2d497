"""The keys of a file's schema, table by table, and which of them somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

KeyPath = tuple[str, ...]
Schema = type[BaseModel]

_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a schema.

    Attributes
    ----------
    path : tuple of str
        Its parts, from the outermost table.
    field : FieldInfo
        What the schema says of it.
    tables : tuple of models
        What may stand below it; empty where it has a value, several where it is a list or a
        choice of tables.
    """

    path: KeyPath
    field: FieldInfo
    tables: tuple[Schema, ...]

    @property
    def dotted(self) -> str:
        """The key as ``--set`` takes it."""
        return ".".join(self.path)


@cache
def schema_keys(schema: Schema) -> dict[KeyPath, Key]:
    """Return every table and key of a schema by its path, in the schema's order."""
    keys: dict[KeyPath, Key] = {}
    for key in _keys_below(schema, ()):
        keys.setdefault(key.path, key)
    return keys


def schema_path(location: Sequence[str | int], schema: Schema) -> KeyPath:
    """Return the path of a place in a file, without what is no part of a path in the schema.

    That is positions in lists, and names of the members of a union. The last part is kept, also
    where it is unknown.
    """
    keys = schema_keys(schema)
    path: KeyPath = ()
    for part in location[:-1]:
        if isinstance(part, str) and (*path, part) in keys:
            path = (*path, part)
    return (*path, *map(str, location[-1:]))


def remedy_for(path: KeyPath, schema: Schema) -> str:
    """Return what to do about an unknown key: the likely ones, or all there are in its table."""
    likely = likely_keys(path, schema)
    if likely:
        return f"did you mean {' or '.join(repr(key) for key in likely)}?"
    keys = schema_keys(schema)
    siblings = [key.dotted for key in keys.values() if key.path[:-1] == path[:-1]]
    siblings = siblings or [key.dotted for key in keys.values() if len(key.path) == 1]
    return f"use one of {', '.join(siblings)}"


def likely_keys(path: KeyPath, schema: Schema) -> list[str]:
    """Return the dotted keys that an unknown one may stand for, of the likeliest kind only.

    Those are, in this order: keys of the same name in other tables, keys of the same table with a
    similar name, keys of similar tables with a similar name, keys of a similar name anywhere.
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
    else:
        for part in get_args(annotation):
            yield from _models_in(part)


def value_at(table: BaseModel, path: KeyPath) -> Any:
    """Return what stands at a path below a table; None where nothing does."""
    value: Any = table
    for part in path:
        value = getattr(value, part, None)
    return value
