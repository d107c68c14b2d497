"""The scheme, with a table of named choices for each scheme that has any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, create_model

from experiments.schema.field_documentation import about
from experiments.schema.tables.table import Table
from strategies.base import StrategyOptions
from strategies.registry import all_strategies


class _StrategyTable(Table):
    """``[strategy]``: the scheme, and a table of named choices for each scheme that has any."""

    name: str = "spare"
    redundancy: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Redundancy r; unset: the best by the scheme's closed form.",
        json_schema_extra=about(
            "derived: least normalised time to train J(r), Lee et al. 2026 (SPARe)", unit="1"
        ),
    )

    def options(self) -> StrategyOptions:
        """Return the named choices of the chosen scheme."""
        stated = getattr(self, self.name, None)
        return stated if isinstance(stated, StrategyOptions) else StrategyOptions()


def _strategy_table() -> type[_StrategyTable]:
    """Complete ``[strategy]`` from the registry, so that a scheme joins by its own file alone."""
    fields: dict[str, Any] = {
        name: (scheme.Options, Field(default_factory=scheme.Options, description=scheme.summary))
        for name, scheme in all_strategies().items()
        if scheme.Options is not StrategyOptions
    }
    fields["name"] = (
        Literal[tuple(all_strategies())],
        Field(
            "spare",
            description="The fault-tolerance scheme.",
            json_schema_extra=about(
                "choice: the scheme of the shipped study",
                choices={name: scheme.summary for name, scheme in all_strategies().items()},
            ),
        ),
    )
    return create_model("StrategyTable", __base__=_StrategyTable, __module__=__name__, **fields)


if TYPE_CHECKING:
    StrategyTable = _StrategyTable
else:
    StrategyTable = _strategy_table()
