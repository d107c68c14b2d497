"""How many failures SPARe's stacks outlive: r copies of every shard type, on overlapping hosts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import gamma

import numpy as np
from faultline.strategies.closed_forms.wipe_out import FloatArray, WipeOutLaw

_BISECTIONS = 60


class StackedTypes(WipeOutLaw):
    """SPARe: N types with r hosts each, N groups with r types each.

    No two types share more than one host. A run ends when a type has lost all its hosts. The types'
    losses are not independent, since each group is host to r types: once r - 1 of a type's hosts
    are down and the run goes on, the last must be up, which also saves r - 1 other types. The
    cavity (Bethe) approximation counts exactly that, and would be exact if the graph of groups and
    types had no cycles. A Golomb ruler leaves it without cycles of length 4; those of length 6 are
    what the form leaves out. Let h be the probability that a group is down as one of its types
    sees it, with nothing lost among the group's r - 1 other types:

        h / (1 - h) = p / (1 - p) * (1 - h^(r-1))^(r-1)

    Then the partition function of that graph (Mezard & Montanari 2009, *Information, Physics, and
    Computation*, chapter 14) reduces to

        R(p) = [ (1 - p) / (1 - h) * (1 - h^r)^(2-r) ]^N.

    r = 1 gives (1-p)^N, exactly; r = 2 the largest eigenvalue of the transfer matrix of a ring in
    which no two neighbours are down, exact but for the other eigenvalue's N-th power. Independent
    types, (1 - p^r)^N, are a lower bound (Harris 1960: each type prefers the same groups up).
    """

    def reliability(self, failed: FloatArray) -> FloatArray:
        """Return R(p) in the cavity approximation."""
        r, p = self.redundancy, np.asarray(failed, dtype=float)
        h = _root(lambda h: h * (1.0 - p) - p * (1.0 - h) * (1.0 - h ** (r - 1)) ** (r - 1), p)
        inside = (p < 1.0) & (h < 1.0)
        h, q = np.where(inside, h, 0.0), np.where(inside, 1.0 - p, 1.0)
        log_share = np.log(q) - np.log1p(-h) + (2 - r) * np.log1p(-(h**r))
        return np.where(inside, np.exp(self.groups * log_share), 0.0)

    @cached_property
    def outliving(self) -> FloatArray:
        """P(k) by the saddle-point method from the same approximation; 1 for k < r.

        (1 + x)^N R(x / (1 + x)) is the generating function of the sets of failed groups that lose
        nothing. The saddle point of its k-th coefficient lies where a share
        ``k/N = (h - h^r) / (1 - h^r)`` of the groups is down, and that number has variance V;
        C(N, k) is taken by the same method, so that the errors of both cancel:

            log P(k) = N [log(1 - k/N) - log(1 - h) + (2 - r) log(1 - h^r)]
                       - k log(x / x_0) - log(V / V_0) / 2

        with x = h / ((1 - h) (1 - h^(r-1))^(r-1)) and x_0, V_0 those without the condition.
        """
        n, r = self.groups, self.redundancy
        # No more than (r-1)/r of the groups can be down: each survivor has at most r of N types.
        k = np.arange(r, int(np.ceil(n * (r - 1) / r)))
        share = k / n
        h = _root(lambda h: (h - h**r) - share * (1.0 - h**r), np.ones_like(share))
        odds = h / ((1.0 - h) * (1.0 - h ** (r - 1)) ** (r - 1))
        log_odds_slope = 1 / h + 1 / (1 - h) + (r - 1) ** 2 * h ** (r - 2) / (1 - h ** (r - 1))
        share_slope = (1 - r * h ** (r - 1) + (r - 1) * h**r) / (1 - h**r) ** 2
        variance_ratio = share_slope / log_odds_slope / (share * (1.0 - share))
        log_outliving = (
            n * (np.log1p(-share) - np.log1p(-h) + (2 - r) * np.log1p(-(h**r)))
            - k * np.log(odds * (1.0 - share) / share)
            - np.log(variance_ratio) / 2
        )
        probabilities = np.zeros(n)
        probabilities[: min(r, n)] = 1.0
        probabilities[k] = np.exp(np.minimum(log_outliving, 0.0))
        return probabilities


def independent_types_mean_failures(groups: int, redundancy: int) -> float:
    """Return E[X] if SPARe's types were lost independently, a lower bound of the true mean.

    (N + 1) times the integral of (1 - p^r)^N is
    ``(N + 1) Gamma(1 + 1/r) Gamma(N + 1) / Gamma(N + 1 + 1/r)``. Each type's survival gains from
    the same groups being up, so that by Harris' inequality the true R(p) is no less.
    """
    inverse = 1.0 / redundancy
    # Here, as it takes longer to import than most commands take to run.
    from scipy.special import gammaln

    log_ratio = gammaln(groups + 1) - gammaln(groups + 1 + inverse)
    return float((groups + 1) * gamma(1.0 + inverse) * np.exp(log_ratio))


def _root(increasing: Callable[[FloatArray], FloatArray], highest: FloatArray) -> FloatArray:
    """Bisect an increasing function, element by element, between 0 and `highest`."""
    low, high = np.zeros_like(highest), highest.copy()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        above = increasing(middle) > 0.0
        high = np.where(above, middle, high)
        low = np.where(above, low, middle)
    return (low + high) / 2.0
