"""An emulator: the expected time to train of each candidate, as a function of uncertain inputs.

Each candidate has a Gaussian process of the logarithm of its time beyond a floor, over the normal
scores of the inputs' quantiles: a linear trend, and a smooth deviation with a length scale per
input (Rasmussen & Williams 2006, *Gaussian Processes for Machine Learning*, chapters 2 and 5;
Kennedy & O'Hagan 2001, *Bayesian calibration of computer models*). The floor separates a constant
time from losses in proportion to the failure rate; the likelihood selects it (Box & Cox 1964, *An
analysis of transformations*, power 0). Luck left in the means over seeds is white noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from faultline.experiments.analysis.design import Floats, SimulatedCosts
from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern, WhiteKernel
from threadpoolctl import threadpool_limits

_LENGTHS = (0.5, 200.0)  # Normal scores; at 200, the effect of an input is linear or zero.
_NOISE = (1e-6, 1.0)  # Shares of the variance of a candidate's logarithmic times.
_FLOORS = (0.0, 0.98)  # Shares of a candidate's least simulated time.


class Emulator:
    """Predicts expected times to train; a stopped run counts as it is."""

    def __init__(self, costs: SimulatedCosts) -> None:
        """Fit one process per candidate."""
        self.candidates = costs.candidates
        self.names = costs.design.names
        self.unit = costs.design.unit
        # Simulated range of each input's quantile: shape (2, inputs).
        self.range = np.array([self.unit.min(axis=0), self.unit.max(axis=0)])
        self._scores = ndtri(self.unit)
        self._processes = [_likeliest(self._scores, runs) for runs in costs.costs]

    def log_times(self, unit: Floats) -> Floats:
        """Return the logarithm of expected times in seconds: shape (candidates, points).

        `unit` has the inputs' quantiles, each within the simulated range: shape (points, inputs).
        """
        scores = ndtri(unit)
        return np.array([process.log_times(scores) for process in self._processes])

    def log_times_at(self, known: Mapping[int, Floats], samples: int) -> Floats:
        """Return the logarithm of expected times in seconds, with some inputs known.

        Parameters
        ----------
        known : mapping of int to ndarray of float
            Quantiles of inputs, by their places; all of one length.
        samples : int
            Simulated samples of all other inputs, at most.

        Returns
        -------
        ndarray of float
            Of the shape (candidates, known values, samples).
        """
        others = self.unit[:samples]
        values = len(next(iter(known.values())))
        points = np.tile(others, (values, 1))
        for place, units in known.items():
            points[:, place] = units.repeat(len(others))
        return self.log_times(points).reshape(len(self.candidates), values, len(others))

    def leave_out(self) -> dict[str, Floats]:
        """Return each candidate's errors at samples that the emulator has not seen.

        They are absolute, as shares of the simulated mean time.
        """
        errors = (process.leave_out() for process in self._processes)
        return dict(zip(self.candidates, errors, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return all that a prediction elsewhere needs, with the formula of the kernel.

        The logarithm of a time beyond ``floor`` at normal scores ``z`` is ``mean + sum over points
        p of weight[p] * (offset + slope * z.p + amplitude * (1 + r + r^2 / 3) * exp(-r))`` with
        ``r`` the square root of five times the sum of ``((z - p) / length)^2`` over inputs.
        """
        return {
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
        kernel = (
            ConstantKernel(0.3) * Matern(np.full(scores.shape[1], 5.0), _LENGTHS, nu=2.5)
            + ConstantKernel(0.1) * DotProduct(1.0, "fixed")
            + WhiteKernel(0.1, _NOISE)
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

    def leave_out(self) -> Floats:
        """Return errors by the closed form of Rasmussen & Williams 2006, equation 5.12."""
        inverse = np.linalg.inv(self._process.kernel_(self._scores))
        missed = self._targets - (inverse @ self._targets) / np.diag(inverse)
        relative: Floats = np.abs(np.expm1(self._logs(missed) - self._logs(self._targets)))
        return relative

    def to_json(self) -> dict[str, Any]:
        smooth, trend = self._process.kernel_.k1.k1, self._process.kernel_.k1.k2
        slope = float(trend.k1.constant_value)
        return {
            "floor": self._floor,
            "mean": self._mean,
            "amplitude": float(smooth.k1.constant_value),
            "lengths": np.atleast_1d(smooth.k2.length_scale).round(5).tolist(),
            "slope": slope,
            "offset": slope * float(trend.k2.sigma_0) ** 2,
            "weights": [float(f"{w:.7g}") for w in self._scale * self._process.alpha_],
        }
