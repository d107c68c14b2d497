"""How many failures a layout of copies outlives, when the groups fail in random order.

Two views of the same thing are used throughout. *k failed*: k of the N groups, chosen at random,
are down; P(k) is the probability that nothing is lost yet. *Each failed with probability p*: the
number of failed groups is binomial; R(p) is the probability that nothing is lost yet, the
reliability polynomial of the layout. They give the same mean: draw a uniform time for each group,
and the k-th failure comes at k / (N + 1) on average, whoever it strikes, so that with X the failure
that ends the run

    E[X] = sum over k >= 0 of P(k) = (N + 1) * integral of R(p) over p from 0 to 1.

For any other distribution F of the groups' times to failure (all alike and independent) the mean
time until the end is the integral of R(F(t)) over t, and X is the same: which groups fail, and in
which order, does not depend on F.

A `FailureCourse` is all that a prediction has to know of a scheme.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import comb, gamma
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_PANELS = 200


def plain_mean_failures(groups: int, redundancy: int) -> float:
    """Return ``mu(N, r) = Gamma(1/r)/r * N^(1 - 1/r)`` of Lee et al. 2026 (SPARe).

    With k of N groups failed a given type has lost all its r hosts with probability about (k/N)^r,
    and none of N types has with probability about exp(-N (k/N)^r); mu is the integral of that over
    k from 0 to infinity.

    The integral over k is the sum over k = 0, 1, ... less 1/2: mu estimates E[X] - 1/2, between the
    failures that are outlived (E[X] - 1) and the one that ends the run (E[X]).
    """
    return float(gamma(1.0 / redundancy) / redundancy * groups ** (1.0 - 1.0 / redundancy))


class WipeOutLaw(ABC):
    """When a layout of r copies on N groups has lost something for good."""

    def __init__(self, groups: int, redundancy: int) -> None:
        self.groups = groups
        self.redundancy = redundancy

    @abstractmethod
    def reliability(self, failed: FloatArray) -> FloatArray:
        """Return R(p): nothing is lost when each group has failed with probability p = `failed`."""

    @cached_property
    @abstractmethod
    def outliving(self) -> FloatArray:
        """P(k) for k = 0 to N - 1: nothing is lost when k random groups have failed."""

    @cached_property
    def mean_failures(self) -> float:
        """E[X]: mean number of failures up to and with the one that is not outlived."""
        nodes, weights = self._nodes()
        return float((self.groups + 1) * (weights * self.reliability(nodes)).sum())

    def forces_restart(self) -> tuple[float, ...]:
        """Return 1 - P(k + 1)/P(k), the chance that the next failure is the last, for k = 0 to N-1.

        It ends where k failures are practically never outlived; there the next one is the last.
        """
        outliving = self.outliving[self.outliving > 1e-12]
        next_outlived = np.append(outliving[1:], 0.0)
        return tuple((1.0 - next_outlived / outliving).tolist())

    def _nodes(self) -> tuple[FloatArray, FloatArray]:
        """Gauss-Legendre nodes and weights over p, where R(p) is not negligible.

        R falls like exp(-N p^r) at the slowest that matters here: it is below 1e-16 where N p^r is
        37, and the range is taken half as large again.
        """
        highest = min(1.0, 1.5 * (37.0 / self.groups) ** (1.0 / self.redundancy))
        return composite_nodes(np.linspace(0.0, highest, _PANELS + 1))


def composite_nodes(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of an 8-point Gauss-Legendre rule in each panel between `edges`."""
    points, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(edges) / 2.0
    middle = (edges[1:] + edges[:-1]) / 2.0
    nodes = middle[:, None] + half[:, None] * points
    return nodes.ravel(), (half[:, None] * weights).ravel()


