"""What all tables of a scenario have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Table(BaseModel):
    """A table of a scenario: unknown keys are mistakes, and so are values of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


def implying(choice: str, value: str, *keys: str) -> Any:
    """Return a validator by which a table that gives one of some keys has chosen to use it.

    A stated time would otherwise be overlooked wherever the default is not to state it.

    Parameters
    ----------
    choice, value : str
        The key that is set where it is missing, and to what.
    *keys : str
        The keys that count with that value only.
    """

    def chosen(cls: Any, tables: Any) -> Any:  # noqa: ARG001
        if not isinstance(tables, dict) or choice in tables:
            return tables
        given = any(tables.get(key) is not None for key in keys)
        return {**tables, choice: value} if given else tables

    return model_validator(mode="before")(chosen)
