"""SPARe's stacks: the failures that they survive, and the work of groups after each failure.

Lee et al. 2026 (SPARe) leave rho_k, the mean patch compute of the k-th failure, open. It follows
from RECTLR's phases by counting copies. A type's copies *in place* are those among the first S of
the survivors' stacks; x_j is the share of types with j of them. All S (N - k) places are occupied,
so the mean of j is S (N - k) / N. One more failure, of a random survivor,

- removes each copy in place with probability 1 / (N - k + 1), and uncovers the types that had only
  that copy. Phase 0 then fails, and there is patch compute, unless none of the S types of the
  failed group was such a type. Two types of a group share no other group, so they are independent:
  rho = 1 - (1 - y)^S with y = N x_1 / (S (N - k + 1)), the probability that a place has a last
  copy;
- ends the run if an uncovered type has no host left. The k-th failure removes the last host of each
  of N types with probability C(k-1, r-1) / C(N, r); rho is the mean over survived failures;
- gives each uncovered type one place in phases 1 and 2, which a type with several copies loses: of
  j copies, j - 1 are spare;
- makes S grow if S (N - k) < N: all survivors compute one more stack, and each type gets one more
  copy in place if its host in that slot is up, that is with probability 1 - k/N.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from faultline.strategies.theory.wipe_out import FloatArray, WipeOutLaw

_BISECTIONS = 60


class StackedTypes(WipeOutLaw):
    """SPARe: N types with r hosts each, N groups with r types each.

    No two types share more than one host. A run ends when a type has lost all its hosts. The types'
    losses are not independent, since each group hosts r types: if r - 1 of a type's hosts are down
    and the run continues, the last one must be up, which also protects r - 1 other types. The
    cavity (Bethe) approximation includes this effect, and would be exact if the graph of groups and
    types had no cycles. With a Golomb ruler there are no cycles of length 4; the form ignores those
    of length 6. Let h be the probability that a group is down, conditional on no loss among r - 1
    of its types (all but the one from which it is considered):

        h / (1 - h) = p / (1 - p) * (1 - h^(r-1))^(r-1)

    Then the partition function of that graph (Mezard & Montanari 2009, *Information, Physics, and
    Computation*, chapter 14) reduces to

        R(p) = [ (1 - p) / (1 - h) * (1 - h^r)^(2-r) ]^N.

    r = 1 gives (1-p)^N, exactly; r = 2 the largest eigenvalue of the transfer matrix of a ring in
    which no two neighbours are down, exact except for the other eigenvalue's N-th power.
    Independent types, (1 - p^r)^N, are a lower bound (Harris 1960: each type's survival increases
    with the same groups).
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
        nothing. At the saddle point of its k-th coefficient a share
        ``k/N = (h - h^r) / (1 - h^r)`` of the groups is down, with variance V of their number.
        C(N, k) is computed by the same method, so that the errors of both cancel:

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


def _root(increasing: Callable[[FloatArray], FloatArray], highest: FloatArray) -> FloatArray:
    """Bisect an increasing function elementwise between 0 and `highest`."""
    low, high = np.zeros_like(highest), highest.copy()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        above = increasing(middle) > 0.0
        high = np.where(above, middle, high)
        low = np.where(above, low, middle)
    return (low + high) / 2.0


def least_stacks(groups: int, redundancy: int) -> FloatArray:
    """Return c(k) = ceil(N / (N - k)) for k = 0 to N - 1, at most r.

    N - k groups of S types each cover N types only if S >= c(k); this bounds all schedules. With
    more than N (1 - 1/r) groups down there is no schedule of r types per group.
    """
    failed = np.arange(groups)
    return np.minimum(-(-groups // (groups - failed)), redundancy).astype(float)


def patch_types(groups: int, redundancy: int, *, one_stack: bool) -> FloatArray:
    """Return rho_k: mean number of types that the busiest survivor computes at the k-th failure.

    Parameters
    ----------
    groups, redundancy : int
        N and r.
    one_stack : bool
        The scheme's choice for `patch_compute`: always one type per group, or as many as its
        reordering left uncomputed. They differ if S grows by more than one: a survivor computes the
        types of its new stacks, which include those that had to be moved.

    Returns
    -------
    array of float, shape (N,)
        rho_k in types at index k; 0 at index 0. More than N (1 - 1/r) failures are never survived;
        the value is then 1.
    """
    stacks = least_stacks(groups, redundancy)
    lost = _types_lost(groups, redundancy)
    patch = np.ones(groups)
    patch[0] = 0.0
    copies = np.zeros(redundancy + 2)
    copies[1] = 1.0
    for k in range(1, int(np.ceil(groups * (redundancy - 1) / redundancy))):
        before, now = int(stacks[k - 1]), int(stacks[k])
        survivors = groups - k + 1
        last_copy = min(1.0, groups * copies[1] / (before * survivors))
        lost_here = min(lost[k] / before, last_copy)
        copies = _no_survivor(copies, survivors)
        for _ in range(now - before):
            copies = _with_one_more_stack(copies, 1.0 - k / groups)
        missed_by_new_stacks = (k / groups) ** (now - before)
        uncovered = _any_of(before, last_copy * missed_by_new_stacks, lost_here)
        if now == before:
            patch[k] = uncovered
        elif not one_stack:
            patch[k] = now - before
        copies = _re_placed(copies, lost[k] / groups)
    return patch


def _types_lost(groups: int, redundancy: int) -> FloatArray:
    """Mean number of types whose last host is the k-th group to fail, N C(k-1, r-1) / C(N, r)."""
    n, r = groups, redundancy
    k = np.arange(r, n)
    # Imported here, since the import takes longer than most commands.
    from scipy.special import gammaln

    log_ways = gammaln(k) - gammaln(r) - gammaln(k - r + 1)
    log_all = gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1)
    lost = np.zeros(n)
    lost[k] = n * np.exp(log_ways - log_all)
    return lost


def _any_of(places: int, uncovered: float, lost: float) -> float:
    """Probability that one of a group's places uncovers its type, if none permanently loses it."""
    return float(1.0 - ((1.0 - uncovered) / (1.0 - lost)) ** places) if uncovered > lost else 0.0


def _no_survivor(copies: FloatArray, survivors: int) -> FloatArray:
    losing = np.arange(len(copies)) * copies / survivors
    return np.asarray(copies - losing + np.append(losing[1:], 0.0))


def _with_one_more_stack(copies: FloatArray, host_up: float) -> FloatArray:
    return np.asarray((1.0 - host_up) * copies + host_up * np.append(0.0, copies[:-1]))


def _re_placed(copies: FloatArray, lost: float) -> FloatArray:
    """Give each uncovered type one copy, at the cost of types with copies to spare.

    A share `lost` of the uncovered has no host left, which ends the run; it is excluded.
    """
    placed = max(0.0, copies[0] - lost)
    spare = np.maximum(np.arange(len(copies)) - 1, 0) * copies
    if spare.sum() > 0.0:
        giving = np.minimum(copies, spare / spare.sum() * placed)
        copies = copies - giving + np.append(giving[1:], 0.0)
    copies = np.append([0.0, copies[1] + placed], copies[2:])
    return np.asarray(copies / copies.sum())
