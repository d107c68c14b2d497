"""What SPARe's groups compute as one after another fails: stacks, and patch compute rho_k.

Lee et al. 2026 (SPARe) leave rho_k, the mean patch compute of the k-th failure, open. It follows
from RECTLR's phases by counting copies: call a type's places among the first S of the survivors'
stacks its copies *in place*, and x_j the share of types with j of them. All S (N - k) places are
taken, so the mean of j is S (N - k) / N. One more failure, of a random survivor,

- takes each copy in place with probability 1 / (N - k + 1), and uncovers the types that had only
  that one: phase 0 fails, and there is patch compute, unless none of the S types of the failed
  group was such a type. Two types of a group share no other group, so they are independent:
  rho = 1 - (1 - y)^S with y = N x_1 / (S (N - k + 1)), the chance that a place holds a last copy;
- ends the run if a type uncovered has no host left. The k-th failure takes a type's last host with
  probability C(k-1, r-1) / C(N, r), of N types; rho is the mean over failures that are outlived;
- in phases 1 and 2 each uncovered type gets one place, and a type with more copies than one loses
  one for it: of j copies, j - 1 are to spare;
- makes S grow where S (N - k) < N: all survivors compute one more stack, and each type gets one
  more copy in place if its host in that slot is up, that is with probability 1 - k/N.
"""

from __future__ import annotations

import numpy as np
from faultline.strategies.closed_forms.wipe_out import FloatArray


def least_stacks(groups: int, redundancy: int) -> FloatArray:
    """Return c(k) = ceil(N / (N - k)) for k = 0 to N - 1, and r where it would exceed r.

    N - k groups of S types each cover N types only if S is at least that; no schedule does better.
    With more than N (1 - 1/r) groups down no schedule of r types a group is left at all.
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
        The scheme's choice for `patch_compute`: one type a group whatever happened, or as many as
        its reordering left uncomputed. They differ where S grows by more than one: a survivor
        computes the types of its new stacks, and types that had to be moved are among these.

    Returns
    -------
    array of float, shape (N,)
        rho_k at index k, types; 0 at index 0. Beyond N (1 - 1/r) failures nothing is outlived, and
        the value is 1.
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
        copies = _without_a_survivor(copies, survivors)
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
    # Here, as it takes longer to import than most commands take to run.
    from scipy.special import gammaln

    log_ways = gammaln(k) - gammaln(r) - gammaln(k - r + 1)
    log_all = gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1)
    lost = np.zeros(n)
    lost[k] = n * np.exp(log_ways - log_all)
    return lost


def _any_of(places: int, uncovered: float, lost: float) -> float:
    """Chance that one of a group's places uncovers its type, given that none loses it for good."""
    return float(1.0 - ((1.0 - uncovered) / (1.0 - lost)) ** places) if uncovered > lost else 0.0


def _without_a_survivor(copies: FloatArray, survivors: int) -> FloatArray:
    taken = np.arange(len(copies)) * copies / survivors
    return np.asarray(copies - taken + np.append(taken[1:], 0.0))


def _with_one_more_stack(copies: FloatArray, host_up: float) -> FloatArray:
    return np.asarray((1.0 - host_up) * copies + host_up * np.append(0.0, copies[:-1]))


def _re_placed(copies: FloatArray, lost: float) -> FloatArray:
    """Give each uncovered type one copy, at the cost of types with copies to spare.

    A share `lost` of the uncovered has no host left: that ends the run, so it is left out.
    """
    placed = max(0.0, copies[0] - lost)
    spare = np.maximum(np.arange(len(copies)) - 1, 0) * copies
    if spare.sum() > 0.0:
        given = np.minimum(copies, spare / spare.sum() * placed)
        copies = copies - given + np.append(given[1:], 0.0)
    copies = np.append([0.0, copies[1] + placed], copies[2:])
    return np.asarray(copies / copies.sum())
