"""The documentation of all keys of a scenario: as data, text, Markdown and JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import getdoc
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import (
    Key,
    KeyPath,
    likely_keys,
    path_of,
    quote,
    remedy_for,
    schema_keys,
    value_at,
)
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.recovery import OPEN_PRICES
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
    """The documentation of a key or table of a scenario."""

    path: KeyPath  # Its parts, from the outermost table.
    meaning: str  # A sentence or two.
    kind: str  # Kind of value: "number", "choice", "table", ...
    is_table: bool
    unit: str | None  # SI unit, "steps", or "1"; None if it has none.
    default: str  # The default as TOML, or "unset".
    limits: str  # Range of numbers, in words; empty if there is none.
    choices: dict[str, str]  # Named choices and their meanings, which may be empty.
    only_with: dict[str, list[str]]  # It counts only if each of these keys has one of these values.
    source: str  # Source of the default.

    @property
    def dotted(self) -> str:
        """The key as ``--set`` takes it."""
        return ".".join(self.path)

    @property
    def summary(self) -> str:
        """The first sentence of the meaning, without its full stop and its unset value."""
        return first_sentence(self.meaning).removesuffix(".").partition("; unset: ")[0]


def first_sentence(text: str) -> str:
    """Return the first sentence of a text; "et al. 2026" does not end one."""
    return _SENTENCE_END.split(text, maxsplit=1)[0]


@cache
def scenario_reference() -> dict[KeyPath, KeyReference]:
    """Return the documentation of all keys and tables by path, in the order of the schema."""
    return {path: documented(key) for path, key in schema_keys(Scenario).items()}


def keys_of_table(path: KeyPath) -> list[KeyReference]:
    """Return the documentation of the keys of a table; ``()`` is the outermost one."""
    return [known for known in scenario_reference().values() if known.path[:-1] == path]


def find_reference(name: str) -> KeyReference:
    """Return the documentation of a key or table: ``job.groups``, ``groups`` or ``[job]``.

    Raises UserError if there is none, or more than one; names the likely ones.
    """
    path = tuple(part.strip() for part in name.strip("[] ").split("."))
    known = scenario_reference()
    if path in known:
        return known[path]
    same = [key for key in likely_keys(path, Scenario) if path_of(key)[-1:] == path]
    if len(same) == 1:
        return known[path_of(same[0])]
    if same:
        raise UserError(f"{name}: there are several; use {' or '.join(same)}")
    raise UserError(f"{name}: unknown key; {remedy_for(path, Scenario)}")


def documented(key: Key) -> KeyReference:
    """Return the documentation of a key of the schema; a scheme may leave it out."""
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
        only_with=_conditions(key),
        source=stated.source or ("" if key.tables else "choice of the scheme"),
    )


def _conditions(key: Key) -> dict[str, list[str]]:
    return {**_scheme_condition(key.path), **documentation_of(key.field).only_with}


def unmet_condition(
    path: KeyPath, scenario: Scenario, open_keys: Collection[str] = ()
) -> tuple[str, list[str]] | None:
    """Return the unmet condition of a key: another key, and the values that it would need.

    None if the key counts. A condition on a key that does not count itself, or on one of
    `open_keys` (dotted, with several values), is always met.
    """
    known = schema_keys(Scenario)
    if path not in known:
        return None
    for dotted, values in _conditions(known[path]).items():
        needed = path_of(dotted)
        if value_in_force(scenario, needed) in values or dotted in open_keys:
            continue
        if unmet_condition(needed, scenario, open_keys) is None:
            return dotted, values
    return None


def value_in_force(scenario: Scenario, path: KeyPath) -> Any:
    """Return the value of a key; unset keys of [recovery] have that of the preset."""
    value = value_at(scenario, path)
    if value is None and path[0] == "recovery" and path[-1] in OPEN_PRICES:
        return scenario.recovery.price(path[-1])
    return value


def why_idle(path: KeyPath, scenario: Scenario, open_keys: Collection[str] = ()) -> str | None:
    """Return why a key has no effect, and the remedy; None if it has one."""
    unmet = unmet_condition(path, scenario, open_keys)
    if unmet is None:
        return None
    key, values = unmet
    return (
        f"has no effect with {key} = {quote(value_in_force(scenario, path_of(key)))}; set {key} to "
        f"{' or '.join(values)}, or leave it out"
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
    if origin is dict:
        return f"table of {_kind(parts[1])}s"
    if origin in (list, tuple):
        return f"list of {_kind(parts[0])}s"
    return " or ".join(dict.fromkeys(_kind(part) for part in parts)) or "text"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    return "unset" if default is None else written(default)


def _limits(field: FieldInfo) -> str:
    bounds = []
    for limit in field.metadata:
        match limit:
            case Ge(ge=low):
                bounds.append(f"at least {_limit(low)}")
            case Gt(gt=low):
                bounds.append(f"above {_limit(low)}")
            case Le(le=high):
                bounds.append(f"at most {_limit(high)}")
            case Lt(lt=high):
                bounds.append(f"below {_limit(high)}")
            case MaxLen(max_length=most):
                bounds.append(f"at most {_limit(most)} characters")
    return ", ".join(bounds)


def _limit(number: Any) -> str:
    return written(float(number)) if number >= _MOST_COUNTED else written(number)


def _choices(annotation: Any, meanings: Mapping[str, str]) -> dict[str, str]:
    if get_origin(annotation) is not Literal:
        # A choice that may be left open is a choice, too.
        parts = [part for part in get_args(annotation) if part is not NoneType]
        return _choices(parts[0], meanings) if len(parts) == 1 else {}
    names = [name for name in get_args(annotation) if isinstance(name, str)]
    return {name: meanings.get(name, "") for name in names}


def _scheme_condition(path: KeyPath) -> dict[str, list[str]]:
    """Return the condition that a scheme or protection with these options is chosen."""
    if path[:1] not in (("strategy",), ("protection",)) or len(path) < 3:
        return {}
    registered: Any = Scenario.model_fields[path[0]].annotation
    return {
        f"{path[0]}.name": [name for name, table in registered.tables.items() if table == path[1]]
    }


REGENERATE = "faultline scenario explain --format markdown > docs/scenario-reference.md"

_NO_DEFAULTS = ("unset", "required")
_INTRODUCTION = f"""\
# Every key of a scenario

