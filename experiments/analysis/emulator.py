"""An emulator: the expected time to train of each candidate, as a function of uncertain inputs.

Each candidate has a Gaussian process of the logarithm of its time beyond a floor, over the normal
scores of the inputs' quantiles: a linear trend, and a smooth deviation with a length scale per
input (Rasmussen & Williams 2006, *Gaussian Processes for Machine Learning*, chapters 2 and 5;
Kennedy & O'Hagan 2001, *Bayesian calibration of computer models*). The floor separates a constant
time from losses in proportion to the failure rate; the likelihood selects it (Box & Cox 1964, *An
analysis of transformations*, power 0). Luck left in the means over seeds is white noise. Its size
starts at the variance over seeds and is then fitted by likelihood.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from faultline.experiments.analysis.decision import BAND
from faultline.experiments.analysis.design import Floats, SimulatedCosts
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern, WhiteKernel
from threadpoolctl import threadpool_limits

_LEAST_SAMPLES = 16
_LENGTHS = (0.5, 200.0)  # Normal scores; at 200, the effect of an input is linear or zero.
_NOISE = (1e-6, 1.0)  # Shares of the variance of a candidate's logarithmic times.
_FLOORS = (0.0, 0.98)  # Shares of a candidate's least simulated time.


@dataclass(frozen=True, slots=True)
class LeaveOut:
    """How well a candidate's time is predicted at a sample that its emulator has not seen."""

    # Absolute error as a share of the simulated mean time.
    median: float
    percentile_95: float
    coverage: float  # Share of simulated mean times within the predicted 80 % band.


class OutOfDesignError(ValueError):
    """An input is beyond the simulated samples."""


