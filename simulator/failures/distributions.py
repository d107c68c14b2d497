"""Distributions of the time between failures: small classes that validate their parameters."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, exp, expm1, gamma, isfinite, log, sqrt
from typing import Protocol

import numpy as np

NEVER_S = 1e15
"""The mean time between failures that stands for "never", in seconds, in closed forms."""


class DistributionError(ValueError):
    """A parameter is out of its range."""


def _positive(name: str, value: float) -> None:
    if not (isfinite(value) and value > 0):
        raise DistributionError(f"{name} must be a positive number, got {value!r}")


class Distribution(Protocol):
    """A positive random time, in seconds."""

    @property
    def mean_s(self) -> float:
        """Mean, in seconds."""
        ...

    @property
    def variance_s2(self) -> float:
        """Variance, in seconds squared."""
        ...

    def survival(self, time_s: float) -> float:
        """Return the probability of no failure until `time_s`, in seconds."""
        ...

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        """Draw `size` independent times, in seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Exponential:
    """Memoryless times between failures.

    Parameters
    ----------
    mean_s : float
        Mean, in seconds; positive.

    Raises
    ------
    DistributionError
        If the mean is not positive and finite.
    """

    mean_s: float

    def __post_init__(self) -> None:
        _positive("mean_s", self.mean_s)

    @property
    def variance_s2(self) -> float:
        """Variance, in seconds squared."""
        return self.mean_s**2

    def survival(self, time_s: float) -> float:
        """Return the probability of no failure until `time_s`, in seconds."""
        return exp(-time_s / self.mean_s)

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        """Draw `size` independent times, in seconds."""
        drawn: list[float] = (rng.standard_exponential(size) * self.mean_s).tolist()
        return drawn


@dataclass(frozen=True, slots=True)
class Weibull:
    """Weibull times between failures; a shape below 1 means that new components fail most.

    Parameters
    ----------
    shape : float
        Shape k; positive. 0.78 in Lee et al. 2026 (SPARe).
    scale_s : float
        Scale, in seconds; positive. The mean is ``scale * Gamma(1 + 1/shape)``.

    Raises
    ------
    DistributionError
        If a parameter is not positive and finite.
    """

    shape: float
    scale_s: float

    def __post_init__(self) -> None:
        _positive("shape", self.shape)
        _positive("scale_s", self.scale_s)

    @classmethod
    def from_mean(cls, shape: float, mean_s: float) -> Weibull:
        """Return the Weibull distribution with this shape and this mean in seconds."""
        _positive("shape", shape)
        _positive("mean_s", mean_s)
        return cls(shape, mean_s / gamma(1.0 + 1.0 / shape))

    @property
    def mean_s(self) -> float:
        """Mean, in seconds."""
        return self.scale_s * gamma(1.0 + 1.0 / self.shape)

    @property
    def variance_s2(self) -> float:
        """Variance, in seconds squared."""
        return self.scale_s**2 * (gamma(1.0 + 2.0 / self.shape)) - self.mean_s**2

    def survival(self, time_s: float) -> float:
        """Return the probability of no failure until `time_s`, in seconds."""
        try:
            return exp(-((time_s / self.scale_s) ** self.shape))
        except OverflowError:
            return 0.0

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        """Draw `size` independent times, in seconds."""
        drawn: list[float] = (rng.weibull(self.shape, size) * self.scale_s).tolist()
        return drawn


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same time, such as a stated time to repair.

    Parameters
    ----------
    mean_s : float
        The time, in seconds; positive.

    Raises
    ------
    DistributionError
        If it is not positive and finite.
    """

    mean_s: float

    def __post_init__(self) -> None:
        _positive("mean_s", self.mean_s)

    @property
    def variance_s2(self) -> float:
        """Variance, in seconds squared."""
        return 0.0

    def survival(self, time_s: float) -> float:
        """Return the probability that `time_s`, in seconds, is not enough."""
        return 1.0 if time_s < self.mean_s else 0.0

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        """Return `size` times the same, in seconds."""
        return [self.mean_s] * size


@dataclass(frozen=True, slots=True)
class Uniform:
    """Any time between two bounds, all equally likely.

    Parameters
    ----------
    least_s, most_s : float
        Bounds, in seconds; positive, and in this order.

    Raises
    ------
    DistributionError
        If a bound is not positive and finite, or they are in the wrong order.
    """

    least_s: float
    most_s: float

    def __post_init__(self) -> None:
        _positive("least_s", self.least_s)
        _positive("most_s", self.most_s)
        if self.least_s > self.most_s:
            raise DistributionError(
                f"least_s must not exceed most_s, got {self.least_s!r} and {self.most_s!r}"
            )

    @property
    def mean_s(self) -> float:
        """Mean, in seconds."""
        return (self.least_s + self.most_s) / 2.0

    @property
    def variance_s2(self) -> float:
        """Variance, in seconds squared."""
        return (self.most_s - self.least_s) ** 2 / 12.0

    def survival(self, time_s: float) -> float:
        """Return the probability that `time_s`, in seconds, is not enough."""
        if time_s < self.least_s:
            return 1.0
        if time_s >= self.most_s:
            return 0.0
        return (self.most_s - time_s) / (self.most_s - self.least_s)

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        """Draw `size` independent times, in seconds."""
        drawn: list[float] = rng.uniform(self.least_s, self.most_s, size).tolist()
        return drawn


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Times over several orders of magnitude, such as the duration of a slowdown.

    Parameters
    ----------
    median_s : float
        Median, in seconds; positive.
    sigma : float
        Standard deviation of the natural logarithm; positive.

    Raises
    ------
    DistributionError
        If a parameter is not positive and finite.
    """

    median_s: float
    sigma: float

    def __post_init__(self) -> None:
        _positive("median_s", self.median_s)
        _positive("sigma", self.sigma)

    @property
    def mean_s(self) -> float:
        """Mean, in seconds."""
        return self.median_s * exp(self.sigma**2 / 2.0)

    @property
    def variance_s2(self) -> float:
        """Variance, in seconds squared."""
        return expm1(self.sigma**2) * self.mean_s**2

    def survival(self, time_s: float) -> float:
        """Return the probability that `time_s`, in seconds, is not enough."""
        if time_s <= 0.0:
            return 1.0
        return erfc(log(time_s / self.median_s) / (self.sigma * sqrt(2.0))) / 2.0

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        """Draw `size` independent times, in seconds."""
        drawn: list[float] = (rng.lognormal(log(self.median_s), self.sigma, size)).tolist()
        return drawn
