"""A step and the GPUs that its ranks are on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from faultline.simulator.pattern.step_pattern import StepPattern


@dataclass(frozen=True)
class PlacedStep:
    """A step on GPUs.

    Attributes
    ----------
    pattern : StepPattern
        What its ranks do.
    names : tuple of str
        GPU hosts in the order of the ranks: positions first, then stages, then replicas.
    """

    pattern: StepPattern
    names: tuple[str, ...]

    @classmethod
    def in_order(cls, pattern: StepPattern, names: Sequence[str]) -> PlacedStep:
        """Place a step on the first GPUs of a platform, so that a replica's are neighbours."""
        return cls(pattern, tuple(names[: pattern.data * pattern.pipeline * pattern.tensor]))

    def slower(self, factor: float) -> PlacedStep:
        """Return the same step whose passes take so many times as long to compute."""
        return PlacedStep(self.pattern.slower(factor), self.names)

    @cached_property
    def hosts(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """GPU hosts by replica, stage and position."""
        names, tensor = iter(self.names), range(self.pattern.tensor)
        return tuple(
            tuple(tuple(next(names) for _ in tensor) for _ in range(self.pattern.pipeline))
            for _ in range(self.pattern.data)
        )
