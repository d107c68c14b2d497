"""Tables of frames, as the screen shows them."""

from __future__ import annotations

from io import StringIO

import pandas as pd
from faultline.experiments.report.tables import columns_of, on_screen, wide_table
from rich.console import Console


def test_means_stand_in_a_column_a_value() -> None:
    table = pd.DataFrame(
        {
            "size": [32, 32, 32, 8],
            "scheme": ["ntp", "dp-drop", "ntp", "ntp"],
            "loss": [0.1, 0.5, 0.3, 0.25],
        }
    )
    shown = wide_table("Losses", table, {"size": ("GPUs", "{:,}")}, "scheme", "loss", "{:.0%}")
    console = Console(width=60, record=True, file=StringIO())
    console.print(on_screen(shown))
    cells = [line.split() for line in console.export_text().splitlines()]
    assert ["GPUs", "ntp", "dp-drop"] in cells
    assert ["32", "20%", "50%"] in cells
    # Nothing is known of DP-DROP there.
    assert ["8", "25%"] in cells


NARROW = pd.DataFrame(
    {
        "name": ["SPARe + checkpoint, r = 9", "checkpoint only"],
        "days": [20.4, 91.0],
        "share": [0.49, 0.12],
        "read": ["results/a-long-folder/table.csv", "x"],
    }
)


def rows_at(width: int) -> list[str]:
    titles = {"name": "scheme", "days": ("days", "{:.1f}"), "share": ("goodput", "{:.0%}")}
    shown = columns_of("Choices", NARROW, {**titles, "read": "from"})
    printed = StringIO()
    Console(width=width, file=printed).print(on_screen(shown))
    return [row.rstrip() for row in printed.getvalue().splitlines()]


def test_a_table_folds_between_words_where_it_does_not_fit() -> None:
    assert rows_at(50)[1:] == [
        "scheme         days  goodput  from",
        "─" * 50,
        "SPARe +        20.4      49%  results/a-long-folde",
        "checkpoint, r                 r/table.csv",
        "= 9",
        "checkpoint     91.0      12%  x",
        "only",
    ]


def test_the_last_columns_are_named_if_there_is_no_room_for_them() -> None:
    rows = rows_at(30)
    assert rows[1].split() == ["scheme", "days", "goodput"]
    assert rows[-1] == "no room for: from"
    assert max(map(len, rows)) <= 30
