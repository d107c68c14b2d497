"""Intervals of what was counted."""

from __future__ import annotations

import pytest
from faultline.experiments.analysis.intervals import interval_of_proportion
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest


@given(trials=st.integers(1, 10_000), data=st.data())
def test_the_interval_of_a_share_is_wilson_s(trials: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, trials))
    expected = binomtest(hits, trials).proportion_ci(method="wilson")
    low, high = interval_of_proportion(hits, trials)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert 0.0 <= low <= hits / trials <= high <= 1.0 + 1e-15
