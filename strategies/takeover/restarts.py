"""Closed forms that the schemes which work around lost stages share."""

from __future__ import annotations

from faultline.strategies.base import StepPlan

NOTHING_LEFT = StepPlan((), 1, batch_share=0.0)
"""There is nobody to take a step; a restart lasts until something is repaired."""


def failures_until_nobody_is_left(nodes: int, needed: int = 1) -> float:
    """Return the mean number of failures, each of any node, until fewer are left than needed.

    The coupon collector's number, ``n (1/n + ... + 1/needed)``, without repairs; with repairs it
    takes far longer.
    """
    return nodes * sum(1.0 / k for k in range(needed, nodes + 1))
