"""Fits of logs: what they were drawn from is within the intervals as often as it should be."""

from __future__ import annotations

from itertools import islice
from math import gamma
from pathlib import Path

import numpy as np
import pytest
from faultline.experiments.analysis.failure_fit import (
    Fit,
    fit,
    fit_gaps,
    fit_lemons,
    fit_repair,
    mix_text,
    rate,
    weibull_shape,
)
from faultline.experiments.config.logs.failure_log import FailureLog, Logged
from faultline.experiments.config.mix_file import PER_1000_NODE_DAYS, load_mix
from faultline.experiments.figures.failures import draw_fit
from faultline.simulator.failures.distributions import Uniform
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.failures.mix import Cause, CauseMix
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

DAY_S = 86_400.0
NODES = 128
LAYOUT = JobLayout(NODES, 8, 8, 8, 16)
CAUSES = (
    Cause("gpu-memory", "gpu", "hardware", 2.0 / PER_1000_NODE_DAYS, Uniform(3e3, 5e3)),
    Cause("bug", "job", "software", 0.6 / PER_1000_NODE_DAYS),
    Cause("young", "host", "hardware", 3.0 / PER_1000_NODE_DAYS, None, 0.7),
)


def drawn(causes: tuple[Cause, ...], seed: int, days: float = 365.0) -> FailureLog:
    """Draw a log of a known mix."""
    batches = CauseMix(causes, LAYOUT).batches(seed)
    failures = []
    for batch in islice(batches, 1_000):
        failures += [Logged(*one[:6]) for one in batch]
        if failures and failures[-1].time_s > days * DAY_S:
            break
    kept = tuple(one for one in failures if one.time_s <= days * DAY_S)
    names = tuple(f"n{number}" for number in range(NODES))
    return FailureLog("log", "drawn", kept, names, 8, days * DAY_S, NODES * days * DAY_S)


