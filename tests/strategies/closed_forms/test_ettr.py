"""The effective training time ratio: by hand, and where the form's own assumption holds."""

from __future__ import annotations

import pytest
from faultline.strategies.closed_forms.ettr import (
    expected_ettr,
    expected_ettr_with_queue,
    job_failures_per_s,
)


def test_by_hand() -> None:
    """13 failures a day; each loses 5 min and half an hour: 13 * 35 / 1,440 of the time."""
    failures_per_s = job_failures_per_s(2000, 6.5e-3)
    assert failures_per_s * 86_400 == pytest.approx(13.0)
    assert expected_ettr(failures_per_s, 300.0, 3600.0) == pytest.approx(1 - 13 * 35 / 1440)
    assert expected_ettr(0.0, 300.0, 3600.0, 400.0) == pytest.approx(0.9)


def test_a_queue_is_paid_at_the_start_and_with_each_failure() -> None:
    rate, day_s = 1 / 86_400, 86_400.0
    with_queue = expected_ettr_with_queue(rate, 0.0, 0.0, 8640.0, 10 * day_s)
    assert with_queue == pytest.approx(1 / (1 + 0.01 + 0.1))
    assert expected_ettr_with_queue(rate, 0.0, 3600.0, 0.0, 1e15) == pytest.approx(
        expected_ettr(rate, 0.0, 3600.0)
    )