class DisjointSets(WipeOutLaw):
    """Replication: floor(N/r) sets of r groups, and one smaller set where r does not divide N.

    A run ends when a whole set is down. The sets are independent given p, therefore
    ``R(p) = (1 - p^r)^n (1 - p^s)`` with n = floor(N/r) and s = N - n r (no second factor if s is
    0). All forms are exact. With r = 1 this is checkpoint and restart only: X = 1.
    """

    def __init__(self, groups: int, redundancy: int) -> None:
        super().__init__(groups, redundancy)
        self._sets, self._left_over = divmod(groups, redundancy)

    def reliability(self, failed: FloatArray) -> FloatArray:
        """Return R(p), exactly."""
        alive = np.power(1.0 - failed**self.redundancy, self._sets)
        if self._left_over:
            alive = alive * (1.0 - failed**self._left_over)
        return np.asarray(alive)

    @cached_property
    def mean_failures(self) -> float:
        """E[X] exactly, the generalised birthday problem.

        ``(N + 1)/r * [B(1/r, n + 1) - B((s + 1)/r, n + 1)]`` with Euler's beta function B; the
        second term only if s > 0. It is the integral of R(p) with u = p^r.
        """
        # Here, as it takes longer to import than most commands take to run.
        from scipy.special import beta

        groups, redundancy, sets = self.groups, self.redundancy, self._sets
        integral = beta(1.0 / redundancy, sets + 1)
        if self._left_over:
            integral -= beta((self._left_over + 1) / redundancy, sets + 1)
        return float((groups + 1) / redundancy * integral)

    @cached_property
    def outliving(self) -> FloatArray:
        """P(k) exactly: the coefficient of x^k in prod((1+x)^size - x^size), over C(N, k).

        The n-th power of a polynomial q obeys ``k a_k = sum_j (j (n + 1) - k) q_j a_(k-j)`` for
        q_0 = 1, here in whole numbers without rounding.
        """
        subsets = _power(_incomplete(self.redundancy), self._sets, self.groups)
        if self._left_over:
            subsets = _product(subsets, _incomplete(self._left_over), self.groups)
        ways, probabilities = 1, np.zeros(self.groups)
        for k in range(self.groups):
            probabilities[k] = subsets[k] / ways
            ways = ways * (self.groups - k) // (k + 1)
        return probabilities


def _incomplete(size: int) -> list[int]:
    """Coefficients of (1+x)^size - x^size: the subsets of a set that leave a member, by number."""
    return [comb(size, j) for j in range(size)]


def _power(base: list[int], exponent: int, length: int) -> list[int]:
    powers = [1]
    for k in range(1, length):
        reach = range(1, min(k, len(base) - 1) + 1)
        total = sum((j * (exponent + 1) - k) * base[j] * powers[k - j] for j in reach)
        powers.append(total // k)
    return powers


def _product(long: list[int], short: list[int], length: int) -> list[int]:
    return [
        sum(short[j] * long[k - j] for j in range(min(k, len(short) - 1) + 1))
        for k in range(length)
    ]


@dataclass(frozen=True, slots=True)
class FailureCourse:
    """What a scheme does as its groups fail one after another; index k stands for k failed groups.

    Attributes
    ----------
    law : WipeOutLaw
        When it has to restart.
    stacks : array of float, shape (N,)
        Stacks that each group computes before the all-reduce.
    patch : array of float, shape (N,)
        Mean patch compute of the k-th failure, in stacks.
    stack_size : int
        Shard types in a stack.
    """

    law: WipeOutLaw
    stacks: FloatArray
    patch: FloatArray
    stack_size: int = 1

    def work_per_failure(self) -> tuple[float, float]:
        """Return mean stacks and mean patch compute, in shard types, with a step a failure.

        ``Sbar = sum of P(k) (S_k + rho_k) / sum of P(k)``: the mean that Lee et al. 2026 (SPARe)
        take, over the failures of a life, but with the exact chance P(k) to live that long in the
        place of a sharp end at floor(mu).
        """
        weights = self.law.outliving / self.law.outliving.sum() * self.stack_size
        return float(weights @ self.stacks), float(weights @ self.patch)


@runtime_checkable
class Predictable(Protocol):
    """A scheme whose course is known in closed form."""

    def failure_course(self) -> FailureCourse:
        """Return what the scheme does as groups fail, with its groups, redundancy and options."""
