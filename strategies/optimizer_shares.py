"""Who has what of an optimizer's state that groups share, and which losses leave nobody with it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Literal

OptimizerBackup = Literal["neighbour", "none"]
"""Who else has a group's share of the optimizer's state."""


def loses_a_share(
    members: Sequence[int], missing: Sequence[int], backup: OptimizerBackup | None
) -> bool:
    """Return whether a share of the optimizer's state is lost with some groups.

    Members that lie next to each other keep each other's shares, two by two, the last three of an
    odd number in a ring; shares are dealt anew whenever members leave or come. Weights are to be
    had from any member.

    Parameters
    ----------
    members : sequence of int
        Groups among whom the state was shared, in ascending order.
    missing : sequence of int
        Those of them that are lost at the same time.
    backup : {"neighbour", "none"} or None
        Who else has a member's share; None where each has all of the state.
    """
    if backup is None or not missing:
        return False
    if backup == "none" or len(members) < 2:
        return True
    last = len(members) // 2 - 1
    lost = Counter(min(bisect_left(members, group) // 2, last) for group in missing)
    return max(lost.values()) > 1
