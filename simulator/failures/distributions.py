"""Distributions of the time between failures: small classes that validate their parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import erfc, exp, expm1, gamma, isfinite, log, sqrt

import numpy as np

NEVER_S = 1e15
"""The mean time between failures that stands for "never", in seconds, in closed forms."""


class DistributionError(ValueError):
    """A parameter is out of its range."""


def _positive(name: str, value: float) -> None:
    if not (isfinite(value) and value > 0):
        raise DistributionError(f"{name} must be a positive number, got {value!r}")


class Distribution(ABC):
    """A positive random time, in seconds.

    Raises
    ------
    DistributionError
        If a parameter of a distribution is not positive and finite.
    """

    @property
    @abstractmethod
    def mean_s(self) -> float:
        """Mean, in seconds."""

    @property
    @abstractmethod
    def variance_s2(self) -> float:
        """Variance, in seconds squared."""

    @abstractmethod
    def survival(self, time_s: float) -> float:
        """Return the probability that the time is longer than `time_s`, in seconds."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        """Draw `size` independent times, in seconds."""


@dataclass(frozen=True, slots=True)
class Exponential(Distribution):
    """Memoryless times between failures."""

    mean_s: float  # Mean, in seconds; positive.

    def __post_init__(self) -> None:
        _positive("mean_s", self.mean_s)

    @property
    def variance_s2(self) -> float:
        return self.mean_s**2

    def survival(self, time_s: float) -> float:
        return exp(-time_s / self.mean_s)

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        drawn: list[float] = (rng.standard_exponential(size) * self.mean_s).tolist()
        return drawn


@dataclass(frozen=True, slots=True)
class Weibull(Distribution):
    """Weibull times between failures; a shape below 1 means that new components fail most."""

    shape: float  # Shape k; positive. 0.78 in Lee et al. 2026 (SPARe).
    scale_s: float  # Scale, in seconds; positive. The mean is ``scale * Gamma(1 + 1/shape)``.

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
        return self.scale_s * gamma(1.0 + 1.0 / self.shape)

    @property
    def variance_s2(self) -> float:
        return self.scale_s**2 * (gamma(1.0 + 2.0 / self.shape)) - self.mean_s**2

    def survival(self, time_s: float) -> float:
        try:
            return exp(-((time_s / self.scale_s) ** self.shape))
        except OverflowError:
            return 0.0

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        drawn: list[float] = (rng.weibull(self.shape, size) * self.scale_s).tolist()
        return drawn


@dataclass(frozen=True, slots=True)
class Constant(Distribution):
    """Always the same time, such as a stated time to repair."""

    mean_s: float  # The time, in seconds; positive.

    def __post_init__(self) -> None:
        _positive("mean_s", self.mean_s)

    @property
    def variance_s2(self) -> float:
        return 0.0

    def survival(self, time_s: float) -> float:
        return 1.0 if time_s < self.mean_s else 0.0

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        return [self.mean_s] * size


@dataclass(frozen=True, slots=True)
class Uniform(Distribution):
    """Any time between two bounds, all equally likely."""

    # Bounds, in seconds; positive, and in this order.
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
        return (self.least_s + self.most_s) / 2.0

    @property
    def variance_s2(self) -> float:
        return (self.most_s - self.least_s) ** 2 / 12.0

    def survival(self, time_s: float) -> float:
        if time_s < self.least_s:
            return 1.0
        if time_s >= self.most_s:
            return 0.0
        return (self.most_s - time_s) / (self.most_s - self.least_s)

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        drawn: list[float] = rng.uniform(self.least_s, self.most_s, size).tolist()
        return drawn


@dataclass(frozen=True, slots=True)
class Lognormal(Distribution):
    """Times over several orders of magnitude, such as the duration of a slowdown."""

    median_s: float  # Median, in seconds; positive.
    sigma: float  # Standard deviation of the natural logarithm; positive.

    def __post_init__(self) -> None:
        _positive("median_s", self.median_s)
        _positive("sigma", self.sigma)

    @property
    def mean_s(self) -> float:
        return self.median_s * exp(self.sigma**2 / 2.0)

    @property
    def variance_s2(self) -> float:
        return expm1(self.sigma**2) * self.mean_s**2

    def survival(self, time_s: float) -> float:
        if time_s <= 0.0:
            return 1.0
        return erfc(log(time_s / self.median_s) / (self.sigma * sqrt(2.0))) / 2.0

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        drawn: list[float] = (rng.lognormal(log(self.median_s), self.sigma, size)).tolist()
        return drawn
