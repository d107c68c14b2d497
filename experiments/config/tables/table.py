"""What all tables of a scenario have in common."""

from __future__ import annotations

from collections.abc import Callable
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

    def chosen(cls: Any, tables: Any, validate: Callable[[Any], Table]) -> Table:  # noqa: ARG001
        if not isinstance(tables, dict) or choice in tables:
            return validate(tables)
        if all(tables.get(key) is None for key in keys):
            return validate(tables)
        table = validate({**tables, choice: value})
        # Nobody stated the choice: without the time it is as open as before.
        table.model_fields_set.discard(choice)
        return table

    return model_validator(mode="wrap")(chosen)
