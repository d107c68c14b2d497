"""Random failure sets and traces: their laws, by count and by expectation; and failing spares."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.studies.ntp.failures import (
    DAY_S,
    SOFTWARE_REPAIR_S,
    random_counts,
    simulate_trace,
    spares_needed,
    spares_table,
)
from faultline.experiments.studies.ntp.setting import StreamPurpose, stream, study_job
from faultline.strategies.schemes.ntp.replica_plan import Scheme
from hypothesis import given
from hypothesis import strategies as st


@given(domains=st.integers(1, 40), domain_gpus=st.integers(1, 32), data=st.data())
def test_every_failure_takes_a_gpu_of_its_own(
    domains: int, domain_gpus: int, data: st.DataObject
) -> None:
    failures = data.draw(st.integers(0, domains * domain_gpus))
    counts = random_counts(stream(0, StreamPurpose.PLACEMENTS), 3, failures, domains, domain_gpus)
    assert counts.shape == (3, domains)
    assert (counts.sum(axis=1) == failures).all()
    assert counts.max(initial=0) <= domain_gpus


def test_failures_are_uniform() -> None:
    """20,000 sets of 6 among 4 domains of 5: hypergeometric mean and variance, within 4 sigma."""
    counts = random_counts(stream(1, StreamPurpose.PLACEMENTS), 20_000, 6, 4, 5)
    variance = 6 * (1 / 4) * (3 / 4) * (20 - 6) / (20 - 1)
    spread = 4 * np.sqrt(variance / 20_000)
    assert counts.mean(axis=0) == pytest.approx([1.5] * 4, abs=spread)
    assert counts.var(axis=0) == pytest.approx([variance] * 4, rel=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_a_trace_records_gpus_that_fail_and_come_back(seed: int) -> None:
    """A small cluster that fails a lot, replayed by hand: no GPU fails that is not there."""
    often = {"duration_s": 30 * DAY_S, "failures_per_gpu_s": 0.05 / DAY_S}
    trace = simulate_trace(stream(seed, StreamPurpose.TRACE), 40, (3 * DAY_S, 5 * DAY_S), **often)
    gone: dict[int, float] = {}
    repairs: list[float] = []
    for time_s, gpu, change, failed in zip(
        trace.times_s, trace.gpus, trace.changes, trace.failed, strict=True
    ):
        if change == 1:
            assert gpu not in gone
            gone[int(gpu)] = float(time_s)
        else:
            repairs.append(float(time_s) - gone.pop(int(gpu)))
        assert failed == len(gone)
    allowed = np.array([SOFTWARE_REPAIR_S, 3 * DAY_S, 5 * DAY_S])
    nearest = np.abs(np.array(repairs)[:, np.newaxis] - allowed).argmin(axis=1)
    assert repairs == pytest.approx(allowed[nearest])
    assert set(nearest) == {0, 1, 2}
    counts = trace.domain_counts(5, 8)
    assert (counts.sum(axis=1) == trace.failed).all()
    assert (counts >= 0).all()
    # The 40 GPUs are cut into domains of 7: five GPUs are in none.
    assert (trace.domain_counts(5, 7).sum(axis=1) <= trace.failed).all()
    assert trace.lengths_s.sum() + trace.times_s[0] == pytest.approx(trace.duration_s)


def test_failed_gpus_settle_where_failures_and_repairs_balance() -> None:
    """Each GPU is healthy for 1/rate on average, then gone for its repair: share r/(r + 1/rate)."""
    rate = 0.02 / DAY_S
    rules = {"duration_s": 400 * DAY_S, "failures_per_gpu_s": rate, "hardware_share": 1.0}
    seeds = range(4)
    means = []
    for seed in seeds:
        trace = simulate_trace(stream(seed, StreamPurpose.TRACE), 400, (5 * DAY_S,), **rules)
        means.append(trace.failed / 400 @ trace.lengths_s / trace.duration_s)
    share = 5 / (5 + 1 / 0.02)
    # The first five days are still filling up: half of their share is missing.
    expected = share * (1 - 2.5 / 400)
    failures = 400 * 400 * 0.02 * (1 - share) * len(seeds)
    assert np.mean(means) == pytest.approx(expected, rel=4 / np.sqrt(failures))


def test_local_peaks_dominate_their_neighbours() -> None:
    often = {"duration_s": 30 * DAY_S, "failures_per_gpu_s": 0.05 / DAY_S}
    trace = simulate_trace(stream(2, StreamPurpose.TRACE), 100, **often)
    counts = trace.domain_counts(10, 10)
    peaks = counts[trace.local_peaks]
    assert 0 < len(peaks) < len(counts)
    for state in counts:
        assert (state <= peaks).all(axis=1).any()


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


@pytest.fixture(scope="module")
def spares() -> pd.DataFrame:
    """Return the spares of 40 traces, by scheme and whether spares fail."""
    table = spares_table([0], 40)
    return table.set_index(["how", "scheme"]).spares.sort_index()


@pytest.mark.paper("NTP", "90 spare domains of DP-DROP", "reproduce-ntp")
def test_the_published_ninety_lie_between_most_traces_and_the_worst(spares: pd.Series) -> None:
    drop, ntp, boosted = (spares["spares fail too", each.value] for each in Scheme)
    assert drop.quantile(0.95) <= 90 <= drop.max() + 8
    assert ntp.quantile(0.95) == 16
    assert (boosted == 0).all()


@pytest.mark.paper("NTP", "spare domains", "reproduce-ntp")
def test_spares_that_never_fail(spares: pd.Series) -> None:
    """NTP 16 and NTP-PW 0 as published; DP-DROP near 70 in whole replicas, which 90 is not.

    H hit domains become h (1 + s/D) if spares fail too, so s = h/(1 - h/D): within what a replica
    rounds.
    """
    drop, ntp, boosted = (spares["spares never fail", each.value] for each in Scheme)
    assert ntp.median() == 16
    assert boosted.max() == 0
    # Rounded up to whole replicas: by 3.5 on average, in both; the traces are not the same.
    hit, failing = drop.mean() - 3.5, spares["spares fail too", "dp-drop"]
    assert hit == pytest.approx(70, abs=4 * drop.std() / np.sqrt(len(drop)))
    error = 3 * float(np.hypot(drop.std(), failing.std())) / np.sqrt(len(drop))
    assert failing.mean() - 3.5 == pytest.approx(hit / (1 - hit / 1024), abs=error + 1)
