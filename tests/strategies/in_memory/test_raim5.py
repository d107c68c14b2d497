"""RAIM5: real bytes are encoded, a member is lost, and every byte comes back."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.strategies.errors import StrategyError
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.in_memory.raim5 import encode, rebuild

shares_of_groups = st.lists(st.integers(0, 200), min_size=2, max_size=9)


def random_shares(lengths: list[int], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, length, dtype=np.uint8) for length in lengths]


@given(lengths=shares_of_groups, seed=st.integers(0, 2**32), data=st.data())
def test_any_one_lost_member_is_rebuilt(lengths: list[int], seed: int, data: st.DataObject) -> None:
    shares = random_shares(lengths, seed)
    members = encode(shares)
    lost = data.draw(st.integers(0, len(lengths) - 1))
    left = [None if index == lost else member for index, member in enumerate(members)]
    rebuilt = rebuild(left, lengths)
    for member, share, encoded in zip(rebuilt, shares, members, strict=True):
        assert member.share.tobytes() == share.tobytes()
        assert member.parity.tobytes() == encoded.parity.tobytes()


def test_a_member_keeps_an_n_minus_first_of_the_state() -> None:
    """1/n of the state and 1/(n (n - 1)) of it as parity."""
    members = encode(random_shares([1200] * 4, 0))
    assert all(member.share.size + member.parity.size == 4 * 1200 // 3 for member in members)


def test_parity_is_the_xor_of_what_others_cut_for_a_member() -> None:
    """Three members of two bytes each; owner's first block goes to the lower-numbered other."""
    members = encode([np.array(pair, np.uint8) for pair in ([1, 2], [4, 8], [16, 32])])
    assert [member.parity.tolist() for member in members] == [[4 ^ 16], [1 ^ 32], [2 ^ 8]]


def test_two_lost_members_are_too_many() -> None:
    members = encode(random_shares([10, 10, 10], 1))
    with pytest.raises(StrategyError, match="members 0, 2 of a group of 3"):
        rebuild([None, members[1], None], [10, 10, 10])


def test_a_group_of_one_has_nobody_to_rebuild_it() -> None:
    with pytest.raises(StrategyError, match="at least two"):
        encode(random_shares([10], 1))
