"""The failures of the head-to-head: their past, and the spares that they call for."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.experiments.studies.head_to_head.failures import (
    DAY_S,
    FailureProcess,
    apply_past_failures,
    still_under_repair,
)
from faultline.simulator.failures.failure import JobLayout
from faultline.strategies.plugins.registry import build_strategy
from scipy.stats import poisson

_LAYOUT = JobLayout(64, 512, 8, 32, 512)


def test_spares_suffice_19_times_in_20() -> None:
    process = FailureProcess(_LAYOUT, 3600.0)
    mean = 0.78 * 4 * DAY_S / 3600.0
    hosts = process.spare_gpus() / 8
    assert poisson.cdf(hosts, mean) == pytest.approx(0.95, abs=0.02)
    domains = FailureProcess(_LAYOUT, 3600.0, 1.0).spare_gpus() / 32
    assert poisson.cdf(domains, 4 * DAY_S / 3600.0) == pytest.approx(0.95, abs=0.02)


def test_what_is_broken_at_the_start_is_rate_times_repair_time() -> None:
    process = FailureProcess(_LAYOUT, 3600.0)
    counts = [len(still_under_repair(process.past_failures(seed))) for seed in range(40)]
    expected = (0.78 * 4 * DAY_S + 0.22 * 3 * 3600.0) / 3600.0
    # A mean of 40 Poisson numbers.
    assert np.mean(counts) == pytest.approx(expected, abs=4 * (expected / 40) ** 0.5)


def test_the_past_is_over_and_depends_on_the_seed_alone() -> None:
    process = FailureProcess(_LAYOUT, 600.0, 0.5)
    past = process.past_failures(3)
    assert all(one.time_s <= 0.0 for one in past)
    assert past == process.past_failures(3)
    assert past != process.past_failures(4)
    share = sum(one.level == "domain" for one in past) / len(past)
    assert share == pytest.approx(0.5, abs=0.1)


def test_a_scheme_that_restarts_without_new_hardware_enters_with_what_is_broken() -> None:
    process = FailureProcess(_LAYOUT, 3600.0)
    past = process.past_failures(0)
    damage = apply_past_failures(build_strategy("dp-drop", 64, 1), past, _LAYOUT).damage
    assert len(damage) == len(still_under_repair(past))
    assert all(repaired_s > 0.0 for repaired_s, _ in damage)


def test_spares_take_the_places_of_groups_that_were_dropped() -> None:
    """A failure every 600 s: of those of the last 900 s one or two groups are down at a time."""
    down, waiting = [], []
    for seed in range(20):
        past = FailureProcess(_LAYOUT, 600.0).past_failures(seed)
        scheme, parts_down = build_strategy("spare", 64, 6), build_strategy("spare", 64, 6)
        dropped = apply_past_failures(scheme, past, _LAYOUT, absence_s=lambda _: 900.0).dropped
        assert all(0.0 < returns_s <= 900.0 for returns_s in dropped.values())
        assert set(dropped) == set(range(64)) - set(scheme.plan().members)
        apply_past_failures(parts_down, past, _LAYOUT)
        down.append(len(dropped))
        waiting.append(64 - len(parts_down.plan().members))
    assert 0.5 < np.mean(down) < 2.5
    assert np.mean(waiting) > 5 * np.mean(down)
