"""Intervals of what was counted, and of paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isnan

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.analysis.intervals import (
    interval_of,
    interval_of_proportion,
    mean_over_seeds,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, t


def row_over_seeds(column: str, values: Sequence[float]) -> pd.Series:
    frame = pd.DataFrame({"seed": range(len(values)), column: values})
    return mean_over_seeds(frame, [], column).iloc[0]


def test_one_value_or_an_infinite_one_has_no_interval() -> None:
    assert isnan(interval_of([2.0]).low)
    assert isnan(interval_of([inf, 2.0]).high)


@given(trials=st.integers(1, 10_000), data=st.data())
def test_the_interval_of_a_share_is_wilson_s(trials: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, trials))
    expected = binomtest(hits, trials).proportion_ci(method="wilson")
    low, high = interval_of_proportion(hits, trials)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert 0.0 <= low <= hits / trials <= high <= 1.0 + 1e-15


@pytest.mark.parametrize("shares", [(0.999, 0.95, 0.999), (0.001, 0.05, 0.001), (0.1, 0.9, 0.6)])
def test_the_interval_of_a_share_stays_between_0_and_1(shares: tuple[float, ...]) -> None:
    """Availability's does; Student's own reaches beyond in each of these samples."""
    row, plain = (row_over_seeds(name, shares) for name in ("availability", "time_to_train_ratio"))
    assert plain["low"] < 0 or plain["high"] > 1
    assert 0 < row["low"] < row["mean"] < row["high"] < 1
    assert row["mean"] == plain["mean"]
    # Longer away from the nearer bound.
    assert np.sign(row["high"] + row["low"] - 2 * row["mean"]) == np.sign(0.5 - row["mean"])


def test_the_interval_of_a_share_is_student_s_where_it_is_short() -> None:
    row = row_over_seeds("availability", [0.9, 0.9002, 0.9001])
    half = t.ppf(0.975, 2) * 1e-4 / np.sqrt(3)
    assert (row["low"], row["high"]) == pytest.approx((0.9001 - half, 0.9001 + half), abs=1e-6)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_that_is_all_or_nothing_has_no_width(share: float) -> None:
    row = row_over_seeds("availability", [share] * 3)
    assert row["low"] == row["mean"] == row["high"] == share
