"""Tables for the screen."""

from __future__ import annotations

from io import StringIO

import pandas as pd
from faultline.experiments.analysis.printing import means_by, printed
from rich.console import Console


def test_means_stand_in_a_column_a_value() -> None:
    table = pd.DataFrame(
        {
            "size": [32, 32, 32, 8],
            "scheme": ["ntp", "dp-drop", "ntp", "ntp"],
            "loss": [0.1, 0.5, 0.3, 0.25],
        }
    )
    shown = means_by("Losses", table, {"size": ("GPUs", "{:,}")}, "scheme", "loss", "{:.0%}")
    console = Console(width=60, record=True, file=StringIO())
    console.print(printed(shown))
    cells = [line.split() for line in console.export_text().splitlines()]
    assert ["GPUs", "ntp", "dp-drop"] in cells
    assert ["32", "20%", "50%"] in cells
    # Nothing is known of DP-DROP there.
    assert ["8", "25%"] in cells
