"""Reads a table as a reader of the screen does."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.report.tables import Table


def shown(table: Table) -> pd.DataFrame:
    """Return the texts of a table by their headings."""
    return pd.DataFrame(
        [row.cells for row in table.rows], columns=[column.title for column in table.columns]
    )
