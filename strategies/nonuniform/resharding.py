"""What it costs that a healthy replica syncs its gradients with one of a lower degree.

The healthy replica reshards from N1 to N2 ranks, all-reduces with the N2 peers, and reshards back
(Arfeen et al. 2025). Only its N1 - N2 spare ranks send, each all it has; core ranks keep what they
have and receive their part of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultline.strategies.errors import StrategyError


@dataclass(frozen=True, slots=True)
class ReshardingBytes:
    """Bytes that a rank of a healthy replica moves one way.

    Attributes
    ----------
    spare_sends : float
        What each of the N1 - N2 spare ranks sends; on the way back, receives.
    core_receives : float
        What each of the N2 core ranks receives.
    core_syncs : float
        What each core rank then all-reduces: N1/N2 times its own share.
    """

    spare_sends: float
    core_receives: float
    core_syncs: float

    @property
    def largest(self) -> float:
        """The most that any GPU sends or receives."""
        return max(self.spare_sends, self.core_receives)


def resharding_bytes(stage_bytes: float, healthy: int, reduced: int) -> ReshardingBytes:
    """Return what resharding moves of a stage's gradients, from degree N1 to N2.

    Raises
    ------
    StrategyError
        The reduced degree is not between 1 and the healthy one.
    """
    if not 1 <= reduced <= healthy:
        raise StrategyError(
            "reduced", f"degree {reduced} is no reduction of {healthy}", f"use 1 to {healthy}"
        )
    own = stage_bytes / healthy
    spares = healthy - reduced
    return ReshardingBytes(
        spare_sends=own if spares else 0.0,
        core_receives=own * spares / reduced,
        core_syncs=own * healthy / reduced,
    )


def backward_slowdown(
    largest_bytes: float, backward_flop: float, bytes_per_s: float, flop_per_s: float
) -> float:
    """Return by which share resharding slows the backward pass at most: with nothing hidden.

    It is linear in the largest resharding bytes of a GPU over its backward FLOP, as was published;
    the factor here is the machine's. Both ways count: to the core ranks and back.

    Parameters
    ----------
    largest_bytes : float
        Most bytes that a GPU sends or receives one way (`ReshardingBytes.largest`).
    backward_flop : float
        FLOP of a GPU in the backward pass of an iteration.
    bytes_per_s, flop_per_s : float
        Speed of its scale-up links each way, and of its compute.
    """
    return 2 * largest_bytes / bytes_per_s / (backward_flop / flop_per_s)
