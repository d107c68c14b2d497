"""Keys of a schema: their documentation, likely ones for a wrong name, mistakes, new values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from copy import deepcopy
from dataclasses import astuple, dataclass
from difflib import get_close_matches
from functools import cache, cached_property, partial
from inspect import getdoc
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen
from faultline.experiments.config.errors import (
    LONGEST_QUOTE,
    Location,
    Mistake,
    UserError,
    quote,
    shown_path,
)
from faultline.experiments.config.numbers import plain, read_number, why_no_number
from faultline.experiments.config.tables.table import RegisteredTable
from faultline.experiments.config.toml_text import written
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

KeyPath = tuple[str, ...]
Schema = type[BaseModel]

_LONGEST_NAME = 100
_MOST_COUNTED = 1_000_000
_SENTENCE_END = re.compile(r"(?<=\.)\s+(?=[A-Z])")
_KINDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
}
_LIMITS: Mapping[type, str] = {
    Ge: "at least {}",
    Gt: "above {}",
    Le: "at most {}",
    Lt: "below {}",
    MaxLen: "at most {} characters",
}


def path_of(dotted: str) -> KeyPath:
    """Return the parts of a key."""
    return tuple(dotted.split("."))


@dataclass(frozen=True)
class Key:
    """A key or a table of a schema, with its documentation."""

    path: KeyPath  # Its parts, from the outermost table.
    field: FieldInfo  # Its declaration in the schema.
    # Schemas of the tables below it: none for a value, several for a choice of tables.
    tables: tuple[Schema, ...]
    # Condition of the table around it, as in `only_with`.
    condition: Mapping[str, list[str]]

    @property
    def dotted(self) -> str:
        """The key as ``--set`` takes it."""
        return ".".join(self.path)

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return bool(self.tables)

    @property
    def meaning(self) -> str:
        """A sentence or two."""
        return self.field.description or _docstring(self.tables)

    @property
    def summary(self) -> str:
        """The first sentence of the meaning, without its full stop and its unset value."""
        return first_sentence(self.meaning).removesuffix(".").partition("; unset: ")[0]

    @cached_property
    def kind(self) -> str:
        """Kind of value: "number", "choice", "table", ..."""
        return _kind(self.field.annotation)

    @property
    def is_number(self) -> bool:
        """Whether it holds one number."""
        return self.kind in ("number", "whole number")

    def number(self, value: Any) -> Any:
        """Return a value as `read_number` does if the key is numeric; others unchanged."""
        if not self.is_number:
            return value
        return read_number(value, self.unit, is_whole=self.kind == "whole number")

    @property
    def unit(self) -> str | None:
        """SI unit, "steps", or "1" for counts and ratios; None for names, choices, booleans."""
        unit: str | None = self._stated("unit")
        return unit

    @property
    def source(self) -> str:
        """Source of the default; begins with "choice" or "assumption" if it is not measured."""
        return self._stated("source") or ("" if self.tables else "choice of the scheme")

    @property
    def rule(self) -> str | None:
        """The field of `simulator.job.job.Rules` that it sets."""
        rule: str | None = self._stated("rule")
        return rule

    @property
    def default(self) -> str:
        """The default as TOML, "unset" or "required"; empty for a table."""
        if self.tables:
            return ""
        if self.field.is_required():
            return "required"
        default = self.field.get_default(call_default_factory=True)
        return "unset" if default is None else written(default)

    @property
    def limits(self) -> str:
        """Range of numbers, in words; empty if there is none."""
        limits = (limit for limit in self.field.metadata if type(limit) in _LIMITS)
        return ", ".join(_LIMITS[type(limit)].format(_limit(*astuple(limit))) for limit in limits)

    @property
    def choices(self) -> dict[str, str]:
        """Named choices and their meanings, which may be empty."""
        meanings = self._stated("choices") or {}
        return {name: meanings.get(name, "") for name in _names(self.field.annotation)}

    @property
    def only_with(self) -> dict[str, list[str]]:
        """It has an effect only if each of these keys (dotted) has one of these values.

        A key that has no effect itself is no condition.
        """
        stated: Mapping[str, str | Iterable[str]] = self._stated("only_with") or {}
        own = {
            dotted: [values] if isinstance(values, str) else list(values)
            for dotted, values in stated.items()
        }
        return {**self.condition, **own}

    def _stated(self, fact: str) -> Any:
        stated = self.field.json_schema_extra
        return stated.get(fact) if isinstance(stated, dict) else None


def first_sentence(text: str) -> str:
    """Return the first sentence of a text; "et al. 2026" does not end one."""
    return _SENTENCE_END.split(text, maxsplit=1)[0]


def _docstring(tables: tuple[Schema, ...]) -> str:
    first_line = (getdoc(tables[0]) or "").partition("\n")[0] if tables else ""
    meaning = first_line.rpartition("``: ")[2]
    return meaning[:1].upper() + meaning[1:]


def _kind(annotation: Any) -> str:
    if annotation in _KINDS:
        return _KINDS[annotation]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    parts = _parts(annotation)
    origin = get_origin(annotation)
    if origin is Literal:
        return "choice"
    if origin is dict:
        return f"table of {_kind(parts[1])}s"
    if origin in (list, tuple):
        return f"list of {_kind(parts[0])}s"
    return " or ".join(dict.fromkeys(_kind(part) for part in parts)) or "text"


def _limit(number: Any) -> str:
    return written(float(number)) if number >= _MOST_COUNTED else written(number)


def _names(annotation: Any) -> list[str]:
    """Return the names of a choice, also of one that may be left open."""
    parts = _parts(annotation)
    if get_origin(annotation) is not Literal:
        return _names(parts[0]) if len(parts) == 1 else []
    return [name for name in parts if isinstance(name, str)]


def _parts(annotation: Any) -> list[Any]:
    return [part for part in get_args(annotation) if part is not NoneType]


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

    The first of these lists that is not empty: keys of the same name in other tables, keys of the
    same table with a similar name, keys with a similar path, keys with a similar name anywhere.
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


def _keys_below(
    schema: Schema, path: KeyPath, condition: Mapping[str, list[str]] | None = None
) -> Iterator[Key]:
    for name, declared in schema.model_fields.items():
        tables = tuple(_models_in(declared.annotation))
        yield Key((*path, name), declared, tables, condition or {})
        below = condition
        if issubclass(schema, RegisteredTable):
            chosen = [entry for entry, table in schema.tables.items() if table == name]
            below = {".".join((*path, "name")): chosen}
        for table in tables:
            yield from _keys_below(table, (*path, name), below)


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


def with_numbers(tables: Any, schema: Schema) -> Any:
    """Return nested tables in which texts of numeric keys, such as "3h", are numbers."""
    return _numbers_below(tables, schema_keys(schema), ())


def _numbers_below(value: Any, keys: Mapping[KeyPath, Key], path: KeyPath) -> Any:
    known = keys.get(path)
    if isinstance(value, Mapping) and (known is None or known.is_table):
        # Unknown tables are refused later, and may be nested too deeply for a recursion.
        below = ((name, (*path, name)) for name in value)
        return {
            name: _numbers_below(value[name], keys, inner) if inner in keys else value[name]
            for name, inner in below
        }
    return known.number(value) if known is not None else value


_SUBJECT = re.compile(r"^(?:Input |String |List |Value error, )")
_PHRASES = {
    "model_type": "should be a table",
    "model_attributes_type": "should be a table",
    "list_type": "should be a list",
    "string_type": "should be text",
    "string_unicode": "should be text that can be printed",
    "bool_type": "should be true or false",
    "float_type": "should be a number",
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
}


def mistakes_in(error: ValidationError, schema: Schema) -> list[Mistake]:
    """Return all mistakes of an error in validating tables by a schema."""
    return [
        Mistake(mistake["loc"], partial(_describe, mistake, schema))
        for mistake in error.errors(include_url=False)
    ]


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
    if kind in ("float_type", "int_type", "int_from_float"):
        known = schema_keys(schema).get(schema_path(location, schema))
        if known is not None and known.is_number:
            is_whole = known.kind == "whole number"
            what = why_no_number(given, known.unit, is_whole=is_whole)
    if kind == "literal_error" and isinstance(given, str):
        what = _likely_choice(given, mistake["ctx"]["expected"]) or what
    if isinstance(given, Mapping) and kind == "value_error":
        # The message about a whole table names the mistake itself.
        return f"{key}: {what}" if key else what
    return f"{key} = {quote(given)}: {what}"


def _likely_choice(given: str, expected: str) -> str:
    choices = [choice for choice in expected.split("'") if choice.strip(" ,") not in ("", "or")]
    close = get_close_matches(given[:LONGEST_QUOTE].lower(), choices, n=1)
    return f"did you mean {close[0]!r}?" if close else ""


_ALTERNATIVES = {"job.steps": "job.tokens", "job.tokens": "job.steps"}
"""Keys that state one thing in two ways."""


def set_keys(
    tables: MutableMapping[str, Any], changes: Mapping[str, object], where: str = ""
) -> None:
    """Set values in nested tables by dotted keys; None leaves a key out.

    A change of ``job.steps`` replaces ``job.tokens``, and the other way round.

    Raises UserError, which begins with `where`, if a part of a key is a value and no table.
    """
    try:
        for dotted, value in changes.items():
            _set_key(tables, dotted, plain(deepcopy(value)))
            other = _ALTERNATIVES.get(dotted)
            if other is not None and value is not None and other not in changes:
                _set_key(tables, other, None)
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
