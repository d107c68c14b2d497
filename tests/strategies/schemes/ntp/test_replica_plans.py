"""Degrees, power and local batches: published cases, by hand, and invariants."""

from __future__ import annotations

import pytest
from faultline.strategies.schemes.ntp.replica_plan import (
    DROPPED,
    MOST_PERFORMANCE,
    MOST_POWER,
    ReplicaPlan,
    ReplicaRules,
    Scheme,
    performance,
    pipeline_time,
    power_for,
    reduced_degree,
    replica_plan,
    replica_plans,
)
from hypothesis import given
from hypothesis import strategies as st


def pipelined_time(degree: int, sequences: int, pace: float) -> float:
    """Eight stages, one forward and one backward: m - 1 + p, and a tenth that does not shrink."""
    return (sequences + 7) / (degree * pace) + 0.1


def test_degrees_that_were_published() -> None:
    """32 GPUs: TP30 up to two failed ones, TP28 for three or four; 64: TP62."""
    assert [reduced_degree(32, failed) for failed in range(5)] == [32, 30, 30, 28, 28]
    assert [reduced_degree(64, failed) for failed in range(3)] == [64, 62, 62]
    assert [reduced_degree(8, failed) for failed in range(3)] == [8, 7, 6]
    assert reduced_degree(32, 32) == 0
    assert reduced_degree(32, 5, 28) == 0


@given(st.integers(1, 144), st.data())
def test_a_reduced_domain_has_the_gpus_it_runs_on(domain_gpus: int, data: st.DataObject) -> None:
    failed = data.draw(st.integers(0, domain_gpus))
    degree = reduced_degree(domain_gpus, failed)
    assert 0 <= degree <= domain_gpus - failed
    assert domain_gpus - failed - degree < (2 if domain_gpus >= 32 else 1) or degree == 0
    if failed:
        assert degree <= reduced_degree(domain_gpus, failed - 1)


def test_the_power_curve_at_published_points() -> None:
    """Performance per watt: 2.8 % less at 1.1 times the power, 6.5 % less at 1.2 times."""
    assert performance(1.0) == 1.0
    assert performance(1.1) / 1.1 == pytest.approx(1 - 0.028, abs=1e-9)
    assert performance(1.2) / 1.2 == pytest.approx(1 - 0.065, abs=1e-9)
    assert power_for(32 / 30) == pytest.approx(1.10, abs=0.005)
    assert power_for(32 / 28) == pytest.approx(1.25, abs=0.005)
    assert power_for(0.9) == 1.0
    assert power_for(32 / 26) is None


@given(st.floats(1.0, 1.3))
def test_the_curve_is_inverted(power: float) -> None:
    assert power_for(performance(power)) == pytest.approx(power, abs=1e-9)


def test_plans_by_hand() -> None:
    """Eight sequences at TP32; 8 * 30/32 = 7.5 and 8 * 28/32 = 7 at a pace in proportion."""
    rules = ReplicaRules(32, 8, pipeline_time(0.0))
    assert replica_plan(Scheme.DP_DROP, 1, rules) == DROPPED
    assert replica_plan(Scheme.NTP, 0, rules) == ReplicaPlan(32, 8)
    assert replica_plan(Scheme.NTP, 2, rules) == ReplicaPlan(30, 7)
    assert replica_plan(Scheme.NTP, 3, rules) == ReplicaPlan(28, 7)
    boosted = replica_plan(Scheme.NTP_PW, 1, rules)
    assert (boosted.degree, boosted.sequences) == (30, 8)
    assert boosted.power == pytest.approx(power_for(32 / 30))
    # TP26 would need 1.23 times the pace, and has 1.156: 8 * 26/32 * 1.156 = 7.5.
    stretched = replica_plan(Scheme.NTP_PW, 5, rules)
    assert (stretched.degree, stretched.sequences) == (26, 7)
    assert stretched.power == pytest.approx(power_for(7 / 8 * 32 / 26))
    assert replica_plan(Scheme.NTP_PW, 31, ReplicaRules(32, 8, pipeline_time(0.0))) == DROPPED


def test_a_pipeline_cuts_the_batch_further() -> None:
    """(m + 7)/28 <= 15/32: 6.1; (m + 7)/30: 7.06."""
    rules = ReplicaRules(32, 8, pipeline_time(7))
    assert replica_plan(Scheme.NTP, 1, rules).sequences == 7
    assert replica_plan(Scheme.NTP, 3, rules).sequences == 6


@pytest.mark.parametrize("iteration_s", [pipeline_time(0.0), pipelined_time])
@given(domain_gpus=st.integers(1, 72), local_batch=st.integers(1, 24))
def test_no_replica_is_late_and_better_schemes_do_more(
    iteration_s: object, domain_gpus: int, local_batch: int
) -> None:
    rules = ReplicaRules(domain_gpus, local_batch, iteration_s)  # type: ignore[arg-type]
    table = {scheme: replica_plans(scheme, rules) for scheme in Scheme}
    for scheme, plans in table.items():
        assert plans[0] == ReplicaPlan(domain_gpus, local_batch)
        for failed, plan in enumerate(plans):
            assert 1.0 <= plan.power <= MOST_POWER
            assert scheme is Scheme.NTP_PW or plan.power == 1.0
            if failed:
                assert plan.sequences <= plans[failed - 1].sequences
            if plan == DROPPED:
                continue
            pace = performance(plan.power)
            assert rules.in_time(plan.degree, plan.sequences, pace)
            # One more sequence would be late, even at the highest power where that is allowed.
            most = MOST_PERFORMANCE if scheme is Scheme.NTP_PW else 1.0
            if plan.sequences < local_batch:
                assert not rules.in_time(plan.degree, plan.sequences + 1, most)
    for drop, ntp, boosted in zip(*(table[scheme] for scheme in Scheme), strict=True):
        assert drop.sequences <= ntp.sequences <= boosted.sequences
