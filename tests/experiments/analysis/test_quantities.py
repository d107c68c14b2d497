"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from faultline.experiments.analysis.quantities import (
    decimals_for,
    fixed,
    heading,
    number_text,
    plain,
    setting_text,
    time_unit,
    with_unit,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3600.0, "s", "3,600 s (1 hour)"),
        (2_592_000.0, "s", "2,592,000 s (30 days)"),
        (2e13, "bytes", "20 TB"),
        (340e9, "bytes/s", "340 GB/s"),
        (10_000, "steps", "10,000 steps"),
        (True, None, "yes"),
        (None, "s", "–"),
        (-0.25, "1", "−0.25"),
        ([{"cause": "gpu", "share": 0.5}, {"cause": "host", "share": 0.5}], None,
         "cause = gpu, share = 0.5; cause = host, share = 0.5"),
    ],
)  # fmt: skip
def test_values_of_a_scenario(value: object, unit: str | None, text: str) -> None:
    assert with_unit(value, unit) == text


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (1234.567, 1, "1,234.6"),
        (-0.01, 1, "0.0"),
        (math.inf, 2, "infinite"),
        (math.nan, 2, "–"),
        (None, 2, "–"),
    ],
)
def test_rounded_numbers(value: float | None, decimals: int, text: str) -> None:
    assert fixed(value, decimals) == text


@pytest.mark.parametrize(
    ("times_s", "name"),
    [
        ([10.0, 20.0], "seconds"),
        ([10.0, 7200.0], "hours"),
        ([172_800.0, math.nan], "days"),
        ([math.inf, 3.0], "seconds"),
    ],
)
def test_the_unit_of_times_fits_the_longest(times_s: list[float], name: str) -> None:
    assert time_unit(times_s).name == name


@given(st.floats(1e-3, 1e11))
def test_plain_numbers_read_back(value: float) -> None:
    assert float(plain(value).replace(",", "")) == pytest.approx(value, rel=1e-5)


def test_decimals_show_four_digits_of_the_median() -> None:
    assert decimals_for([0.5, 2.345, 900.0]) == 3
    assert decimals_for([12_345.0]) == 0
    assert decimals_for([math.nan, 0.0]) == 0


@pytest.mark.parametrize(
    ("column", "label"),
    [
        ("time_to_train_ratio", "time-to-train ratio"),
        ("strategy.redundancy", "redundancy r"),
        ("repeated_s", "compute repeated (hours)"),
        ("strategy.new_scheme.heart_beat_s", "new scheme heart beat"),
        ("checkpoint.spare_bandwidth_bytes_per_s", "spare bandwidth (B/s)"),
    ],
)
def test_columns_in_words(column: str, label: str) -> None:
    assert heading(column) == label


def test_settings_in_words() -> None:
    setting = {
        "strategy.name": "spare",
        "strategy.redundancy": 9.0,
        "failures.mtbf_s": 43200.0,
        "strategy.other": None,
        "x.y": math.nan,
    }
    assert setting_text(setting) == "spare, r = 9, MTBF = 12 h"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.000"), (-0.05, "−0.05000"), (12345.6, "12,346"), (999.96, "1000."), (math.inf, "∞"),
     (-math.inf, "−∞"), (math.nan, "–")],
)  # fmt: skip
def test_numbers_in_tables(value: float, text: str) -> None:
    assert number_text(value) == text.rstrip(".")
