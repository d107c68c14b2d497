"""The component of a group that a failure strikes, for clocks of whole groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from faultline.simulator.failures.failure import UNSTATED_CAUSE, Failure, JobLayout, Kind, Level
from faultline.simulator.failures.random_streams import Purpose, stream

_BLOCK = 8


@dataclass(frozen=True, slots=True)
class ComponentChoice:
    """How components and kinds are drawn for the failures of independent groups."""

    layout: JobLayout  # Which GPUs share which components.
    level: Literal["gpu", "host", "group"]  # Level of the components that are struck.
    hardware_share: float  # Share of hardware failures; the others are of software.


WHOLE_GROUPS = ComponentChoice(JobLayout(1, 1, 1, 1, 1), "group", 1.0)
"""Each failure breaks the hardware of its whole group."""


class Victims:
    """Draws the component of a group that each failure strikes, uniformly.

    The draw depends only on the seed, the group and the number of the failure. A group's stream is
    made at its first use, which most runs never reach. Only its latest draws are kept; older ones
    are drawn again when requested.
    """

    def __init__(self, choice: ComponentChoice, seed: int) -> None:
        self._choice = choice
        self._seed = seed
        self._streams: dict[int, _LatestDraws] = {}

    def of(self, group: int, index: int) -> tuple[Level, int, Kind]:
        """Return level and number of the component, and the kind, of a group's failure.

        The group has had `index` failures before.
        """
        layout, level = self._choice.layout, self._choice.level
        gpu_share, kind_share = self._uniforms(group, index)
        kind: Kind = "hardware" if kind_share < self._choice.hardware_share else "software"
        if level == "group":
            return level, group, kind
        gpu = group * layout.gpus_per_group + int(gpu_share * layout.gpus_per_group)
        return level, gpu // layout.gpus_per_component(level), kind

    def _uniforms(self, group: int, index: int) -> tuple[float, float]:
        known = self._streams.get(group)
        if known is None or index < known.first:
            uniforms = stream(self._seed, Purpose.GROUP_FAILURE_PLACES, group)
            known = self._streams[group] = _LatestDraws(uniforms)
        return known[index]


class GroupFailure:
    """Stands for the `Failure` of a group, and equals it.

    Its component and kind are drawn when anything but its time and group is looked at, which most
    runs never do.
    """

    __slots__ = ("_failure", "_group", "_index", "_victims", "time_s")

    def __init__(self, time_s: float, group: int, index: int, victims: Victims) -> None:
        self.time_s = time_s
        self._group, self._index, self._victims = group, index, victims
        self._failure: Failure | None = None

    @property
    def groups(self) -> range:
        """The group alone, whichever of its components fails."""
        return range(self._group, self._group + 1)

    def _drawn(self) -> Failure:
        if self._failure is None:
            level, number, kind = self._victims.of(self._group, self._index)
            self._failure = Failure(
                self.time_s, level, number, UNSTATED_CAUSE, kind, None, self.groups
            )
        return self._failure

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drawn(), name)

    def __eq__(self, other: object) -> bool:
        return self._drawn() == other

    def __hash__(self) -> int:
        return hash(self._drawn())

    def __repr__(self) -> str:
        return repr(self._drawn())


class _LatestDraws:
    """Pairs of uniform numbers of a stream, from number `first` on."""

    __slots__ = ("_pairs", "_uniforms", "first")

    def __init__(self, uniforms: np.random.Generator) -> None:
        self._uniforms = uniforms
        self._pairs: list[tuple[float, float]] = []
        self.first = 0

    def __getitem__(self, index: int) -> tuple[float, float]:
        while index >= self.first + len(self._pairs):
            self.first += len(self._pairs[:-_BLOCK])
            self._pairs = self._pairs[-_BLOCK:] + self._uniforms.random((_BLOCK, 2)).tolist()
        return self._pairs[index - self.first]
