"""What is known of a scenario's field besides its type: unit, source, choices, when it counts.

It stands beside the field, in pydantic's ``json_schema_extra``. A scheme documents its options by a
plain mapping with the same names, for which it has to import nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, JsonValue, field_validator
from pydantic.fields import FieldInfo


class FieldDocumentation(BaseModel):
    """The documentation of a field.

    Attributes
    ----------
    source : str or None
        Where the default comes from; begins with "choice" or "assumption" where nobody measured it.
    unit : str or None
        SI unit, "steps", or "1" for counts, ratios and exponents; None for what has none: names,
        choices, and yes or no.
    choices : dict of str to str
        What each of the named choices means.
    only_with : dict of str to list of str
        The field counts only where each of these keys (dotted) has one of these values; a single
        value may stand by itself.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    source: str | None = None
    unit: str | None = None
    choices: dict[str, str] = {}
    only_with: dict[str, list[str]] = {}

    @field_validator("only_with", mode="before")
    @classmethod
    def _as_lists(cls, conditions: object) -> object:
        if not isinstance(conditions, dict):
            return conditions
        return {
            key: [values] if isinstance(values, str) else values
            for key, values in conditions.items()
        }


def about(
    source: str,
    unit: str | None = None,
    choices: Mapping[str, str] | None = None,
    only_with: Mapping[str, str | Sequence[str]] | None = None,
) -> dict[str, JsonValue]:
    """Return a field's documentation for ``json_schema_extra``; see `FieldDocumentation`."""
    conditions: dict[str, JsonValue] = {
        key: [values] if isinstance(values, str) else list(values)
        for key, values in (only_with or {}).items()
    }
    return {
        "source": source,
        "unit": unit,
        "choices": dict(choices or {}),
        "only_with": conditions,
    }


def documentation_of(field: FieldInfo) -> FieldDocumentation:
    """Return what a field says of itself; empty where it says nothing."""
    stated = field.json_schema_extra
    return FieldDocumentation.model_validate(stated if isinstance(stated, dict) else {})
