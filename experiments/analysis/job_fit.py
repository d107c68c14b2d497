"""The times of a job by its log: phases of a life, steps, and the time between starts.

The time between starts gets a Weibull distribution by maximum likelihood. The last life is still
under way at the end of the log and counts as censored (Cohen 1965, Technometrics 7). Intervals of
scale and shape come from the curvature of the likelihood, in logarithms. Other times are means
with Student's interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gamma, log

import numpy as np
from faultline.experiments.analysis.failure_fit import weibull_shape
from faultline.experiments.analysis.intervals import Interval, interval_of
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs.goodput_log import GoodputLog, LoggedLife
from numpy.typing import NDArray

_LEAST_LIVES = 3
_MOST_SPREAD = 1.5
"""A log is refused if the slowest tenth of its steps takes this much longer than the fastest."""
Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class StartTimes:
    """A Weibull distribution of the times between starts of a job."""

    # Logarithms of scale (in seconds) and shape, and the covariance of the two.
    log_scale: float
    log_shape: float
    covariance: NDArray[np.float64]
    starts: int  # Times between starts that ended within the log.

    @property
    def shape(self) -> Interval:
        """The shape with its 95 % interval."""
        return _exponential(self.log_shape, float(self.covariance[1, 1]))

    @property
    def mean_s(self) -> Interval:
        """The mean with its 95 % interval, in seconds."""
        mean_s = _mean_s(self.log_scale, self.log_shape)
        step = 1e-5
        slopes = np.array(
            [1.0, log(_mean_s(0.0, self.log_shape + step) / _mean_s(0.0, self.log_shape)) / step]
        )
        return _exponential(log(mean_s), float(slopes @ self.covariance @ slopes))

    def drawn(self, rng: np.random.Generator) -> tuple[float, float]:
        """Return a mean, in seconds, and a shape, drawn from the uncertainty of the fit."""
        scale, shape = rng.multivariate_normal([self.log_scale, self.log_shape], self.covariance)
        return _mean_s(scale, shape), float(np.exp(shape))


@dataclass(frozen=True, slots=True)
class JobFit:
    """The times of a job from its log, in seconds, with 95 % intervals."""

    log: GoodputLog
    step_s: Interval  # A step, with its share of a checkpoint.
    step_spread_s: float  # Standard deviation of step times between checkpoints.
    interval_steps: int  # Steps between checkpoints.
    start_to_load_s: Interval  # From the start of the first node to the loaded checkpoint.
    warm_up_s: Interval  # Extra time of the steps up to the first checkpoint.
    between_starts: StartTimes  # Times from start to start.
    counts: dict[str, int]  # Number of values behind each time.

    @property
    def restart_s(self) -> float:
        """Time from a start to the first step at full speed, in seconds."""
        return self.start_to_load_s.mean + self.warm_up_s.mean


def fit_job(log: GoodputLog) -> JobFit:
    """Fit the times of a job.

    Raises
    ------
    UserError
        If the log has too few lives, loads or saves, or if its steps have no single duration.
    """
    lives = log.lives
    loads_s, gaps = loads_of(log), gaps_of(log)
    if len(lives) <= _LEAST_LIVES or len(loads_s) < _LEAST_LIVES or len(gaps) < _LEAST_LIVES:
        raise UserError(
            f"{log.name}: {len(lives)} starts, {len(loads_s)} loads and {len(gaps)} times between "
            f"checkpoints are too few; each needs {_LEAST_LIVES} and more, so take a longer log"
        )
    interval = Counter(late[1] - early[1] for early, late in gaps).most_common(1)[0][0]
    steps_s = steps_of(log)
    fast_s, slow_s = np.quantile(steps_s, [0.1, 0.9]).tolist()
    if slow_s > _MOST_SPREAD * fast_s:
        raise UserError(
            f"{log.name}: a tenth of its steps take {fast_s:.4g} s or less, another tenth "
            f"{slow_s:.4g} s or more; take the log of a job that restarts at full speed after a "
            "failure (one that goes on with fewer GPUs has no single step time)"
        )
    step_s = interval_of(steps_s)
    warm_ups = [warm for life in lives if (warm := _warm_up_s(life, step_s.mean)) is not None]
    counts = {"step": len(gaps), "load": len(loads_s), "warm-up": len(warm_ups)}
    spread_s = float(np.std([late[0] - early[0] for early, late in gaps], ddof=1))
    return JobFit(
        log,
        step_s,
        spread_s / interval**0.5,
        interval,
        interval_of(loads_s),
        interval_of(warm_ups or [0.0]),
        fit_start_times(between_starts(log), [lives[-1].duration_s]),
        counts,
    )


def loads_of(log: GoodputLog) -> list[float]:
    """Return the seconds from the start of each life to its loaded checkpoint."""
    return [life.loaded[0] - life.start_s for life in log.lives if life.loaded]


def gaps_of(log: GoodputLog) -> list[tuple[tuple[float, int], tuple[float, int]]]:
    """Return each two successive checkpoints of a life, as times in seconds and steps."""
    return [pair for life in log.lives for pair in pairwise(life.saves)]


def steps_of(log: GoodputLog) -> list[float]:
    """Return the mean seconds of a step between each two checkpoints."""
    return [(late[0] - early[0]) / (late[1] - early[1]) for early, late in gaps_of(log)]


def between_starts(log: GoodputLog) -> list[float]:
    """Return the seconds from start to start, for lives that ended."""
    return [life.duration_s for life in log.lives[:-1]]


def _warm_up_s(life: LoggedLife, step_s: float) -> float | None:
    """Return the extra time of the steps up to a life's first checkpoint; later ones are faster."""
    if life.loaded is None or not life.saves:
        return None
    (loaded_s, loaded), (saved_s, saved) = life.loaded, life.saves[0]
    return saved_s - loaded_s - (saved - loaded) * step_s


