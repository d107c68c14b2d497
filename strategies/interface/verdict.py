"""Failures as a scheme meets them, and its verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from faultline.strategies.interface.recovery import SHRINK, Recovery


class Hit(NamedTuple):
    """The broken GPUs of one group after a failure.

    Attributes
    ----------
    group : int
        The group.
    first_gpu, last_gpu : int
        The first and last broken GPU, by their numbers in the group, from 0.
    gpus_per_group : int
        GPUs of the whole group.
    """

    group: int
    first_gpu: int
    last_gpu: int
    gpus_per_group: int


_NO_PATCH: Mapping[int, int] = MappingProxyType({})


class Continue(NamedTuple):
    """The step can be completed without a restart.

    Attributes
    ----------
    dropped : tuple of int
        Members that leave the communicator.
    patch : mapping of int to int
        Stacks that each group has to compute before the all-reduce is repeated; empty if no work of
        the step was lost.
    moved_types : int
        Shard types that moved to another place.
    carried_on : tuple of int
        Missing members that stay and continue with their remaining hardware.
    recovery : Recovery or None
        The recovery before the job continues; None without an interruption.
    """

    dropped: tuple[int, ...]
    patch: Mapping[int, int] = _NO_PATCH
    moved_types: int = 0
    carried_on: tuple[int, ...] = ()
    recovery: Recovery | None = SHRINK


@dataclass(frozen=True, slots=True)
class WipeOut:
    """Work of the step is permanently lost: the job must restart from the last checkpoint."""

    missing: tuple[int, ...]


Verdict = Continue | WipeOut
