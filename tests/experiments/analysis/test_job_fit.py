"""Fits to a job's log, against scipy, closed forms, and logs of known times."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.experiments.analysis.job_fit import fit_job, fit_start_times
from faultline.experiments.analysis.learned_job import learned_job, scenario_text
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs.goodput_log import GoodputLog, LoggedLife
from faultline.experiments.config.mix_file import GPUS_PER_NODE
from faultline.experiments.config.scenario_file import ScenarioSource
from scipy import stats


def log_of(
    lengths_s: list[float],
    rng: np.random.Generator,
    load_s: float = 100.0,
    warm_up_s: float = 120.0,
    step_s: float = 8.0,
    every: int = 20,
) -> GoodputLog:
    """Return a log of lives of these lengths; each time has a spread of 3 %."""
    lives, start_s, step = [], 0.0, 0
    for length_s in lengths_s:
        at_s = load_s * rng.normal(1.0, 0.03)
        loaded = (start_s + at_s, step) if at_s < length_s else None
        saves = []
        at_s += warm_up_s * rng.normal(1.0, 0.03)
        while (at_s := at_s + every * step_s * rng.normal(1.0, 0.03)) < length_s:
            step += every
            saves.append((start_s + at_s, step))
        lives.append(LoggedLife(start_s, start_s + length_s, 4, loaded, tuple(saves)))
        start_s += length_s
    return GoodputLog("log", tuple(lives), 4, ("train",), "")


def test_the_shape_is_that_of_scipy_with_censored_times() -> None:
    rng = np.random.default_rng(1)
    times_s = (500.0 * rng.weibull(1.4, 60)).tolist()
    ended, under_way = [min(time_s, 700.0) for time_s in times_s if time_s < 700.0], [700.0] * 10
    ours = fit_start_times(ended, under_way)
    censored = stats.CensoredData(uncensored=ended, right=under_way)
    shape, _, scale = stats.weibull_min.fit(censored, floc=0.0)
    assert ours.shape.mean == pytest.approx(shape, rel=1e-3)
    assert np.exp(ours.log_scale) == pytest.approx(scale, rel=1e-3)


def test_the_covariance_is_the_curvature_of_the_likelihood() -> None:
    rng = np.random.default_rng(2)
    ended = np.asarray(300.0 * rng.weibull(0.8, 40))
    fit = fit_start_times(ended.tolist(), [250.0])

    def likelihood(at: np.ndarray) -> float:
        scale, shape = np.exp(at)
        found = stats.weibull_min.logpdf(ended, shape, scale=scale).sum()
        return float(found + stats.weibull_min.logsf(250.0, shape, scale=scale))

    best, step = np.array([fit.log_scale, fit.log_shape]), 1e-3
    steps = step * np.eye(2)
    curvature = [
        [
            likelihood(best + one + other)
            - likelihood(best + one - other)
            - likelihood(best - one + other)
            + likelihood(best - one - other)
            for other in steps
        ]
        for one in steps
    ]
    information = -np.array(curvature) / (4 * step**2)
    np.testing.assert_allclose(np.linalg.inv(fit.covariance), information, rtol=1e-4)


def test_times_of_a_log_come_back() -> None:
    rng = np.random.default_rng(3)
    fit = fit_job(log_of((900.0 * rng.weibull(1.2, 200)).tolist(), rng))
    assert fit.interval_steps == 20
    assert fit.step_s.mean == pytest.approx(8.0, rel=0.01)
    assert fit.start_to_load_s.mean == pytest.approx(100.0, rel=0.01)
    assert fit.warm_up_s.mean == pytest.approx(120.0, rel=0.02)
    assert fit.restart_s == pytest.approx(220.0, rel=0.02)


def test_too_few_lifetimes_are_refused() -> None:
    with pytest.raises(UserError, match="too few"):
        fit_job(log_of([2000.0, 2000.0], np.random.default_rng(4)))


@pytest.mark.slow
def test_intervals_hold_the_true_values_at_their_stated_rate() -> None:
    truth_s = {"mean_s": 900.0, "shape": 1.3, "step_s": 8.0, "start_to_load_s": 100.0}
    held = dict.fromkeys(truth_s, 0)
    scale_s = 900.0 / stats.weibull_min.mean(1.3)
    seeds = 400
    for seed in range(seeds):
        rng = np.random.default_rng([5, seed])
        fit = fit_job(log_of((scale_s * rng.weibull(1.3, 60)).tolist(), rng))
        starts = fit.between_starts
        found = {
            "mean_s": starts.mean_s,
            "shape": starts.shape,
            "step_s": fit.step_s,
            "start_to_load_s": fit.start_to_load_s,
        }
        for name, value in truth_s.items():
            held[name] += found[name].low <= value <= found[name].high
    shares = {name: count / seeds for name, count in held.items()}
    assert all(0.90 <= share <= 0.99 for share in shares.values()), shares


def test_the_learned_job_is_that_of_the_printed_file() -> None:
    """The file has its numbers rounded to six digits, and the shape to four."""
    rng = np.random.default_rng(6)
    fit = fit_job(log_of((900.0 * rng.weibull(1.2, 200)).tolist(), rng))
    printed = ScenarioSource.of_text("printed", scenario_text(GPUS_PER_NODE, fit)).scenario()
    built = learned_job(fit)
    for table in ("job", "strategy", "restart", "checkpoint", "failures", "times"):
        stated = getattr(printed, table).model_dump(exclude={"kinds"}, exclude_none=True)
        ours = getattr(built, table).model_dump(exclude={"kinds"}, exclude_none=True)
        for key, value in stated.items():
            is_number = isinstance(value, float)
            assert ours[key] == (pytest.approx(value, rel=1e-3) if is_number else value), key
