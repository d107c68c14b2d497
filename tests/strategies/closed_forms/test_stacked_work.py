"""SPARe's stacks and patch compute by hand; tests of the theory package have them by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.strategies.base import WipeOut
from faultline.strategies.closed_forms.stacked_types import least_stacks, patch_types
from faultline.strategies.golomb import largest_redundancy
from faultline.strategies.spare import Spare, SpareOptions
from hypothesis import given
from hypothesis import strategies as st


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
    scheme = Spare(200, 9, SpareOptions())
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
