"""The documentation of all keys of a scenario: as data, text and JSON Schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from faultline.experiments.config.errors import UserError, quote
from faultline.experiments.config.keys import (
    Key,
    KeyPath,
    likely_keys,
    path_of,
    remedy_for,
    schema_keys,
    value_at,
)
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.recovery import OPEN_PRICES


def keys_of_table(path: KeyPath) -> list[Key]:
    """Return the documentation of the keys of a table; ``()`` is the outermost one."""
    return [known for known in schema_keys(Scenario).values() if known.path[:-1] == path]


def find_reference(name: str) -> Key:
    """Return the documentation of a key or table: ``job.groups``, ``groups`` or ``[job]``.

    Raises UserError if there is none, or more than one; names the likely ones.
    """
    path = tuple(part.strip() for part in name.strip("[] ").split("."))
    known = schema_keys(Scenario)
    if path in known:
        return known[path]
    same = [key for key in likely_keys(path, Scenario) if path_of(key)[-1:] == path]
    if len(same) == 1:
        return known[path_of(same[0])]
    if same:
        raise UserError(f"{name}: there are several; use {' or '.join(same)}")
    raise UserError(f"{name}: unknown key; {remedy_for(path, Scenario)}")


def unmet_condition(
    path: KeyPath, scenario: Scenario, open_keys: Collection[str] = ()
) -> tuple[str, list[str]] | None:
    """Return the unmet condition of a key: another key, and the values that it would need.

    None if the key has an effect. A condition is met if its key has no effect itself, or is one of
    `open_keys` (dotted, with several values).
    """
    known = schema_keys(Scenario)
    if path not in known:
        return None
    for dotted, values in known[path].only_with.items():
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


_NO_DEFAULTS = ("unset", "required")


def overview() -> str:
    """Return a line for each table, and for each key outside of tables."""
    tables = [known for known in schema_keys(Scenario).values() if known.is_table]
    outside = [known for known in keys_of_table(()) if not known.is_table]
    return "\n".join(
        [
            *in_columns({known.dotted: known.summary for known in outside}),
            *in_columns({f"[{table.dotted}]": table.summary for table in tables}),
        ]
    )


def explained(known: Key) -> str:
    """Return the entry of a key, or the keys of a table, for a terminal."""
    if known.is_table:
        keys = {_with_default(key): key.summary for key in keys_of_table(known.path)}
        return "\n".join([f"[{known.dotted}]", f"  {known.meaning}", "", *in_columns(keys, "  ")])
    facts = {
        "type": known.kind,
        "unit": known.unit or "",
        "default": known.default,
        "range": known.limits,
        "applies": _condition(known),
        "source": known.source,
    }
    lines = [known.dotted, f"  {known.meaning}", ""]
    lines += in_columns({name: fact for name, fact in facts.items() if fact}, "  ")
    if known.choices:
        named = {f'"{name}"': meaning for name, meaning in known.choices.items()}
        lines += ["  choices", *in_columns(named, "    ")]
    return "\n".join(lines)


def in_columns(entries: Mapping[str, str], indent: str = "") -> list[str]:
    """Return names and their texts in lines; the texts begin in one column."""
    width = max(map(len, entries), default=0)
    return [f"{indent}{name:{width}}  {text}".rstrip() for name, text in entries.items()]


def _with_default(known: Key) -> str:
    name = known.path[-1]
    if known.is_table:
        return f"[{known.dotted}]"
    return name if known.default in _NO_DEFAULTS else f"{name} = {known.default}"


def _condition(known: Key) -> str:
    needed = [f"{key} = {' or '.join(values)}" for key, values in known.only_with.items()]
    return f"only with {' and '.join(needed)}" if needed else ""


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
            for each in (entry, *entry.get("anyOf", ())):
                if each.get("type") in ("number", "integer"):
                    each["type"] = [each["type"], "string"]  # "3h" is a number of seconds.
    title = {"title": "Faultline scenario"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, **title}
