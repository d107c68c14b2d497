"""A step and the GPUs that its ranks are on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from faultline.simulator.pattern.activity_graph import Rank
from faultline.simulator.pattern.step_pattern import StepPattern

MOST_RANKS_APART = 256
"""In larger jobs one group represents all equal groups: a task takes 8 kB of memory, and SimGrid
spends more time on each task the more tasks run at once."""


@dataclass(frozen=True)
class PlacedStep:
    """A step on GPUs.

    Attributes
    ----------
    pattern : StepPattern
        The work of its ranks.
    names : tuple of str
        GPU hosts in the order of the ranks: positions first, then stages, then replicas.
    version : int
        Part of the keys of cached times: raised when the same step is simulated differently.
    """

    pattern: StepPattern
    names: tuple[str, ...]
    version: int = field(default=1, init=False)

    @classmethod
    def in_order(cls, pattern: StepPattern, names: Sequence[str]) -> PlacedStep:
        """Place a step on the first GPUs of a platform; those of a replica are neighbours."""
        return cls(pattern, tuple(names[: pattern.data * pattern.pipeline * pattern.tensor]))

    def slower(self, factor: float) -> PlacedStep:
        """Return the step with passes that take `factor` times as long to compute."""
        return PlacedStep(self.pattern.slower(factor), self.names)

    def with_slow_stages(self, factors: Mapping[int, float]) -> PlacedStep:
        """Return the step with passes of some stages that take `factors` times as long."""
        pattern = self.pattern
        parts = tuple(
            part.slower(factors.get(place % pattern.pipeline, 1.0))
            for place, part in enumerate(pattern.parts)
        )
        return PlacedStep(replace(pattern, parts=parts), self.names)

    @property
    def keeps_ranks_apart(self) -> bool:
        """Whether the step is so small that each group may be simulated."""
        return len(self.names) <= MOST_RANKS_APART

    @property
    def groups(self) -> int:
        """Groups of the job."""
        return self.pattern.data // self.pattern.context

    def with_first(
        self, groups: Sequence[int], alike: Callable[[Iterable[str]], Mapping[str, str]]
    ) -> PlacedStep:
        """Return the step with `groups` as its first groups, on equivalent hosts.

        `alike` returns an equivalent host for each of some hosts.
        """
        size = len(self.names) // self.groups
        hosts = (self.names[group * size : (group + 1) * size] for group in groups)
        names = [name for each in hosts for name in each]
        equivalents = alike(names)
        first = [equivalents[name] for name in names]
        idle = [name for name in self.names if name not in {*first}]
        return replace(self, names=(*first, *idle[: len(self.names) - len(first)]))

    def rank_on(self, gpu: int) -> Rank:
        """Return the rank on a GPU of the job, by its number."""
        place, position = divmod(gpu, self.pattern.tensor)
        return Rank(*divmod(place, self.pattern.pipeline), position)

    @cached_property
    def hosts(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """GPU hosts by replica, stage and position."""
        names, tensor = iter(self.names), range(self.pattern.tensor)
        return tuple(
            tuple(tuple(next(names) for _ in tensor) for _ in range(self.pattern.pipeline))
            for _ in range(self.pattern.data)
        )
