"""Tables that name one of several registered classes, with a table of options for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from faultline.experiments.config.field_documentation import about
from faultline.experiments.config.tables.table import Table
from faultline.strategies.base import StrategyOptions
from pydantic import Field, create_model


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

    Parameters
    ----------
    name : str
        Name of the new table class.
    base : type
        The keys that do not depend on the registry.
    known : mapping of str to class
        The registry; each class has a `summary` and `Options`.
    default, meaning, source : str
        What is chosen by default, what the choice is, and where the default comes from.
    """
    fields: dict[str, Any] = {
        entry: (chosen.Options, Field(default_factory=chosen.Options, description=chosen.summary))
        for entry, chosen in known.items()
        if chosen.Options is not StrategyOptions
    }
    fields["name"] = (
        Literal[tuple(known)],
        Field(
            default,
            description=meaning,
            json_schema_extra=about(
                source, choices={entry: chosen.summary for entry, chosen in known.items()}
            ),
        ),
    )
    return create_model(name, __base__=base, __module__=base.__module__, **fields)
