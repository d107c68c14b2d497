"""How many failures a layout outlives: exact forms against enumeration and transfer matrices."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb, exp, gamma, lgamma, sqrt

import numpy as np
import pytest
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import WipeOut
from faultline.strategies.plugins.registry import build_strategy
from faultline.strategies.schemes.spare.golomb import largest_redundancy, ruler_for
from faultline.strategies.schemes.spare.spare import Spare, SpareOptions
from faultline.strategies.theory.stacked_types import (
    StackedTypes,
    least_stacks,
    patch_types,
)
from faultline.strategies.theory.wipe_out import DisjointSets, WipeOutLaw, plain_mean_failures
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad


def sets_of(groups: int, redundancy: int) -> list[set[int]]:
    """Replication's sets of consecutive groups, the last one smaller where it must be."""
    return [
        set(range(first, min(first + redundancy, groups))) for first in range(0, groups, redundancy)
    ]


def independent_types_mean_failures(groups: int, redundancy: int) -> float:
    """E[X] for independent losses of SPARe's types: (N + 1) times the integral of (1 - p^r)^N."""
    inverse = 1.0 / redundancy
    log_ratio = lgamma(groups + 1) - lgamma(groups + 1 + inverse)
    return (groups + 1) * gamma(1.0 + inverse) * exp(log_ratio)


def outliving_by_enumeration(groups: int, sets: list[set[int]]) -> list[float]:
    """P(k): the share of all k-subsets of the groups that take no whole set."""
    probabilities = []
    for k in range(groups):
        subsets = (set(failed) for failed in combinations(range(groups), k))
        outlived = sum(not any(whole <= failed for whole in sets) for failed in subsets)
        probabilities.append(outlived / comb(groups, k))
    return probabilities


def ring_reliability(groups: int, redundancy: int) -> Callable[[float], float]:
    """Return R(p) of SPARe's layout exactly: the trace of a transfer matrix around the ring.

    Type i lives on the groups i - offset. A state is which of the last max(offset) groups are down;
    the next group must not complete the set of a type.
    """
    offsets = ruler_for(groups, redundancy)
    reach = offsets[-1]
    states = 2**reach
    others = sum(1 << (offset - 1) for offset in offsets if offset)

    def reliability(failed: float) -> float:
        matrix = np.zeros((states, states))
        for state in range(states):
            shifted = (state << 1) & (states - 1)
            matrix[state, shifted] += 1.0 - failed
            if state & others != others:
                matrix[state, shifted | 1] += failed
        return float(np.trace(np.linalg.matrix_power(matrix, groups)))

    return reliability


@given(groups=st.integers(1, 11), data=st.data())
def test_replication_is_exact_over_all_subsets(groups: int, data: st.DataObject) -> None:
    redundancy = data.draw(st.integers(1, groups))
    law = DisjointSets(groups, redundancy)
    expected = outliving_by_enumeration(groups, sets_of(groups, redundancy))
    np.testing.assert_allclose(law.outliving, expected, atol=1e-12)
    assert law.mean_failures == pytest.approx(sum(expected))


@pytest.mark.parametrize(("groups", "redundancy"), [(200, 3), (200, 8), (1000, 7), (10_000, 9)])
def test_the_three_means_of_replication_are_one(groups: int, redundancy: int) -> None:
    """The beta functions, the sum of P(k), and the integral of R(p)."""
    law = DisjointSets(groups, redundancy)
    general = WipeOutLaw.mean_failures.func(law)  # type: ignore[attr-defined]
    assert law.outliving.sum() == pytest.approx(law.mean_failures, rel=1e-9)
    assert general == pytest.approx(law.mean_failures, rel=1e-9)


def test_without_copies_the_first_failure_ends_it() -> None:
    for law in (DisjointSets(50, 1), StackedTypes(50, 1)):
        assert law.mean_failures == pytest.approx(1.0)
        assert law.outliving.tolist() == [1.0, *[0.0] * 49]


def test_a_smaller_last_set_costs_more_than_a_copy() -> None:
    """N = 1000: with sets of 9 one group is left without a copy; sets of 8 fit."""
    assert DisjointSets(1000, 9).mean_failures < DisjointSets(1000, 8).mean_failures


@pytest.mark.parametrize(("groups", "redundancy"), [(200, 2), (1000, 5)])
def test_the_plain_form_of_replication_lacks_its_factor(groups: int, redundancy: int) -> None:
    """N/r sets instead of N: r^(1/r), but for one failure and O(r/N) that the integral misses."""
    exact = DisjointSets(groups, redundancy).mean_failures
    plain = plain_mean_failures(groups, redundancy)
    factor = redundancy ** (1 / redundancy)
    assert plain * factor == pytest.approx(exact, rel=redundancy / groups, abs=1.0)
    assert plain < 0.75 * exact


