"""SPARe's stacks and patch compute by hand; tests of the theory package have them by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.closed_forms.stacked_work import least_stacks, patch_types
from strategies.golomb import largest_redundancy


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
    """At k = N/2 + 1 the third stack comes: half of its hosts are down, so types are moved, too."""
    one, needed = (patch_types(200, 9, one_stack=choice) for choice in (True, False))
    assert one[101] == 1.0
    # Two types of the failed group, each with its third host down with probability 101/200.
    assert needed[101] == pytest.approx(1.0 + 1.0 - (1 - 101 / 200) ** 2, abs=0.02)
    others = np.delete(np.arange(130), [1, 101])
    np.testing.assert_allclose(one[others], needed[others])


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
    assert np.all(patch <= (1.0 if one_stack else 1.0 + growth) + 1e-12)
