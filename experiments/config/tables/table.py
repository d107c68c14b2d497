"""What all tables of a scenario have in common, and what is known of a key besides its type.

The documentation of a key stands beside it, in pydantic's ``json_schema_extra``. A scheme documents
its options by a plain mapping with the same names, for which it has to import nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from faultline.strategies.base import StrategyOptions
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

SOUND = "choice: what is sound; the published simulator of SPARe takes"


def _as_list(values: str | Iterable[str]) -> list[str]:
    return [values] if isinstance(values, str) else list(values)


class FieldDocumentation(BaseModel):
    """The documentation of a field."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    # Where the default comes from; begins with "choice" or "assumption" where nobody measured it.
    source: str | None = None
    # SI unit, "steps", or "1" for counts, ratios and exponents; None for what has none: names,
    # choices, and yes or no.
    unit: str | None = None
    choices: dict[str, str] = {}  # What each of the named choices means.
    # The field counts only where each of these keys (dotted) has one of these values, or does not
    # count itself as long as others leave it in force; a single value may stand by itself.
    only_with: dict[str, Annotated[list[str], BeforeValidator(_as_list)]] = {}
    rule: str | None = None  # The rule of the engines (`simulator.job.Rules`) that it is.


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
    """Return a key of a scenario: its default, its meaning, and the rest of `FieldDocumentation`.

    A default of None leaves it open. `between` and `above` are the least and the greatest value;
    `above`, the first is none itself. Other limits are as pydantic's ``Field`` takes them.
    """
    if between is not None:
        limits |= {"ge": between[0], "le": between[1]}
    if above is not None:
        limits |= {"gt": above[0], "le": above[1]}
    said: dict[str, Any] = {
        "source": source,
        "unit": unit,
        "choices": dict(choices or {}),
        "only_with": dict(only_with or {}),
        "rule": rule,
    }
    return Field(default, description=meaning, json_schema_extra=said, **limits)


def seconds(
    default: float | None, meaning: str, source: str, most: float = 1e9, **documentation: Any
) -> Any:
    """Return a key that holds a time: from 0, or `above` it, to so many seconds; see `key`."""
    if "above" not in documentation:
        documentation["between"] = (0, most)
    return key(default, meaning, source, "s", **documentation)


def count(default: int | None, meaning: str, source: str, most: float, **documentation: Any) -> Any:
    """Return a key that holds a whole number from 1 to so many; see `key`."""
    return key(default, meaning, source, "1", between=(1, most), **documentation)


def share(default: float | None, meaning: str, source: str, **documentation: Any) -> Any:
    """Return a key that holds a share from 0 to 1; see `key`."""
    return key(default, meaning, source, "1", between=(0, 1), **documentation)


def documentation_of(field: FieldInfo) -> FieldDocumentation:
    """Return what a field says of itself; empty where it says nothing."""
    stated = field.json_schema_extra
    return FieldDocumentation.model_validate(stated if isinstance(stated, dict) else {})


class Table(BaseModel):
    """A table of a scenario: unknown keys are mistakes, and so are values of another type."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, strict=True, defer_build=True
    )


class RegisteredTable(Table):
    """A table whose `name` chooses a class, and that has a table of options for each."""

    name: str

    def options(self) -> StrategyOptions:
        """Return the named choices of what is chosen."""
        stated = getattr(self, self.name, None)
        return stated if isinstance(stated, StrategyOptions) else StrategyOptions()


def with_registered(
    name: str,
    base: type[RegisteredTable],
    known: Mapping[str, Any],
    default: str,
    meaning: str,
    source: str,
) -> type[Any]:
    """Complete a table from a registry, so that a class joins by its own file alone.

    The classes in the registry have a `summary` and `Options`; `base` has the keys that do not
    depend on it. The rest is of the choice: its default, its meaning, the default's source.
    """
    fields: dict[str, Any] = {
        entry: (chosen.Options, Field(default_factory=chosen.Options, description=chosen.summary))
        for entry, chosen in known.items()
        if chosen.Options is not StrategyOptions
    }
    fields["name"] = (
        Literal[tuple(known)],
        key(
            default,
            meaning,
            source,
            choices={entry: chosen.summary for entry, chosen in known.items()},
        ),
    )
    return create_model(name, __base__=base, __module__=base.__module__, **fields)