@pytest.mark.parametrize("failed", [0.02, 0.1, 0.3])
def test_a_ring_without_neighbours_down(failed: float) -> None:
    """R = 2: the transfer matrix has two eigenvalues; the form has the larger one."""
    exact = ring_reliability(60, 2)(failed)
    found = StackedTypes(60, 2).reliability(np.array([failed]))[0]
    assert found == pytest.approx(exact, rel=1e-6)


def test_failures_on_a_ring_by_counting() -> None:
    """R = 2: N/(N-k) C(N-k, k) of the C(N, k) subsets have no two neighbours."""
    groups = 200
    exact = [
        groups / (groups - k) * comb(groups - k, k) / comb(groups, k) if 2 * k <= groups else 0.0
        for k in range(groups)
    ]
    law = StackedTypes(groups, 2)
    # A saddle point is good to O(1/k), where P(k) has fallen by little.
    np.testing.assert_allclose(law.outliving, exact, atol=0.002)
    assert law.mean_failures == pytest.approx(sum(exact), rel=1e-4)


@pytest.mark.parametrize(
    ("groups", "redundancy", "tolerance"),
    [(50, 3, 0.005), (200, 3, 0.0025), (2000, 3, 0.001), (50, 4, 0.005), (200, 4, 0.002)],
)
def test_shared_hosts_are_counted_but_for_longer_cycles(
    groups: int, redundancy: int, tolerance: float
) -> None:
    """Against the exact mean; what is left are cycles of three types, rarer the larger N is."""
    exact_r = ring_reliability(groups, redundancy)
    highest = (40.0 / groups) ** (1 / redundancy)
    exact = (groups + 1) * quad(exact_r, 0.0, min(1.0, highest), epsabs=1e-7, limit=60)[0]
    law = StackedTypes(groups, redundancy)
    assert law.mean_failures == pytest.approx(exact, rel=tolerance)
    assert law.outliving.sum() == pytest.approx(exact, rel=2 * tolerance)
    # Harris: independent types are a lower bound, here and at every p.
    assert independent_types_mean_failures(groups, redundancy) < exact
    for failed in np.linspace(0.05, highest, 7):
        assert (1 - failed**redundancy) ** groups <= exact_r(float(failed)) * (1 + 1e-9)


@given(
    groups=st.integers(60, 3000),
    redundancy=st.integers(1, 8),
    failed=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=20),
)
def test_a_law_is_a_probability_that_falls(
    groups: int, redundancy: int, failed: list[float]
) -> None:
    for law in (DisjointSets(groups, redundancy), StackedTypes(groups, redundancy)):
        reliability = law.reliability(np.sort(failed))
        assert np.all((reliability >= 0.0) & (reliability <= 1.0 + 1e-9))
        assert np.all(np.diff(reliability) <= 1e-9)
        assert np.all(np.diff(law.outliving) <= 1e-9)
        assert law.outliving[: min(redundancy, groups % redundancy or redundancy)].tolist() == [
            1.0
        ] * min(redundancy, groups % redundancy or redundancy)
        assert np.all(law.reliability(np.array([0.0, 1.0])) == [1.0, 0.0])


def hosts_of_types(groups: int, redundancy: int) -> list[set[int]]:
    """SPARe's hosts of each shard type, a set a type."""
    offsets = ruler_for(groups, redundancy)
    return [{(place - offset) % groups for offset in offsets} for place in range(groups)]


@pytest.mark.parametrize(("groups", "redundancy"), [(8, 1), (9, 3), (11, 2), (11, 4), (12, 12)])
def test_the_next_failure_of_replication_over_all_subsets(groups: int, redundancy: int) -> None:
    """1 - P(k + 1)/P(k), with P from every subset of the groups."""
    outliving = outliving_by_enumeration(groups, sets_of(groups, redundancy))
    survivable = [p for p in outliving if p > 0]
    expected = 1 - np.array([*survivable[1:], 0.0]) / np.array(survivable)
    found = DisjointSets(groups, redundancy).forces_restart()
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert found[-1] == 1.0


@pytest.mark.parametrize(("groups", "redundancy"), [(14, 2), (16, 3)])
def test_spare_is_close_over_all_subsets(groups: int, redundancy: int) -> None:
    """The closed form is for many groups, its errors are of order 1/N where lives mostly end."""
    outliving = np.array(outliving_by_enumeration(groups, hosts_of_types(groups, redundancy)))
    found = np.array(StackedTypes(groups, redundancy).forces_restart())
    assert found[: redundancy - 1].tolist() == [0.0] * (redundancy - 1)
    # Where the next failure is likely to be met at all.
    met = [k for k in range(len(found) - 1) if outliving[k] > 0.2 and outliving[k + 1] > 0]
    assert len(met) > redundancy
    for k in met:
        assert found[k] == pytest.approx(1 - outliving[k + 1] / outliving[k], abs=1 / groups), k


