"""Which losses leave nobody with a share of an optimizer's state."""

from __future__ import annotations

from faultline.strategies.optimizer_shares import loses_a_share
from hypothesis import given
from hypothesis import strategies as st


def holders_of(members: list[int]) -> list[set[int]]:
    """Return who has the share of each member: two by two, three at the end of an odd number."""
    pairs = [set(members[at : at + 2]) for at in range(0, len(members) - 1, 2)]
    if len(members) % 2:
        last = pairs.pop() if pairs else set()
        pairs.append(last | {members[-1]})
    return pairs


@given(members=st.sets(st.integers(0, 30), min_size=1, max_size=9), data=st.data())
def test_a_share_is_lost_with_two_who_keep_each_others(
    members: set[int], data: st.DataObject
) -> None:
    """Of three in a ring, any two are one and who keeps its share."""
    everybody = sorted(members)
    missing = sorted(data.draw(st.sets(st.sampled_from(everybody), min_size=1)))
    alone = len(everybody) == 1
    together = any(len(pair.intersection(missing)) > 1 for pair in holders_of(everybody))
    assert loses_a_share(everybody, missing, "neighbour") == (alone or together)
    assert loses_a_share(everybody, missing, "none")
    assert not loses_a_share(everybody, missing, None)


def test_with_nobody_nothing_is_lost() -> None:
    assert not loses_a_share([0, 1], [], "none")
