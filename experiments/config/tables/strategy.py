"""The scheme, with a table of named choices for each scheme that has any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultline.experiments.config.field_documentation import about
from faultline.experiments.config.tables.registered import RegisteredTable, with_registered
from faultline.strategies.registry import all_strategies
from pydantic import Field


class _StrategyTable(RegisteredTable):
    """``[strategy]``: the scheme, and a table of named choices for each scheme that has any."""

    name: str = "checkpoint"
    redundancy: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Redundancy r; unset: the best by the scheme's closed form.",
        json_schema_extra=about(
            "derived: least normalised time to train J(r), Lee et al. 2026 (SPARe)", unit="1"
        ),
    )


if TYPE_CHECKING:
    StrategyTable = _StrategyTable
else:
    StrategyTable = with_registered(
        "StrategyTable",
        _StrategyTable,
        all_strategies(),
        "checkpoint",
        "The fault-tolerance scheme.",
        "choice: what everybody does, with nothing added to it",
    )