class Emulator:
    """Predicts expected times to train; a stopped run counts as it is."""

    def __init__(self, costs: SimulatedCosts) -> None:
        """Fit one process per candidate; a ValueError for fewer than 16 samples."""
        if len(costs.design.unit) < _LEAST_SAMPLES:
            count = len(costs.design.unit)
            raise ValueError(f"{count} samples: an emulator needs at least {_LEAST_SAMPLES}")
        self.candidates = costs.candidates
        self.names = costs.design.names
        self.unit = costs.design.unit
        # Simulated range of each input's quantile: shape (2, inputs).
        self.range = np.array([costs.design.unit.min(axis=0), costs.design.unit.max(axis=0)])
        self._scores = ndtri(costs.design.unit)
        self._processes = [_likeliest(self._scores, runs) for runs in costs.costs]

    def log_times(self, unit: Floats) -> Floats:
        """Return the logarithm of expected times in seconds: shape (candidates, points).

        `unit` has the inputs' quantiles: shape (points, inputs). A quantile beyond the simulated
        samples is an OutOfDesignError.
        """
        outside = (unit < self.range[0]) | (unit > self.range[1])
        if outside.any():
            point, place = np.argwhere(outside)[0]
            low, high = self.range[:, place]
            raise OutOfDesignError(
                f"{self.names[place]} at quantile {unit[point, place]:.4g} of its prior is beyond "
                f"the simulated samples ({low:.4g} to {high:.4g}): widen its prior"
            )
        scores = ndtri(unit)
        return np.array([process.log_times(scores) for process in self._processes])

    def leave_out(self) -> dict[str, LeaveOut]:
        """Return the leave-one-out error of each candidate."""
        errors = (process.leave_out() for process in self._processes)
        return dict(zip(self.candidates, errors, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return all that a prediction elsewhere needs, with the formula of the kernel.

        The logarithm of a time beyond ``floor`` at normal scores ``z`` is ``mean + sum over points
        p of weight[p] * (offset + slope * z.p + amplitude * (1 + r + r^2 / 3) * exp(-r))`` with
        ``r`` the square root of five times the sum of ``((z - p) / length)^2`` over inputs.
        """
        return {
            "names": list(self.names),
            "candidates": list(self.candidates),
            "points": self._scores.round(5).tolist(),
            "processes": [process.to_json() for process in self._processes],
        }


def _likeliest(scores: Floats, runs: Floats) -> _GaussianProcess:
    """Return the process with the likeliest floor; the floor is 0 if all times are equal."""
    floors = _FLOORS if np.ptp(runs) > 0.0 else _FLOORS[:1]
    processes = [_GaussianProcess(scores, runs, share * float(runs.min())) for share in floors]
    return max(processes, key=lambda process: process.log_likelihood)


class _GaussianProcess:
    """The process of one candidate."""

    def __init__(self, scores: Floats, runs: Floats, floor: float) -> None:
        """Fit it to simulated times in seconds of shape (samples, seeds)."""
        self._scores, self._floor = scores, floor
        logs = np.log(runs.mean(axis=1) - floor)
        self._mean, self._scale = float(logs.mean()), float(logs.std()) or 1.0
        self._targets = (logs - self._mean) / self._scale
        luck = _luck(runs - floor) / self._scale**2
        noise = float(np.clip(luck, 10 * _NOISE[0], _NOISE[1] / 10))
        kernel = (
            ConstantKernel(0.3) * Matern(np.full(scores.shape[1], 5.0), _LENGTHS, nu=2.5)
            + ConstantKernel(0.1) * DotProduct(1.0, "fixed")
            + WhiteKernel(noise, _NOISE)
        )
        self._process = GaussianProcessRegressor(kernel)
        # Threads slow down such small matrices, and change the order of their sums.
        with threadpool_limits(1), warnings.catch_warnings():
            # A length at its bound is intended: the input has no effect.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._process.fit(scores, self._targets)

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of the times in seconds, up to a constant."""
        of_targets = float(self._process.log_marginal_likelihood_value_)
        logs = self._mean + self._scale * self._targets
        return of_targets - len(logs) * float(np.log(self._scale)) - float(logs.sum())

    def log_times(self, scores: Floats) -> Floats:
        predicted: Floats = self._process.predict(scores)
        return self._logs(predicted)

    def _logs(self, targets: Floats) -> Floats:
        """Return logarithms of times in seconds."""
        times: Floats = np.exp(self._mean + self._scale * targets) + self._floor
        return np.log(times)

    def leave_out(self) -> LeaveOut:
        """Return errors by the closed form of Rasmussen & Williams 2006, equations 5.10 to 5.12."""
        factor = cho_factor(self._process.kernel_(self._scores), lower=True)
        inverse = cho_solve(factor, np.eye(len(self._scores)))
        variance = 1.0 / np.diag(inverse)
        errors = (inverse @ self._targets) * variance
        missed = self._logs(self._targets - errors) - self._logs(self._targets)
        relative = np.abs(np.expm1(missed))
        inside = np.abs(errors) <= ndtri(BAND[1]) * np.sqrt(variance)
        median, most = np.quantile(relative, (0.5, 0.95))
        return LeaveOut(float(median), float(most), float(inside.mean()))

    def to_json(self) -> dict[str, Any]:
        smooth, trend = self._process.kernel_.k1.k1, self._process.kernel_.k1.k2
        slope = float(trend.k1.constant_value)
        return {
            "floor": self._floor,
            "mean": self._mean,
            "amplitude": float(smooth.k1.constant_value),
            "lengths": [
                round(float(length), 5) for length in np.atleast_1d(smooth.k2.length_scale)
            ],
            "slope": slope,
            "offset": slope * float(trend.k2.sigma_0) ** 2,
            "weights": [float(f"{w:.7g}") for w in self._scale * self._process.alpha_],
        }


def _luck(runs: Floats) -> float:
    """Return the variance of a mean over seeds of logarithmic times, without shared effects."""
    seeds = runs.shape[1]
    if seeds < 2:
        return 0.0
    logs = np.log(runs)
    rests = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    return float((rests**2).sum() / ((seeds - 1) * (len(runs) - 1)) / seeds)
