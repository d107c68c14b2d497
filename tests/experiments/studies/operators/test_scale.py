"""Goodput at scale: what fails is the same for every scheme, and comes as it is said to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.config.mix_file import load_mix
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.failure_model import failure_model
from faultline.experiments.studies.operators.scale import (
    DAYS,
    EXCESS,
    FAIL_STOP,
    KINDS,
    MIXES,
    RATES,
    SCHEMES,
    VARIANTS,
    bands,
    points,
    scenario_keys,
)
from faultline.simulator.failures.failure import STOPPING, Failure

DAY_S = 86_400.0
SPAN_S = 30 * DAY_S


def _failures(has_excess: bool, label: str = "checkpoint", failing: str = KINDS) -> list[Failure]:
    keys = scenario_keys(16_384, "Llama 3", has_excess, failing, label, "scalable", 30.0)
    return failure_model(load_scenario("head-to-head", keys)).failures_until(SPAN_S, seed=1)


def test_every_scheme_meets_the_same_failures() -> None:
    first, *others = (_failures(True, label) for label in SCHEMES)
    assert len({one.kind for one in first}) > 5
    assert all(other == first for other in others)


def test_excess_comes_in_bursts() -> None:
    """As often as 2.8 times the rate, but most failures have another close behind."""
    stops = {
        excess: [one.time_s for one in _failures(excess) if one.kind in STOPPING]
        for excess in (False, True)
    }
    assert len(stops[True]) / len(stops[False]) == pytest.approx(EXCESS, rel=0.2)
    mean_s = SPAN_S / len(stops[True])
    spread_out = 1.0 - np.exp(-600.0 / mean_s)
    assert np.mean(np.diff(stops[True]) < 600.0) > 2.0 * spread_out


@pytest.mark.parametrize("rate", RATES)
def test_the_mixes_have_the_published_rate_of_interruptions(rate: str) -> None:
    """Stops, hangs and corruption; healthy machines and machines that are taken away are none."""
    unexpected = sum(
        cause.rate_per_gpu_s
        for cause in load_mix(MIXES[rate]).causes()
        if cause.name not in ("false-alarm", "preemption")
        and cause.kind in {*STOPPING, "hang", "corrupt"}
    )
    assert unexpected * 8 * DAY_S == pytest.approx(RATES[rate], rel=1e-9)


@pytest.mark.parametrize(("excess", "times"), [(False, 1.0), (True, 2.8)])
def test_the_control_only_stops_at_the_same_rate(excess: bool, times: float) -> None:
    keys = scenario_keys(16_384, "Llama 3", excess, FAIL_STOP, "spare", "stock", 1.0)
    model = failure_model(load_scenario("head-to-head", keys))
    assert model.mtbf_s == pytest.approx(54 * DAY_S / 419 / times)
    assert {one.kind for one in _failures(excess, failing=FAIL_STOP)} <= STOPPING


def test_every_variant_is_another_scenario(tmp_path: Path) -> None:
    found = list(points(1, 1, tmp_path))
    varied = {dict(one.labels)["variant"] for one in found}
    assert varied == {"", *VARIANTS}
    assert {one.scenario.job.gpus for one in found} == set(DAYS)
    texts = {file.read_text() for file in tmp_path.iterdir()}
    assert len(texts) == sum(bool(one.edits) for one in VARIANTS.values())


def test_a_band_holds_recoveries_and_the_intervals_over_seeds() -> None:
    """Of five seeds, 2.776 standard errors; ends as they are where seeds do not differ."""
    cell = {"gpus": 1, "rate": "", "excess": False, "failing": KINDS, "variant": "", "label": ""}
    by_prices = {
        "standby": [0.6] * 5,
        "scalable": [0.48, 0.49, 0.5, 0.51, 0.52],
        "stock": [0.5] * 5,
    }
    table = pd.DataFrame(
        {**cell, "prices": prices, "goodput": goodput}
        for prices, values in by_prices.items()
        for goodput in values
    )
    band = bands(table).iloc[0]
    assert band.goodput == pytest.approx(0.5)
    assert band.high == pytest.approx(0.6)
    assert band.low == pytest.approx(0.5 - 2.776 * 0.0158114 / 5**0.5, abs=1e-4)