<!-- Made by `{REGENERATE}`; do not edit. -->

A scenario is a TOML file. Every key has a default, so that a file states what differs; each can be
set on the command line too, as in `--set job.groups=600`. Times are in seconds, sizes in bytes. The
unit 1 stands for counts, ratios and exponents.

`faultline scenario explain KEY` shows one of the entries below. `faultline scenario show FILE` says
what every key is in a scenario, and why. `faultline scenario check FILE` names all mistakes of a
file. Commands print a line for keys of a file that have no effect beside its other keys, and refuse
options that have none. [rules.md](rules.md) discusses the named choices that decide how failures
are treated.
"""


def overview() -> str:
    """Return a line for each table, and for each key outside of tables."""
    tables = [known for known in scenario_reference().values() if known.is_table]
    outside = [known for known in keys_of_table(()) if not known.is_table]
    return "\n".join(
        [
            *_columns({known.dotted: known.summary for known in outside}),
            *_columns({f"[{table.dotted}]": table.summary for table in tables}),
        ]
    )


def explained(known: KeyReference) -> str:
    """Return the entry of a key, or the keys of a table, for a terminal."""
    if known.is_table:
        keys = {_with_default(key): key.summary for key in keys_of_table(known.path)}
        return "\n".join([f"[{known.dotted}]", f"  {known.meaning}", "", *_columns(keys, "  ")])
    facts = {
        "written": known.kind,
        "unit": known.unit or "",
        "default": known.default,
        "range": known.limits,
        "counts": _condition(known),
        "source": known.source,
    }
    lines = [known.dotted, f"  {known.meaning}", ""]
    lines += _columns({name: fact for name, fact in facts.items() if fact}, "  ")
    if known.choices:
        named = {f'"{name}"': meaning for name, meaning in known.choices.items()}
        lines += ["  choices", *_columns(named, "    ")]
    return "\n".join(lines)


def reference_page() -> str:
    """Return the Markdown page of all keys."""
    sections = [
        _section(f"`[{table.dotted}]`", table.meaning, keys_of_table(table.path))
        for table in scenario_reference().values()
        if table.is_table
    ]
    outside = _section("Outside of tables", "", keys_of_table(()))
    return "\n".join([_INTRODUCTION, outside, *sections])


def _columns(entries: Mapping[str, str], indent: str = "") -> list[str]:
    width = max(map(len, entries), default=0)
    return [f"{indent}{name:{width}}  {text}".rstrip() for name, text in entries.items()]


def _with_default(known: KeyReference) -> str:
    name = known.path[-1]
    if known.is_table:
        return f"[{known.dotted}]"
    return name if known.default in _NO_DEFAULTS else f"{name} = {known.default}"


def _condition(known: KeyReference) -> str:
    needed = [f"{key} = {' or '.join(values)}" for key, values in known.only_with.items()]
    return f"only with {' and '.join(needed)}" if needed else ""


def _section(title: str, meaning: str, keys: list[KeyReference]) -> str:
    rows = [
        "| key | default | unit | range | meaning | where the default comes from |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_row(key) for key in keys if not key.is_table),
    ]
    return "\n".join([f"## {title}", "", *([meaning, ""] if meaning else []), *rows, ""])


def _row(known: KeyReference) -> str:
    meaning = known.meaning
    if known.choices:
        listed = "<br>".join(f'`"{name}"`: {text}' for name, text in known.choices.items())
        meaning = f"{meaning}<br>{listed}"
    if condition := _condition(known):
        meaning = f"{meaning}<br>Counts {condition}."
    default = known.default if known.default in _NO_DEFAULTS else f"`{known.default}`"
    cells = (f"`{known.path[-1]}`", default, known.unit or "", known.limits, meaning, known.source)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of a scenario file, with the unit of each key in its description."""
    schema = Scenario.model_json_schema()
    for table in (schema, *schema["$defs"].values()):
        for entry in table.get("properties", {}).values():
            unit = entry.pop("unit", None)
            if unit not in (None, "1") and "description" in entry:
                entry["description"] = f"{entry['description']} Unit: {unit}."
            for ours in ("source", "choices", "only_with", "rule"):
                entry.pop(ours, None)
    title = {"title": "Faultline scenario"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, **title}
