"""Tables for a paper: LaTeX with the digits and units of the screen."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.report.tables import Table


def latex_of(table: Table, caption: str | None = None) -> str:
    """Return a table in LaTeX for the package booktabs, with numbers right-aligned."""
    frame = pd.DataFrame([[_plain(cell) for cell in row.cells] for row in table.rows])
    text: str = frame.to_latex(
        index=False,
        header=[_escaped(_plain(column.title)) for column in table.columns],
        escape=True,
        column_format="".join("r" if one.kind == "number" else "l" for one in table.columns),
        caption=_escaped(_plain(caption or table.caption)),
    )
    return text


def _plain(text: str) -> str:
    """Return a text without characters that LaTeX's default fonts lack."""
    return text.replace("\N{MINUS SIGN}", "-").replace("\n", " ")


def _escaped(text: str) -> str:
    # pandas escapes only cells, not headings and captions.
    return "".join(f"\\{letter}" if letter in "&%$#_{}" else letter for letter in text)
