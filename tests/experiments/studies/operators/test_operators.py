"""What operators report: incidents by hand, the verdicts, goodput at scale, and all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.config.mix_file import load_mix
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.job.failure_model import failure_model
from faultline.experiments.studies.operators import loop, scale
from faultline.experiments.studies.operators.incidents import (
    DAY_S,
    HOUR_S,
    Cluster,
    Incident,
    IncidentKind,
    incidents,
    scattered,
)
from faultline.experiments.studies.operators.loop import LoopJob
from faultline.experiments.studies.operators.scale import FAIL_STOP, KINDS
from faultline.experiments.studies.operators.study import (
    OperatorsStudy,
    draw_agreement,
    verdict_table,
)
from faultline.experiments.studies.stage import Stage
from faultline.simulator.failures.failure import STOPPING, Failure
from faultline.strategies.interface.recovery import SHRINK, rejoining
from matplotlib.figure import Figure

SPAN_S = 30 * DAY_S


def test_incidents_are_scattered_over_the_time_that_the_job_is_up() -> None:
    kinds = (
        IncidentKind("crash", 5, 60.0, 60.0, most_locate_s=600.0),
        IncidentKind("code", 3, restart_s=57.0),
    )
    found = scattered(kinds, DAY_S, 300.0, np.random.default_rng(2))
    assert sorted(one.cause for one in found) == ["code"] * 3 + ["crash"] * 5
    for one, later in pairwise(found):
        assert one.time_s + one.down_s + 300.0 <= later.time_s
    assert all(one.down_s == 57.0 for one in found if one.cause == "code")
    assert all(60.0 <= one.down_s <= 660.0 for one in found if one.cause == "crash")


def test_spares_step_in_and_without_any_a_job_waits_for_the_repair() -> None:
    """Every failure takes a node, repairs take 100 h: the third within that time has to wait."""
    cluster = Cluster(nodes=4, spares=1, node_mtbf_s=4 * 10 * HOUR_S, job_mtbf_s=1e15)
    found = incidents(cluster, 2000 * HOUR_S, np.random.default_rng(5))
    detection_s = {"xid-79": 180, "memory": 180, "fabric": 1800, "host": 300, "hang": 1800}
    waits_s = [one.down_s - detection_s[one.cause] for one in found]
    assert min(waits_s) == pytest.approx(0.0, abs=1e-6)
    assert max(waits_s) > HOUR_S
    hangs = [w for w, one in zip(waits_s, found, strict=True) if one.cause == "hang"]
    assert max(hangs) == pytest.approx(0.0, abs=1e-6)
    many = incidents(replace(cluster, spares=200), 2000 * HOUR_S, np.random.default_rng(5))
    assert all(one.down_s == pytest.approx(detection_s[one.cause]) for one in many)


def test_frail_nodes_fail_at_the_stated_rate() -> None:
    """2 of 4 nodes at 10 h, the others never: a failure every 5 h of running."""
    frail = Cluster(4, 0, 1e15, 1e15, frail_nodes=2, frail_mtbf_s=10 * HOUR_S, restart_s=0.0)
    found = incidents(replace(frail, repair_s=1e-3), 5000 * HOUR_S, np.random.default_rng(0))
    down_s = sum(one.down_s for one in found)
    rate = len(found) / (5000 * HOUR_S - down_s)
    assert rate * 5 * HOUR_S == pytest.approx(1.0, abs=0.13)


def test_the_loop_pays_what_an_incident_states(stage: Stage) -> None:
    """Two stops in 10 h: 1 h and 2 h down, 0.5 h to restart, each 600 s after a checkpoint.

    Checkpoints take no time: 10 h - 3 h - 1 h - 1,200 s are left.
    """
    stops = [
        Incident(3600.0 + 600.0, "gpu", 3600.0),
        Incident(6 * 3600.0 + 1200.0, "people", 7200.0),
    ]
    job = LoopJob(
        "X", "goodput", 10 / 24, 10.0, 1800.0, 1800.0, draw=lambda _: stops, sweep="by hand"
    )
    stage.seeds = 1
    with stage:
        found = loop.simulate(stage, [job])
    # The second: up again at 9,600 s from 3,600 s on, it is 10,200 s and 1,200 s past a checkpoint.
    up_again_s = 4200.0 + 3600.0 + 1800.0
    lost_s = 600.0 + (6 * 3600.0 + 1200.0 - up_again_s) % 1800.0
    left_s = 10 * 3600.0 - 3 * 3600.0 - 3600.0 - lost_s
    assert found.value.item() == pytest.approx(left_s / (10 * 3600.0), abs=12 / 36_000)
    assert list(found.columns) == list(loop.SAMPLE)


def _samples(values: dict[str, list[float]]) -> pd.DataFrame:
    rows = [
        ("X1", "goodput", "checkpoint", sweep, seed, value)
        for sweep, found in values.items()
        for seed, value in enumerate(found)
    ]
    return pd.DataFrame(rows, columns=list(loop.SAMPLE))


@pytest.mark.parametrize(
    ("published", "test", "values", "expected", "off"),
    [
        (0.80, "point", {"": [0.84, 0.86]}, "outside", 0.05),
        (0.80, "band", {"a": [0.7], "b": [0.78]}, "outside", -0.02),
        (0.80, "at least", {"a": [0.7], "b": [0.9]}, "partly", 0.0),
        (0.80, "unknown", {"": [0.8]}, "unknown", None),
        (None, "point", {"": [0.8]}, "withheld", None),
        (None, "ours", {"": [0.8]}, "not published", None),
    ],
)
def test_verdicts(
    published: float | None,
    test: Any,
    values: dict[str, list[float]],
    expected: str,
    off: float | None,
) -> None:
    output = {"setting": "X1", "quantity": "goodput", "published": published, "test": test}
    row = verdict_table((output,), _samples(values)).iloc[0]
    assert row.verdict == expected
    assert row.off == (None if off is None else pytest.approx(off))
    assert row.published == published
    if len(values) > 1:
        means = [float(np.mean(each)) for each in values.values()]
        assert (row.low, row.high) == pytest.approx((min(means), max(means)))
        assert row.hits in values


def _failures(has_excess: bool, label: str = "checkpoint", failing: str = KINDS) -> list[Failure]:
    keys = scale.scenario_keys(16_384, "Llama 3", has_excess, failing, label, "scalable", 30.0)
    return failure_model(load_scenario("head-to-head", keys)).failures_until(SPAN_S, seed=1)


def test_every_scheme_meets_the_same_failures() -> None:
    first, *others = (_failures(True, label) for label in scale.SCHEMES)
    assert len({one.kind for one in first}) > 5
    assert all(other == first for other in others)


def test_excess_comes_in_bursts() -> None:
    """As often as 2.8 times the rate, but most failures have another close behind."""
    stops = {
        excess: [one.time_s for one in _failures(excess) if one.kind in STOPPING]
        for excess in (False, True)
    }
    assert len(stops[True]) / len(stops[False]) == pytest.approx(scale.EXCESS, rel=0.2)
    mean_s = SPAN_S / len(stops[True])
    spread_out = 1.0 - np.exp(-600.0 / mean_s)
    assert np.mean(np.diff(stops[True]) < 600.0) > 2.0 * spread_out


@pytest.mark.parametrize("rate", scale.RATES)
def test_the_mixes_have_the_published_rate_of_interruptions(rate: str) -> None:
    """Stops, hangs and corruption; healthy machines and machines that are taken away are none."""
    unexpected = sum(
        cause.rate_per_gpu_s
        for cause in load_mix(scale.MIXES[rate]).causes()
        if cause.name not in ("false-alarm", "preemption")
        and cause.kind in {*STOPPING, "hang", "corrupt"}
    )
    assert unexpected * 8 * DAY_S == pytest.approx(scale.RATES[rate], rel=1e-9)


@pytest.mark.parametrize(("excess", "times"), [(False, 1.0), (True, 2.8)])
def test_the_control_only_stops_at_the_same_rate(excess: bool, times: float) -> None:
    keys = scale.scenario_keys(16_384, "Llama 3", excess, FAIL_STOP, "spare", "stock", 1.0)
    model = failure_model(load_scenario("head-to-head", keys))
    assert model.mtbf_s == pytest.approx(54 * DAY_S / 419 / times)
    assert {one.kind for one in _failures(excess, failing=FAIL_STOP)} <= STOPPING


def test_what_was_measured_at_scale_is_among_the_prices() -> None:
    """FT-HSDP's stalls take the place of prices, also of what a scheme states itself."""
    for label in ("replica-drop", "spare", "replication"):
        cell = (98_304, "Llama 3", True, KINDS, label)
        priced, measured = (
            recovery_prices(load_scenario("head-to-head", scale.scenario_keys(*cell, prices, 1.0)))
            for prices in ("scalable", "measured")
        )
        assert priced.duration_s(SHRINK) == pytest.approx(34.0, abs=0.5)
        assert measured.duration_s(SHRINK) == 180.0
        assert measured.duration_s(rejoining((0,))) == 100.0


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
    band = scale.bands(table).iloc[0]
    assert band.goodput == pytest.approx(0.5)
    assert band.high == pytest.approx(0.6)
    assert band.low == pytest.approx(0.5 - 2.776 * 0.0158114 / 5**0.5, abs=1e-4)


