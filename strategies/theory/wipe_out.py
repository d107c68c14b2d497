"""The number of failures that a layout of copies survives if groups fail in random order.

Two equivalent views are used. *k failed*: k of the N groups, chosen at random, are down; P(k) is
the probability that nothing is lost yet. *Each failed with probability p*: the number of failed
groups is binomial; R(p) is the probability that nothing is lost yet, the reliability polynomial of
the layout. Both have the same mean: with a uniform failure time for each group, the k-th failure
comes at k / (N + 1) on average, for any group. If X is the failure that ends the run,

    E[X] = sum over k >= 0 of P(k) = (N + 1) * integral of R(p) over p from 0 to 1.

For any other distribution F of the groups' times to failure (identical and independent) the mean
time until the end is the integral of R(F(t)) over t. X is the same, since the order in which groups
fail does not depend on F.

A prediction needs only the `FailureCourse` of a scheme.
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

    After k of N failures a given type has lost all its r hosts with probability about (k/N)^r, and
    none of N types has with probability about exp(-N (k/N)^r). mu is the integral of the latter
    over k from 0 to infinity.

    The integral over k is the sum over k = 0, 1, ... less 1/2: mu estimates E[X] - 1/2, between the
    number of survived failures (E[X] - 1) and the one that ends the run (E[X]).
    """
    return float(gamma(1.0 / redundancy) / redundancy * groups ** (1.0 - 1.0 / redundancy))


class WipeOutLaw(ABC):
    """The law by which a layout of r copies on N groups permanently loses data."""

    def __init__(self, groups: int, redundancy: int) -> None:
        self.groups = groups
        self.redundancy = redundancy

    @abstractmethod
    def reliability(self, failed: FloatArray) -> FloatArray:
        """Return R(p): the probability of no loss if groups fail with probability p = `failed`."""

    @cached_property
    @abstractmethod
    def outliving(self) -> FloatArray:
        """P(k) for k = 0 to N - 1: the probability of no loss after k random groups failed."""

    @cached_property
    def mean_failures(self) -> float:
        """E[X]: mean number of failures, including the fatal one."""
        nodes, weights = self._nodes()
        return float((self.groups + 1) * (weights * self.reliability(nodes)).sum())

    def forces_restart(self) -> tuple[float, ...]:
        """Return the probability that the next failure is fatal, 1 - P(k + 1)/P(k), by k.

        It ends at the k that is practically never survived, where the next failure is fatal.
        """
        outliving = self.outliving[self.outliving > 1e-12]
        next_outlived = np.append(outliving[1:], 0.0)
        return tuple((1.0 - next_outlived / outliving).tolist())

    def _nodes(self) -> tuple[FloatArray, FloatArray]:
        """Gauss-Legendre nodes and weights over p, in the range in which R(p) is not negligible.

        R falls at least like exp(-N p^r): it is below 1e-16 at N p^r = 37. The range is 1.5 times
        as large.
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
    """Replication: floor(N/r) sets of r groups, and one smaller set if r does not divide N.

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
        # Imported here, since the import takes longer than most commands.
        from scipy.special import beta

        groups, redundancy, sets = self.groups, self.redundancy, self._sets
        integral = beta(1.0 / redundancy, sets + 1)
        if self._left_over:
            integral -= beta((self._left_over + 1) / redundancy, sets + 1)
        return float((groups + 1) / redundancy * integral)

    @cached_property
    def outliving(self) -> FloatArray:
        """P(k) exactly: the coefficient of x^k in prod((1+x)^size - x^size), over C(N, k).

        The n-th power of a polynomial q satisfies ``k a_k = sum_j (j (n + 1) - k) q_j a_(k-j)`` for
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
    """Coefficients of (1+x)^size - x^size: the numbers of proper subsets of a set, by size."""
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
    """The state of a scheme after k failures of groups, by index k.

    Attributes
    ----------
    law : WipeOutLaw
        The law of its restarts.
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
        """Return mean stacks and mean patch compute, in shard types, with one step per failure.

        ``Sbar = sum of P(k) (S_k + rho_k) / sum of P(k)``: the mean of Lee et al. 2026 (SPARe) over
        the failures of a life, with the exact probability P(k) to survive k failures instead of a
        sharp end at floor(mu).
        """
        weights = self.law.outliving / self.law.outliving.sum() * self.stack_size
        return float(weights @ self.stacks), float(weights @ self.patch)


@runtime_checkable
class Predictable(Protocol):
    """A scheme with a closed form of its course."""

    def failure_course(self) -> FailureCourse:
        """Return the course of the scheme with its groups, redundancy and options."""


def failures_until_too_few(nodes: int, needed: int = 1) -> float:
    """Return the mean number of failures until fewer than `needed` nodes are left.

    Each failure is of a random node, up or down: the coupon collector's number without repairs,
    ``n (1/n + ... + 1/needed)``. With repairs it is far larger.
    """
    return nodes * sum(1.0 / k for k in range(needed, nodes + 1))
