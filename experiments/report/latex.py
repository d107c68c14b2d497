"""Tables for a paper: LaTeX with the digits and units of the screen."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from faultline.experiments.report.tables import Table


def latex_table(
    title: str, headings: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]
) -> str:
    """Return a table in LaTeX, for the package booktabs.

    Parameters
    ----------
    title : str
        Caption.
    headings : sequence of (str, bool)
        Headings of the columns, each with whether the column has numbers, which are right-aligned.
    rows : sequence of sequence of str
        Cells by row and column.
    """
    names = [_plain(name) for name, _ in headings]
    frame = pd.DataFrame([[_plain(cell) for cell in row] for row in rows])
    alignment = "".join("r" if is_number else "l" for _, is_number in headings)
    text: str = frame.to_latex(
        index=False,
        header=[_escaped(name) for name in names],
        escape=True,
        column_format=alignment,
        caption=_escaped(_plain(title)),
    )
    return text


def latex_of(table: Table) -> str:
    """Return one of the report's tables in LaTeX."""
    headings = [(column.title, column.kind == "number") for column in table.columns]
    rows = [[cell.text for cell in row.cells] for row in table.rows]
    return latex_table(table.caption, headings, rows)


def _plain(text: str) -> str:
    """Return a text without characters that LaTeX's default fonts lack."""
    return text.replace("\N{MINUS SIGN}", "-").replace("\n", " ")


def _escaped(text: str) -> str:
    # pandas escapes only cells, not headings and captions.
    return "".join(f"\\{letter}" if letter in "&%$#_{}" else letter for letter in text)