@pytest.mark.parametrize("seeds", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_rates_of_a_known_mix_are_within_their_intervals_95_times_of_100(seeds: int) -> None:
    """Fewer than 15 of 20, or 87 of 100, would come by chance once in a thousand times."""
    least = int(stats.binom.ppf(0.001, seeds, 0.95))
    found = {cause.name: 0 for cause in CAUSES}
    shapes = 0
    for seed in range(seeds):
        fitted = {cause.name: cause for cause in fit(drawn(CAUSES, seed)).causes}
        for cause in CAUSES:
            estimate = fitted[cause.name].rate_per_gpu_s
            found[cause.name] += estimate.low <= cause.rate_per_gpu_s <= estimate.high
        shape = fitted["young"].gaps.shape
        assert shape is not None
        shapes += shape.low <= 0.7 <= shape.high
    assert min(found.values()) >= least
    assert shapes >= least


def test_an_exact_interval_by_hand() -> None:
    """After no failure at most 3.69 were to be expected; after ten (Garwood) 4.8 to 18.4."""
    none = rate(0, 10.0)
    assert (none.mean, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(-np.log(0.025) / 10)
    ten = rate(10, 1.0)
    assert (ten.low, ten.high) == (pytest.approx(4.795, abs=1e-3), pytest.approx(18.39, abs=1e-2))
    # Four times the variance: as if a quarter had been counted, of four each.
    wide = rate(40, 1.0, dispersion=4.0)
    assert (wide.low, wide.high) == (pytest.approx(4 * ten.low), pytest.approx(4 * ten.high))


@pytest.mark.parametrize("shape", [0.6, 1.0, 1.7])
def test_a_shape_and_what_speaks_against_it(shape: float) -> None:
    gaps = np.random.default_rng(1).weibull(shape, 3_000) / gamma(1 + 1 / shape)
    times = np.cumsum(gaps)
    found = fit_gaps([*times], float(times[-1]))
    assert found.shape is not None
    assert found.shape.low < shape < found.shape.high
    assert found.memoryless == (shape == 1.0)
    assert found.p_weibull is not None
    assert found.p_exponential is not None
    assert found.p_weibull > 0.01
    assert (found.p_exponential < 0.01) == (shape != 1.0)


def test_a_weibull_fit_is_that_of_scipy() -> None:
    gaps = np.random.default_rng(2).weibull(0.8, 400)
    shape, _, _ = stats.weibull_min.fit(gaps, floc=0)
    assert weibull_shape(np.sort(gaps)) == pytest.approx(shape, rel=1e-3)


def test_neither_shape_is_refused_more_often_than_stated() -> None:
    """Of memoryless gaps 5 % have p below 0.05: at most 17 of 150 but once in a thousand times."""
    rng = np.random.default_rng(3)
    fits = []
    for _ in range(150):
        times = np.cumsum(rng.exponential(1, 200))
        fits.append(fit_gaps([*times[times < 60.0]], 60.0))
    most = int(stats.binom.ppf(0.999, 150, 0.05))
    assert sum((one.p_exponential or 0) < 0.05 for one in fits) <= most
    assert sum((one.p_weibull or 0) < 0.05 for one in fits) <= most


def test_failures_of_one_instant_are_counted_and_few_gaps_have_no_shape() -> None:
    found = fit_gaps([0.0, 5.0, 5.0, 5.0, 9.0], 10.0)
    assert (found.same_instant, list(found.times_s), found.shape) == (2, [4.0, 5.0], None)
    assert found.memoryless
    assert fit_gaps([3.0, 3.0], 10.0).times_s.size == 0


@pytest.mark.parametrize("shape", [0.15, 1.0])
def test_lemons(shape: float) -> None:
    """Where 5 % of the nodes have half of all failures, the shape is 0.15."""
    rng = np.random.default_rng(4)
    inside = 0
    for _ in range(60):
        found = fit_lemons(rng.poisson(2 * rng.gamma(shape, 1 / shape, 400)))
        assert found is not None
        inside += found.shape.low <= shape <= found.shape.high
        assert found.p_alike < 1e-6
        if shape == 0.15:
            assert found.worst_share == pytest.approx(0.5, abs=0.12)
    assert inside >= stats.binom.ppf(0.001, 60, 0.95)


def test_nodes_that_are_alike_are_no_lemons() -> None:
    rng = np.random.default_rng(5)
    found = [fit_lemons(rng.poisson(2, 400)) for _ in range(60)]
    assert sum(one is not None and one.p_alike < 0.05 for one in found) <= 9
    assert any(one is not None and one.shape.mean == np.inf for one in found)
    assert fit_lemons(np.zeros(400, dtype=np.int64)) is None


def test_a_repair_is_fitted_as_lognormal() -> None:
    assert fit_repair([]) is None
    many = fit_repair([*np.random.default_rng(6).lognormal(8.0, 1.9, 4_000)])
    assert many is not None
    assert many.sigma == pytest.approx(1.9, rel=0.05)
    assert many.scale_s == pytest.approx(np.exp(8.0), rel=0.15)


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return fit(drawn(CAUSES, 7))


def test_the_mix_is_one_that_scenarios_can_use(fitted: Fit, tmp_path: Path) -> None:
    path = tmp_path / "fitted.toml"
    path.write_text(mix_text(fitted), encoding="utf-8")
    causes = {cause.name: cause for cause in load_mix(str(path)).causes()}
    assert set(causes) == {cause.name for cause in CAUSES}
    for known in CAUSES:
        cause = causes[known.name]
        assert (cause.level, cause.kind) == (known.level, known.kind)
        assert cause.rate_per_gpu_s == pytest.approx(known.rate_per_gpu_s, rel=0.3)
        assert (cause.shape is None) == (known.shape is None)
    assert causes["gpu-memory"].repair is not None
    assert causes["gpu-memory"].repair.mean_s == pytest.approx(4e3, rel=0.05)


def test_a_cause_at_two_levels_is_two_of_a_mix(tmp_path: Path) -> None:
    """The most frequent level would make failures of single nodes ones of the whole job."""
    job = Logged(5.0, "job", 0, "failed", "software", None)
    node = job._replace(time_s=9.0, level="host", number=None)
    failures = (job, job._replace(time_s=6.0), node)
    path = tmp_path / "mix.toml"
    path.write_text(mix_text(fit(FailureLog("l", "CSV", failures, ("a",), 8, 10.0, 10.0))))
    causes = {cause.name: cause for cause in load_mix(str(path)).causes()}
    assert {name: cause.level for name, cause in causes.items()} == {
        "failed-job": "job", "failed-host": "host"
    }  # fmt: skip
    assert causes["failed-job"].rate_per_gpu_s == pytest.approx(2 / (8 * 10.0))


def test_lemons_need_the_nodes_of_most_failures() -> None:
    """Ten failures of single-node jobs on one node of 64 say nothing about the other 63."""
    named = [Logged(float(at), "host", 0, "fan", "hardware", None) for at in range(10)]
    unnamed = [one._replace(number=None) for one in named]
    names = tuple(f"n{number}" for number in range(64))

    def lemons(*failures: Logged) -> bool:
        log = FailureLog("l", "CSV", failures, names, 8, 20.0, 20.0 * 64)
        return fit(log).lemons is not None

    assert lemons(*named)
    assert lemons(*named, *unnamed[:9])
    assert not lemons(*named, *unnamed)


def test_names_that_no_mix_may_have(tmp_path: Path) -> None:
    one = Logged(5.0, "host", 0, "GPU Memory!", "hardware", 60.0)
    other = one._replace(time_s=9.0, cause="gpu memory")
    third = one._replace(time_s=9.5, cause="™")
    log = FailureLog('"odd"\nname', "CSV", (one, other, third), ("a",), 8, 10.0, 10.0)
    path = tmp_path / "mix.toml"
    path.write_text(mix_text(fit(log)), encoding="utf-8")
    names = [cause.name for cause in load_mix(str(path)).causes()]
    assert sorted(names) == ["cause", "gpu-memory", "gpu-memory-2"]


@settings(deadline=None)
@given(
    times=st.lists(st.floats(0, 1e15) | st.integers(0, 9), min_size=1, max_size=60),
    repairs=st.lists(st.none() | st.floats(0, 1e15), min_size=1, max_size=3),
    causes=st.integers(1, 3),
    nodes=st.integers(1, 40),
)
def test_any_log_can_be_fitted_and_its_mix_be_read(
    tmp_path_factory: pytest.TempPathFactory,
    times: list[float],
    repairs: list[float | None],
    causes: int,
    nodes: int,
) -> None:
    failures = tuple(
        Logged(float(at), "host", n % nodes, f"c{n % causes}", "network", repairs[n % len(repairs)])
        for n, at in enumerate(sorted(times))
    )
    names, span_s = tuple(f"n{number}" for number in range(nodes)), max(times) + 1.0
    log = FailureLog("log", "CSV", failures, names, 8, span_s, span_s * nodes)
    path = tmp_path_factory.getbasetemp() / "any-mix.toml"
    path.write_text(mix_text(fit(log)), encoding="utf-8")
    assert len(load_mix(str(path)).causes()) == min(causes, len(times))


def test_the_figure(fitted: Fit, tmp_path: Path) -> None:
    only = Logged(5.0, "host", 0, "a", "hardware", None)
    lonely = fit(FailureLog("l", "CSV", (only,), ("a",), 8, 9e9, 1))
    for number, one in enumerate((fitted, lonely)):
        path = draw_fit(one, "a $log$", tmp_path / f"{number}.png")
        assert path.stat().st_size > 10_000
