"""The documentation of the scenario schema as data: made from the schema, and from it alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from inspect import getdoc
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import Key, KeyPath, likely_keys, remedy_for, schema_keys
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.table import documentation_of
from faultline.experiments.config.toml_text import written
from pydantic import BaseModel
from pydantic.fields import FieldInfo

_MOST_COUNTED = 1_000_000
_SENTENCE_END = re.compile(r"(?<=\.)\s+(?=[A-Z])")
_KINDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
}


@dataclass(frozen=True, slots=True)
class KeyReference:
    """What there is to know of a key or table of a scenario.

    Attributes
    ----------
    path : tuple of str
        Its parts, from the outermost table.
    meaning : str
        What it says, in a sentence or two.
    kind : str
        What is written there: "number", "choice", "table", ...
    is_table : bool
        Whether keys stand below it.
    unit : str or None
        SI unit, "steps", or "1"; None for what has none.
    default : str
        The default as TOML, or "unset".
    limits : str
        The range of numbers, in words; empty where there is none.
    choices : dict of str to str
        The named choices and what they mean; the meaning may be empty.
    only_with : dict of str to list of str
        It counts only where each of these keys has one of these values.
    source : str
        Where the default comes from.
    """

    path: KeyPath
    meaning: str
    kind: str
    is_table: bool
    unit: str | None
    default: str
    limits: str
    choices: dict[str, str]
    only_with: dict[str, list[str]]
    source: str

    @property
    def dotted(self) -> str:
        """The key as ``--set`` takes it."""
        return ".".join(self.path)

    @property
    def summary(self) -> str:
        """The first sentence of the meaning, without its full stop and what holds if unset."""
        return first_sentence(self.meaning).removesuffix(".").partition("; unset: ")[0]


def first_sentence(text: str) -> str:
    """Return the first sentence of a text; "et al. 2026" is no end of one."""
    return _SENTENCE_END.split(text, maxsplit=1)[0]


@cache
def scenario_reference() -> dict[KeyPath, KeyReference]:
    """Return the documentation of every key and table by its path, in the order of the schema."""
    return {path: documented(key) for path, key in schema_keys(Scenario).items()}


def keys_of_table(path: KeyPath) -> list[KeyReference]:
    """Return the documentation of all keys right below a table; of the outermost one for ``()``."""
    return [known for known in scenario_reference().values() if known.path[:-1] == path]


def find_reference(name: str) -> KeyReference:
    """Return the documentation of a key or table, given as ``job.groups``, ``groups`` or ``[job]``.

    Raises
    ------
    UserError
        If there is none, or more than one; names the likely ones.
    """
    path = tuple(part.strip() for part in name.strip("[] ").split("."))
    known = scenario_reference()
    if path in known:
        return known[path]
    same = [key for key in likely_keys(path, Scenario) if tuple(key.split("."))[-1:] == path]
    if len(same) == 1:
        return known[tuple(same[0].split("."))]
    if same:
        raise UserError(f"{name}: there are several; use {' or '.join(same)}")
    raise UserError(f"{name}: unknown key; {remedy_for(path, Scenario)}")


def documented(key: Key) -> KeyReference:
    """Return the documentation of a key of the schema; a scheme need not give any."""
    stated = documentation_of(key.field)
    return KeyReference(
        path=key.path,
        meaning=key.field.description or _docstring(key.tables),
        kind=_kind(key.field.annotation),
        is_table=bool(key.tables),
        unit=stated.unit,
        default="" if key.tables else _default(key.field),
        limits=_limits(key.field),
        choices=_choices(key.field.annotation, stated.choices),
        only_with={**_scheme_condition(key.path), **stated.only_with},
        source=stated.source or ("" if key.tables else "choice of the scheme"),
    )


def _docstring(tables: tuple[type[BaseModel], ...]) -> str:
    first_line = (getdoc(tables[0]) or "").partition("\n")[0] if tables else ""
    meaning = first_line.rpartition("``: ")[2]
    return meaning[:1].upper() + meaning[1:]


def _kind(annotation: Any) -> str:
    if annotation in _KINDS:
        return _KINDS[annotation]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    parts = [part for part in get_args(annotation) if part is not NoneType]
    origin = get_origin(annotation)
    if origin is Literal:
        return "choice"
    if origin in (list, tuple):
        return f"list of {_kind(parts[0])}s"
    return " or ".join(dict.fromkeys(_kind(part) for part in parts)) or "text"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    return "unset" if default is None else written(default)


def _limits(field: FieldInfo) -> str:
    said = []
    for limit in field.metadata:
        match limit:
            case Ge(ge=low):
                said.append(f"at least {_limit(low)}")
            case Gt(gt=low):
                said.append(f"above {_limit(low)}")
            case Le(le=high):
                said.append(f"at most {_limit(high)}")
            case Lt(lt=high):
                said.append(f"below {_limit(high)}")
            case MaxLen(max_length=most):
                said.append(f"at most {_limit(most)} characters")
    return ", ".join(said)


def _limit(number: Any) -> str:
    return written(float(number)) if number >= _MOST_COUNTED else written(number)


def _choices(annotation: Any, meanings: Mapping[str, str]) -> dict[str, str]:
    if get_origin(annotation) is not Literal:
        return {}
    names = [name for name in get_args(annotation) if isinstance(name, str)]
    return {name: meanings.get(name, "") for name in names}


def _scheme_condition(path: KeyPath) -> dict[str, list[str]]:
    """Options of a scheme or a protection count where it is chosen."""
    if path[:1] in (("strategy",), ("protection",)) and len(path) > 2:
        return {f"{path[0]}.name": [path[1]]}
    return {}
