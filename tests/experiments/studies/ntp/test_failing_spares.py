"""Spare domains that fail like all others."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.experiments.studies.ntp import published
from faultline.experiments.studies.ntp.setting import study_job
from faultline.experiments.studies.ntp.traces import (
    failing_spares_table,
    spares_needed,
    trace_table,
)
from faultline.strategies.nonuniform.replica_plan import Scheme


def test_spares_by_hand() -> None:
    """Nine hit domains call for two replicas of spares, and for three if eight spares are hit."""
    job = study_job()
    counts = np.zeros((1, 1024 + 32), dtype=np.int16)
    counts[0, :9] = 1
    assert spares_needed(counts, job, Scheme.DP_DROP) == 16
    counts[0, 1024:1032] = 1
    assert spares_needed(counts, job, Scheme.DP_DROP) == 24
    # Two replicas at 7 of 8 sequences each lack two: one more replica makes up for eight.
    assert spares_needed(counts, job, Scheme.NTP) == 8
    assert spares_needed(counts, job, Scheme.NTP_PW) == 0
    counts[0] = 1
    with pytest.raises(ValueError, match="32 spare domains are not enough"):
        spares_needed(counts, job, Scheme.DP_DROP)


def test_the_published_ninety_lie_between_most_traces_and_the_worst() -> None:
    table = failing_spares_table("5 days", [0], 40)
    drop = table[table.scheme == "dp-drop"].spares
    assert drop.quantile(0.95) <= published.SPARE_DOMAINS["dp-drop"] <= drop.max() + 8
    assert table[table.scheme == "ntp"].spares.quantile(0.95) == published.SPARE_DOMAINS["ntp"]
    assert (table[table.scheme == "ntp-pw"].spares == 0).all()


@pytest.mark.slow
def test_spares_that_fail_are_needed_in_larger_numbers() -> None:
    """H hit domains become h (1 + s/D), so s = h/(1 - h/D): within what a replica rounds."""
    failing = failing_spares_table("5 days", [0], 20)
    healthy = trace_table([0], 20)
    plain = healthy[(healthy.repair == "5 days") & (healthy.rate_factor == 1)]
    hit = plain["spares_dp-drop"].mean()
    expected = hit / (1 - hit / 1024)
    found = failing[failing.scheme == "dp-drop"].spares
    # Rounded up to whole replicas: by 3.5 on average, in both; the traces are not the same.
    error = 3 * float(np.hypot(found.std(), plain["spares_dp-drop"].std())) / np.sqrt(20)
    assert found.mean() - 3.5 == pytest.approx(expected, abs=error + 1)