@pytest.mark.parametrize("label", scale.TAKE_OVERS)
def test_a_take_over_costs_communicators_and_a_copy(label: str) -> None:
    """More of them the larger the job is; no flow is simulated on 600,000 GPUs."""
    stated = []
    for gpus in (16_384, 98_304):
        keys = scale.scenario_keys(gpus, "Llama 3", False, scale.KINDS, label, "scalable", 1.0)
        names = ("take_over", "hand_back", "re_form", "local_rendezvous")
        stated.append({name: keys.get(f"times.{name}_s") for name in names})
    few, many = ({name: time_s for name, time_s in one.items() if time_s} for one in stated)
    assert few
    assert few.keys() == many.keys()
    assert min(few.values()) > 7.5
    assert sum(many.values()) > sum(few.values())


@pytest.mark.slow
def test_the_whole_study(
    stage: Stage, saved_bytes: Callable[[Figure], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least ten rows with full inputs within 3 points, among them torchft's run."""
    study = OperatorsStudy()
    # What is not published is simulated in less time than for its figure.
    monkeypatch.setattr(scale, "DAYS", {gpus: days / 6 for gpus, days in scale.DAYS.items()})
    with stage:
        results = study.simulate(stage)
    table = results["verdicts"]
    near = table[
        table.unit.eq("1")
        & table.published.notna()
        & table.verdict.eq("inside")
        & (table.simulated - table.published.fillna(0)).abs().le(0.03)
    ]
    assert near.setting.nunique() >= 10
    stress = table[(table.setting == "B1") & (table.quantity == "commits")]
    assert stress.simulated.item() == pytest.approx(0.823, abs=0.03)
    assert set(table[table.verdict == "outside"].setting) <= {"A6 1,024 GPUs", "D2"}
    rows = list(study.rows(results))
    records = study.records(results, rows)
    assert {one["published"] for one in records if one["verdict"] == "withheld"} == {None}
    assert saved_bytes(draw_agreement(table)) > 20_000
