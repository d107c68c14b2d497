"""Rows and published values that a study lists as data."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from faultline.experiments.studies import base, data
from faultline.experiments.studies.base import (
    Row,
    beside_published,
    listed_rows,
)
from faultline.experiments.studies.data import published_value

LINE = {
    "table": "runs",
    "keys": "scheme; mtbf_s",
    "columns": "goodput; restarts",
    "unit": "1; restarts",
    "setting": "a failure every {mtbf_s:g} s, {column}",
}
RUNS = pd.DataFrame(
    {
        "scheme": ["ntp", "ntp", "spare", "spare"],
        "mtbf_s": 60.0,
        "seed": [0, 1, 0, 1],
        "goodput": [0.5, 0.7, 0.8, 0.8],
        "restarts": [1, 3, 2, 2],
        "known": [0.6, 0.6, math.nan, math.nan],
    }
)


def _rows(monkeypatch: pytest.MonkeyPatch, **changes: str) -> list[Row]:
    monkeypatch.setattr(base, "rows_if_any", lambda study, table: ({**LINE, **changes},))
    return list(listed_rows("some", {"runs": RUNS}))


def test_each_group_has_a_row_for_each_column(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(monkeypatch)
    assert [(row.scheme, row.quantity, row.unit) for row in rows] == [
        ("ntp", "goodput", "1"),
        ("ntp", "restarts", "restarts"),
        ("spare", "goodput", "1"),
        ("spare", "restarts", "restarts"),
    ]
    assert rows[0].setting == "a failure every 60 s, goodput"
    assert rows[0].simulated == pytest.approx(0.6)
    assert rows[0].low < 0.5
    assert rows[2].low == rows[2].high == 0.8


def test_a_line_states_which_rows_count_and_where_their_values_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = {"quantity": "share; the {column}", "low": "known; restarts", "high": "goodput; seed"}
    rows = _rows(monkeypatch, only="scheme=ntp|replication; seed=1", unit="1", **own)
    assert [(row.quantity, row.low, row.high, row.unit) for row in rows] == [
        ("share", 0.6, 0.7, "1"),
        ("the restarts", 3.0, 1.0, "1"),
    ]
    keys = {"keys": "scheme; mtbf_s; known", "columns": "goodput", "published": "known"}
    assert [row.published for row in _rows(monkeypatch, **keys)] == [0.6, None]


def test_the_first_published_line_that_fits_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = (
        {"quantity": "loss", "scheme": "ntp", "setting": "TP32, *", "published": 0.03},
        {"quantity": "loss", "published": 0.12},
    )
    monkeypatch.setattr(data, "rows_if_any", lambda study, table: listed)
    assert published_value("some", "loss", "ntp", "TP32, packed") == 0.03
    assert published_value("some", "loss", "ntp", "TP64, packed") == 0.12
    with pytest.raises(KeyError, match="goodput"):
        published_value("some", "goodput", "ntp", "TP32, packed")
    rows = [Row(name, "dp-drop", "", None, 0.1, 0.1, 0.1, "1") for name in ("loss", "goodput")]
    assert [row.published for row in beside_published("some", rows)] == [0.12, None]
