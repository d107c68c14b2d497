"""Predicts the second part of a job's log from the first, by the training loop, and compares.

Times and the distribution of starts are fitted on the first part alone. Each run of the second part
draws them anew, within the uncertainty of the fit, and simulates a job of the same length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from faultline.experiments.analysis.job_fit import (
    Z95,
    JobFit,
    between_starts,
    fit_job,
    loads_of,
    steps_of,
)
from faultline.experiments.analysis.job_lives import lives_of
from faultline.experiments.analysis.learned_job import learned_job
from faultline.experiments.config.logs.goodput_log import GoodputLog
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.single_run import run
from faultline.simulator.accounting.timeline import Event
from numpy.typing import NDArray
from scipy import stats

RUNS = 200
"""Runs of a prediction by default."""

BAND = 0.80
_LEAST_S = 1e-3
_AHEAD = 5.0
"""Simulated mean lives in addition to the window, because the window begins with a start."""

Floats = NDArray[np.float64]
OnDone = Callable[[], None] | None


class Measures(NamedTuple):
    """The results of a part of a job."""

    steps_kept: float
    goodput: float
    starts: float
    lives_without_save: float  # As a share of the lives that ended.


MEASURES = {
    "steps_kept": "steps kept",
    "goodput": "goodput",
    "starts": "starts",
    "lives_without_save": "lives that saved nothing",
}


@dataclass(frozen=True)
class BacktestPrediction:
    """Simulated courses of a job over a window that begins with a start."""

    span_s: float  # Length of the window, in seconds.
    measures: dict[str, Floats]  # A value per run, by measure.
    times_s: Floats  # Times in the window, in seconds.
    kept: Floats  # Steps kept by these times: shape (runs, times).

    def band(self, measure: str) -> tuple[float, float, float]:
        """Return the lower bound, median and upper bound of the 80 % band of a measure."""
        low, middle, high = band_of(self.measures[measure]).tolist()
        return low, middle, high


def band_of(runs: Floats) -> Floats:
    """Return the lower bounds, medians and upper bounds of 80 % bands; runs are the first axis."""
    quantiles: Floats = np.quantile(runs, [(1 - BAND) / 2, 0.5, (1 + BAND) / 2], axis=0)
    return quantiles


@dataclass(frozen=True)
class Backtest:
    """A prediction of the second part of a log beside its measured results."""

    fit: JobFit  # The fit of the first part.
    second: GoodputLog
    predicted: BacktestPrediction  # Of the second part.
    measured: Measures  # The measured results of the second part.
    changes: tuple[str, ...]  # Differences between the two parts beyond chance, in words.

    @property
    def first(self) -> GoodputLog:
        """The first part."""
        return self.fit.log

    def is_inside(self, measure: str) -> bool:
        """Return whether the measured value is in the predicted band."""
        low, _, high = self.predicted.band(measure)
        return bool(low <= getattr(self.measured, measure) <= high)


def measures_of(log: GoodputLog, step_s: float) -> Measures:
    """Return the results of a log, at a step time in seconds.

    Goodput is the time of kept steps over the whole time, as in AI-Hypercomputer/resiliency.
    """
    ended = log.lives[:-1]
    empty = sum(not life.saves for life in ended)
    kept = log.steps_kept
    share = empty / len(ended) if ended else 0.0
    return Measures(kept, kept * step_s / log.span_s, len(log.lives), share)


def backtest(log: GoodputLog, runs: int = RUNS, seed: int = 0, on_done: OnDone = None) -> Backtest:
    """Fit the first half of a log, and predict the second; `on_done` is called after each run.

    Raises
    ------
    UserError
        If a half has too few starts.
    """
    first, second = log.split(0.5)
    fit = fit_job(first)
    predicted = predict(fit, second.span_s, runs, seed, on_done)
    measured = measures_of(second, fit.step_s.mean)
    return Backtest(fit, second, predicted, measured, _changes(first, second))


def predict(
    fit: JobFit, span_s: float, runs: int, seed: int, on_done: OnDone = None
) -> BacktestPrediction:
    """Simulate the job of a fit for a time in seconds; each run draws the fitted times anew."""
    scenario = learned_job(fit)
    times_s = np.linspace(0.0, span_s, 201)
    measures, curves = [], []
    for number in range(seed, seed + runs):
        log = _simulated(fit, scenario, span_s, number)
        measures.append(measures_of(log, fit.step_s.mean))
        curves.append(kept_by(log, times_s))
        if on_done is not None:
            on_done()
    columns = np.array(measures, dtype=float)
    names = Measures._fields
    return BacktestPrediction(
        span_s, dict(zip(names, columns.T, strict=True)), times_s, np.array(curves)
    )


def kept_by(log: GoodputLog, times_s: Floats) -> Floats:
    """Return the number of steps kept by each time in seconds after the first start."""
    saves = [(time_s - log.start_s, step) for life in log.lives for time_s, step in life.saves]
    if not saves:
        return np.zeros(len(times_s))
    when = np.array([time_s for time_s, _ in saves])
    most = np.maximum.accumulate(np.array([step for _, step in saves], dtype=float))
    done = np.concatenate([[0.0], most - log.first_step])
    return done[np.searchsorted(when, times_s, side="right")]


def _simulated(fit: JobFit, scenario: Scenario, span_s: float, number: int) -> GoodputLog:
    """Return the window of a run, which begins with its first restart."""
    rng = np.random.default_rng([number, 0])
    mean_s, shape = fit.between_starts.drawn(rng)
    draws_s = [
        max(_LEAST_S, rng.normal(one.mean, (one.high - one.low) / (2 * Z95)))
        for one in (fit.step_s, fit.start_to_load_s, fit.warm_up_s)
    ]
    step_s = draws_s[0]
    values = {
        "times.compute_s": step_s,
        "times.restart_s": draws_s[1] + draws_s[2],
        "failures.mtbf_s": mean_s,
        "failures.shape": shape,
        "job.steps": int((span_s + _AHEAD * mean_s) / step_s) + fit.interval_steps,
        "job.time_limit_s": span_s + _AHEAD * mean_s,
    }
    events: list[Event] = []
    job = resolve(scenario.change(values))
    record = run(job, number, "replay", events.append, records_steps=False)
    log = lives_of(events, float(record["time_s"]))
    # The window begins with a start, as the second part of a log does.
    return replace(log, lives=log.lives[1:] or log.lives).within(span_s)


def _changes(first: GoodputLog, second: GoodputLog) -> tuple[str, ...]:
    """Return the times that differ between two parts beyond chance (Mann and Whitney's test)."""
    changes = []
    for name, times_of in (
        ("loading", loads_of),
        ("a step", steps_of),
        ("the time between starts", between_starts),
    ):
        early, late = times_of(first), times_of(second)
        if min(len(early), len(late)) < 3:
            continue
        if stats.mannwhitneyu(early, late).pvalue < 0.01:
            ratio = float(np.median(late) / np.median(early))
            word = "longer" if ratio > 1.0 else "shorter"
            changes.append(f"{name} is {abs(ratio - 1.0):.0%} {word} in the second part")
    return tuple(changes)