@pytest.mark.parametrize(
    ("scheme", "groups", "redundancy"),
    [("spare", 40, 2), ("spare", 40, 3), ("replication", 40, 2), ("replication", 40, 3)],
)
def test_the_schemes_restart_as_often_as_foretold(
    scheme: str, groups: int, redundancy: int
) -> None:
    """1,500 lives of the scheme itself, one failure at a time in random order.

    Of the lives that reach k failed groups a binomial share ends with the next one: within four
    standard errors, and 2 points for SPARe, whose form leaves out cycles of three types.
    """
    rng = np.random.default_rng(7)
    strategy = build_strategy(scheme, groups, redundancy)
    law = strategy.forces_restart()
    reached, ended = np.zeros(groups + 1), np.zeros(groups + 1)
    for _ in range(1500):
        strategy.restart()
        for down, group in enumerate(rng.permutation(groups).tolist()):
            reached[down] += 1
            if isinstance(strategy.on_failures([group]), WipeOut):
                ended[down] += 1
                break
    bias = 0.02 if scheme == "spare" else 0.0
    compared = [down for down in range(len(law)) if reached[down] >= 200]
    assert len(compared) > redundancy + 1
    for down in compared:
        p = law[down]
        error = sqrt(max(p * (1 - p), 1 / reached[down]) / reached[down])
        assert abs(ended[down] / reached[down] - p) <= 4 * error + bias, down


@pytest.mark.parametrize("scheme", ["spare", "replication"])
@pytest.mark.parametrize("redundancy", [2, 3, 5, 9])
def test_it_grows_with_every_group_that_is_down(scheme: str, redundancy: int) -> None:
    law = np.array(build_strategy(scheme, 200, redundancy).forces_restart())
    assert np.all(np.diff(law) >= -1e-9)
    assert 0.0 <= law[0] <= law[-1] <= 1.0


def test_without_copies_the_next_failure_always_does() -> None:
    assert build_strategy("checkpoint", 200, 1).forces_restart() == (1.0,)


def test_least_stacks_by_hand() -> None:
    """N = 6: six, five, four, three, two and one group for six types; r = 4 is the most."""
    assert least_stacks(6, 4).tolist() == [1, 2, 2, 2, 3, 4]


@pytest.mark.parametrize("one_stack", [True, False])
def test_the_first_failures_by_hand(one_stack: bool) -> None:
    """All compute one more after the first; the second hits a neighbour with chance 2/(N - 1)."""
    patch = patch_types(200, 9, one_stack=one_stack)
    assert patch[0] == 0.0
    # One failure leaves 0.5 % of the types without a host in the new slot, too.
    assert patch[1] == pytest.approx(1.0, abs=0.01)
    assert patch[2] == pytest.approx(2 / 199, rel=0.01)


def test_a_stack_more_has_to_be_filled() -> None:
    """At k = N/2 + 1 the third stack comes: what is moved is moved into it."""
    one, needed = (patch_types(200, 9, one_stack=choice) for choice in (True, False))
    assert one[101] == needed[101] == 1.0
    stacks = least_stacks(200, 9)
    grown_by_one = np.flatnonzero(np.diff(stacks[:178], prepend=1.0) <= 1.0)
    np.testing.assert_array_equal(one[grown_by_one], needed[grown_by_one])


@pytest.mark.parametrize("seed", range(3))
def test_the_real_matching_puts_what_it_moves_into_the_new_stack(seed: int) -> None:
    scheme = Spare(200, 9, SpareOptions(), JobShape())
    expected = patch_types(200, 9, one_stack=False)
    for k, group in enumerate(np.random.default_rng(seed).permutation(200).tolist(), start=1):
        before = scheme.plan().stacks
        verdict = scheme.on_failures([group])
        if isinstance(verdict, WipeOut):
            break
        if scheme.plan().stacks > before:
            assert max(verdict.patch.values()) == expected[k] == 1.0
    assert k > 60


@given(groups=st.integers(4, 400), data=st.data(), one_stack=st.booleans())
def test_patch_compute_stays_in_its_range(
    groups: int, data: st.DataObject, one_stack: bool
) -> None:
    redundancy = data.draw(st.integers(1, largest_redundancy(groups)))
    patch, stacks = (
        patch_types(groups, redundancy, one_stack=one_stack),
        least_stacks(groups, redundancy),
    )
    assert patch.shape == (groups,)
    assert np.all(np.isfinite(patch))
    assert np.all(patch >= 0.0)
    growth = np.diff(stacks, prepend=1.0)
    assert np.all(patch <= (1.0 if one_stack else np.maximum(growth, 1.0)) + 1e-12)
