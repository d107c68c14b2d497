"""Tables of frames, as the screen shows them."""

from __future__ import annotations

from io import StringIO

import pandas as pd
from faultline.experiments.report.tables import on_screen, wide_table
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
