"""RAIM5: RAID5 across the host memories of a sharding group (Wang et al. 2023 (REFT)).

Each of n members holds its share of the group's state, cut into n - 1 blocks, one for each other
member; and a parity block, the XOR of the blocks that the others cut for it. One lost member is
rebuilt from the rest. A member's memory is 1/n + 1/(n(n - 1)) = 1/(n - 1) of the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from faultline.strategies.errors import StrategyError
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Member:
    """What one member keeps: its share of the state, and the XOR of a block of every other one."""

    share: Bytes
    parity: Bytes


def encode(shares: Sequence[Bytes]) -> list[Member]:
    """Return what each member keeps, for shares of any lengths."""
    blocks = _blocks(shares)
    return [Member(share, _parity(blocks, holder)) for holder, share in enumerate(shares)]


def rebuild(members: Sequence[Member | None], share_bytes: Sequence[int]) -> list[Member]:
    """Return all members again, from all but one of them (None), by the lengths of their shares."""
    lost = [index for index, member in enumerate(members) if member is None]
    if len(lost) > 1:
        raise StrategyError(
            "raim5",
            f"members {', '.join(map(str, lost))} of a group of {len(members)} are lost",
            "the code rebuilds one; load the last checkpoint from storage",
        )
    if lost:
        share = _rebuilt_share(members, share_bytes, lost[0])
        shares = [share if member is None else member.share for member in members]
        parity = _parity(_blocks(shares), lost[0])
        return [Member(share, parity) if member is None else member for member in members]
    return [member for member in members if member is not None]


def _rebuilt_share(
    members: Sequence[Member | None], share_bytes: Sequence[int], lost: int
) -> Bytes:
    shares = [
        np.zeros(share_bytes[lost], np.uint8) if member is None else member.share
        for member in members
    ]
    blocks = _blocks(shares)
    pieces = []
    for holder, member in enumerate(members):
        if member is not None:
            known = [row[holder] for index, row in enumerate(blocks) if index not in (holder, lost)]
            pieces.append(np.bitwise_xor.reduce([member.parity, *known]))
    return np.concatenate(pieces)[: share_bytes[lost]]


def _blocks(shares: Sequence[Bytes]) -> list[dict[int, Bytes]]:
    """Cut each share into a block for each other member, all of one length, padded with zeros."""
    members = len(shares)
    if members < 2:
        raise StrategyError("raim5", "a sharding group of one member", "use at least two")
    length = -(-max(share.size for share in shares) // (members - 1))
    blocks = []
    for owner, share in enumerate(shares):
        padded = np.zeros(length * (members - 1), np.uint8)
        padded[: share.size] = share
        others = [index for index in range(members) if index != owner]
        blocks.append(dict(zip(others, padded.reshape(members - 1, length), strict=True)))
    return blocks


def _parity(blocks: Sequence[dict[int, Bytes]], holder: int) -> Bytes:
    cut = [row[holder] for owner, row in enumerate(blocks) if owner != holder]
    parity: Bytes = np.bitwise_xor.reduce(cut)
    return parity
