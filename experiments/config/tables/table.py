"""Tables of a scenario, and keys with their documentation.

The documentation of a key is in its declaration, in pydantic's ``json_schema_extra``. A scheme
documents its options by a plain mapping with the same names, so that it imports nothing from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast

from faultline.strategies.interface.scheme import StrategyOptions
from pydantic import BaseModel, ConfigDict, Field, create_model

SOUND = "choice: sound behaviour; the published simulator of SPARe uses"


def key(
    default: object,
    meaning: str,
    source: str,
    unit: str | None = None,
    *,
    between: tuple[float, float] | None = None,
    above: tuple[float, float] | None = None,
    choices: Mapping[str, str] | None = None,
    only_with: Mapping[str, Any] | None = None,
    rule: str | None = None,
    **limits: Any,
) -> Any:
    """Return a key of a scenario: its default, its meaning, and other facts that `keys.Key` has.

    A default of None leaves it open. `between` states the least and the greatest value; `above`
    excludes the first. Other limits are those of pydantic's ``Field``.
    """
    if between is not None:
        limits |= {"ge": between[0], "le": between[1]}
    if above is not None:
        limits |= {"gt": above[0], "le": above[1]}
    documentation: dict[str, Any] = {
        "source": source,
        "unit": unit,
        "choices": dict(choices or {}),
        "only_with": dict(only_with or {}),
        "rule": rule,
    }
    return Field(default, description=meaning, json_schema_extra=documentation, **limits)


def seconds(
    default: float | None, meaning: str, source: str, most: float = 1e9, **documentation: Any
) -> Any:
    """Return a key with a time in seconds, from 0 or `above` 0 to `most`; see `key`."""
    if "above" not in documentation:
        documentation["between"] = (0, most)
    return key(default, meaning, source, "s", **documentation)


def count(default: int | None, meaning: str, source: str, most: float, **documentation: Any) -> Any:
    """Return a key with a whole number from 1 to `most`; see `key`."""
    return key(default, meaning, source, "1", between=(1, most), **documentation)


def share(default: float | None, meaning: str, source: str, **documentation: Any) -> Any:
    """Return a key with a share from 0 to 1; see `key`."""
    return key(default, meaning, source, "1", between=(0, 1), **documentation)


class ScenarioTable(BaseModel):
    """A table of a scenario: unknown keys and values of another type are mistakes."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, strict=True, defer_build=True
    )


class RegisteredTable(ScenarioTable):
    """A table whose `name` chooses a class, with a table of options for each class."""

    tables: ClassVar[Mapping[str, str]] = {}
    """Names of the tables of options, by the names of their classes."""

    name: str

    def options(self) -> StrategyOptions:
        """Return the options of the chosen class."""
        stated = getattr(self, self.tables.get(self.name, ""), None)
        return stated if isinstance(stated, StrategyOptions) else StrategyOptions()


def with_registered(
    name: str,
    base: type[RegisteredTable],
    known: Mapping[str, Any],
    default: str,
    meaning: str,
    source: str,
) -> type[Any]:
    """Return a table with a name and options for each class of a registry.

    A new class needs only its own file. Classes have a `summary` and `Options`; `base` has all
    other keys. `default`, `meaning` and `source` document the name.
    """
    fields = _fields(known, default, meaning, source)
    completed: type[RegisteredTable] = create_model(
        name, __base__=base, __module__=base.__module__, **fields
    )
    completed.tables = _tables(known)
    return completed


def take_in(table: type[RegisteredTable], known: Mapping[str, Any]) -> None:
    """Let a table know classes that were registered after it was made."""
    name = table.model_fields["name"]
    documentation = cast("dict[str, Any]", name.json_schema_extra)
    fields = _fields(known, name.default, str(name.description), documentation["source"])
    for place in {*table.tables.values()} - {*fields}:
        del table.model_fields[place]
    for place, (annotation, field) in fields.items():
        field.annotation = annotation
        table.model_fields[place] = field
    table.tables = _tables(known)
    table.model_rebuild(force=True)


def _tables(known: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of the table of options of each class that has options."""
    return {
        entry: chosen.Options.table or entry
        for entry, chosen in known.items()
        if chosen.Options is not StrategyOptions
    }


def _fields(known: Mapping[str, Any], default: str, meaning: str, source: str) -> dict[str, Any]:
    """Return the type and the field of the name and of each table of options."""
    fields: dict[str, Any] = {
        table: (
            known[table].Options,
            Field(default_factory=known[table].Options, description=known[table].summary),
        )
        for table in sorted({*_tables(known).values()})
    }
    choices = {entry: chosen.summary for entry, chosen in known.items()}
    fields["name"] = Literal[tuple(known)], key(default, meaning, source, choices=choices)
    return fields
