"""The few lines at the end of ``faultline reproduce``."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.report.tables import Table
from faultline.experiments.studies.base import Row, errors_table, headline_table
from faultline.experiments.studies.claims import judged_rows
from faultline.experiments.studies.runner import summary_lines


def row(quantity: str, setting: str, published: float | None, simulated: float) -> Row:
    return Row(quantity, "spare", setting, published, simulated, simulated, simulated, "1")


def lines_of(*rows: Row) -> list[str]:
    bound = {"claim": "most are masked", "beside": "masked", "test": "at least", "published": 0.9}
    return list(summary_lines(judged_rows([bound], rows, 0.05)))


def test_the_largest_misses_are_named_and_bounds_that_are_not_met() -> None:
    assert lines_of(
        row("goodput", "N=200", 0.50, 0.55),
        row("goodput", "N=600", 0.50, 0.60),
        row("restarts", "N=200", 100.0, 93.0),
        row("restarts", "N=600", 100.0, 101.0),
        row("masked", "N=200", None, 0.36),
        row("crossings", "N=200", None, 3.0),
    ) == [
        "Largest misses (3 of 5 published values are missed):",
        "    +20 %  goodput (spare, N=600)",
        "   -7.0 %  restarts (spare, N=200)",
        "Not met (1 bound):",
        "  masked (spare, N=200): 0.36 (published: at least 0.9)",
    ]


def test_a_study_that_misses_nothing_says_how_much_it_compared() -> None:
    assert lines_of(row("goodput", "N=200", 0.5, 0.5), row("goodput", "N=600", None, 0.4)) == [
        "Met: all of 1 published value; 1 predicted."
    ]
    assert lines_of(row("goodput", "N=600", None, 0.4)) == []


def shown(table: Table) -> list[tuple[str, ...]]:
    return [tuple(column.title for column in table.columns), *(row.cells for row in table.rows)]


def test_a_headline_has_a_line_for_the_rows_of_each_label() -> None:
    rows = [
        row("drop", "7B high, now", 0.2, 0.25),
        Row("drop", "spare", "7B high, swept", 0.2, 0.3, 0.1, 0.5, "1"),
        Row("speed", "spare", "7B", 12.0, 11.5, 11.5, 11.5, "GB/s"),
    ]
    labels = {
        "7B": ("drop", "*", "7B high, *"), "link": ("speed", "*", "*"), "1B": ("drop", "*", "1B"),
    }  # fmt: skip
    assert shown(headline_table("Losses", labels, rows)) == [
        ("", "published", "simulated", "between"),
        ("7B", "0.2", "", "0.1 to 0.5"),
        ("link", "12 GB/s", "11.5 GB/s", ""),
    ]


def test_errors_are_counted_by_group() -> None:
    frame = pd.DataFrame({"system": ["a", "a", "b"], "error": [0.04, -0.2, 0.0]})
    assert shown(errors_table("Met", frame, "system", "error", 0.05)) == [
        ("system", "met", "median error", "worst"),
        ("a", "1 of 2", "12.0%", "-20%"),
        ("b", "1 of 1", "0.0%", "+0%"),
    ]
