"""Golomb rulers and the cyclic layout of shard types that SPARe builds from them.

A Golomb ruler is a set of marks whose pairwise differences are all distinct. Group ``w`` hosts
shard type ``(w + mark) mod N`` for each mark. Any two shard types then share at most one host
group, so that the loss of one group never removes two copies of the same pair of types (the
independence condition of Lee et al. 2026 (SPARe), Theorem 4.1).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from faultline.strategies.interface.errors import StrategyError


@cache
def optimal_rulers() -> dict[int, tuple[int, ...]]:
    """Return the known optimal Golomb rulers, by order (number of marks), each starting at 0.

    The table is ``golomb_rulers.csv``: the rulers of order 1 to 28, all those that are
    proved optimal to date.
    """
    rulers: dict[int, tuple[int, ...]] = {}
    table = files(__package__).joinpath("golomb_rulers.csv").read_text(encoding="utf-8")
    for line in table.splitlines():
        if line.startswith("#") or line.startswith("order"):
            continue
        order, marks = line.split(",")
        rulers[int(order)] = tuple(int(mark) for mark in marks.split())
    return rulers


def largest_redundancy(groups: int) -> int:
    """Return the largest redundancy whose ruler fits `groups` groups (``N > 2 max(mark)``)."""
    return max(
        (order for order, marks in optimal_rulers().items() if groups > 2 * marks[-1]),
        default=0,
    )


def ruler_for(groups: int, redundancy: int) -> tuple[int, ...]:
    """Return the offsets of the stacks of a SPARe layout.

    There are N `groups` and N shard types; each group hosts `redundancy` of them. The first offset
    is 0; group w hosts the types ``(w + offset) mod N``.

    Raises
    ------
    StrategyError
        If no optimal ruler of that order is known, or if it is too long for N. Differences stay
        distinct modulo N only if ``N > 2 max(offset)``: if N is twice the largest mark, that mark
        and its negative are equal modulo N.
    """
    rulers = optimal_rulers()
    if redundancy not in rulers:
        raise StrategyError(
            "strategy.redundancy",
            f"no optimal Golomb ruler of order {redundancy} is known",
            f"use a redundancy from 1 to {max(rulers)}",
        )
    offsets = rulers[redundancy]
    if groups <= 2 * offsets[-1]:
        largest = largest_redundancy(groups)
        raise StrategyError(
            "strategy.redundancy",
            f"redundancy {redundancy} needs more than {2 * offsets[-1]} groups, there are {groups}",
            f"use a redundancy of at most {largest}, or at least {2 * offsets[-1] + 1} groups",
        )
    return offsets