def fit_start_times(ended_s: Sequence[float], under_way_s: Sequence[float]) -> StartTimes:
    """Fit a Weibull distribution to ended times and to times still under way, in seconds."""
    ended = np.maximum(np.asarray(ended_s, dtype=float), 1e-3)
    every = np.concatenate([ended, np.maximum(np.asarray(under_way_s, dtype=float), 1e-3)])
    shape = weibull_shape(ended, under_way_s)
    log_scale = log(float(np.mean((every / every.max()) ** shape)) * len(every) / len(ended))
    log_scale = float(np.log(every.max())) + log_scale / shape
    covariance = _covariance(log_scale, shape, np.log(every), len(ended))
    return StartTimes(log_scale, log(shape), covariance, len(ended))


def _covariance(
    log_scale: float, shape: float, logs: NDArray[np.float64], ended: int
) -> NDArray[np.float64]:
    """Return the inverse of the observed information of both logarithms.

    With z = log t - log scale and shape k, the log-likelihood of an ended time t is
    log k + k z - log t - e^(k z), and that of one under way is -e^(k z).
    """
    scaled = shape * (logs - log_scale)
    hazards = np.exp(scaled)
    of_scale = shape**2 * hazards.sum()
    of_both = shape * (ended - hazards.sum() - (scaled * hazards).sum())
    of_shape = (scaled * hazards).sum() + (scaled**2 * hazards).sum() - scaled[:ended].sum()
    information = np.array([[of_scale, of_both], [of_both, of_shape]])
    # Equal times do not determine the shape: its variance is then zero.
    inverse: NDArray[np.float64] = np.linalg.pinv(information)
    return inverse


def _mean_s(log_scale: float, log_shape: float) -> float:
    return float(np.exp(log_scale) * gamma(1.0 + np.exp(-log_shape)))


def _exponential(center: float, variance: float) -> Interval:
    half = Z95 * variance**0.5
    low, mean, high = np.exp([center - half, center, center + half]).tolist()
    return Interval(mean, low, high)
