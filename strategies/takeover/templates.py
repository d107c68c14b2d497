"""Pipelines of unequal length: how they are re-formed when nodes are lost, and how fast they are.

Oobleck (SOSP 2023). A pipeline of n nodes has the model's layers dealt out as evenly as whole
layers allow. A pipeline that lost nodes takes another template; one that is too short for any
borrows nodes from the others; where none can spare any, it is merged with another.
"""

from __future__ import annotations

from collections.abc import Sequence

from faultline.strategies.errors import StrategyError


def regrouped(nodes: Sequence[int], least: int) -> tuple[int, ...]:
    """Return the nodes of each pipeline after some were lost, the longest first.

    Parameters
    ----------
    nodes : sequence of int
        Nodes that are left in each pipeline.
    least : int
        Nodes of the shortest pipeline that there is a template for: its memory has to do.

    Returns
    -------
    tuple of int
        Empty where not even one pipeline can be formed.
    """
    left = sorted((n for n in nodes if n > 0), reverse=True)
    while left and left[-1] < least:
        if left[0] > least:
            left[0] -= 1
            left[-1] += 1
        elif len(left) > 1:
            # Two are merged: the shortest with the next.
            left[-2:] = [left[-2] + left[-1]]
        else:
            return ()
        left.sort(reverse=True)
    return tuple(left)


def iteration_time(nodes: Sequence[int], layers: int, micro_batches: int) -> int:
    """Return the time of an iteration, in those that a micro-batch takes in one layer.

    A pipeline whose longest stage has c layers takes ``(m - 1) c + layers`` for m micro-batches;
    these are dealt out to pipelines so that the last is soonest through.

    Parameters
    ----------
    nodes : sequence of int
        Nodes of each pipeline.
    layers : int
        Layers of the model.
    micro_batches : int
        Micro-batches of all pipelines together.

    Raises
    ------
    StrategyError
        There is no pipeline.
    """
    if not nodes:
        raise StrategyError("pipelines", "there is none", "give one or more")
    longest = [-(-layers // n) for n in nodes]
    low, high = layers, layers + micro_batches * max(longest)
    while low < high:
        middle = (low + high) // 2
        if sum((middle - layers) // c + 1 for c in longest) >= micro_batches:
            high = middle
        else:
            low = middle + 1
    return low
