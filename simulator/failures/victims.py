"""Which component of a group a failure strikes, where the group's clock does not say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from faultline.simulator.failures.failure import JobLayout, Kind, Level
from faultline.simulator.random_streams import Purpose, stream

_BLOCK = 8


class Victims(Protocol):
    """Knows which component each failure of a group strikes, and what kind of failure it is."""

    def of(self, group: int, index: int) -> tuple[Level, int, Kind]:
        """Return level and number of the component, and the kind, of a group's failure.

        Parameters
        ----------
        group : int
            The group.
        index : int
            How many failures it had before.
        """
        ...


class WholeGroups:
    """Every failure is one of the group's hardware as a whole."""

    def of(self, group: int, index: int) -> tuple[Level, int, Kind]:
        """Return the group itself."""
        return "group", group, "hardware"


@dataclass(frozen=True, slots=True)
class ComponentChoice:
    """How the failures of independent groups are told apart."""

    layout: JobLayout  # Which GPUs share which components.
    level: Literal["gpu", "host", "group"]  # What kind of component is struck.
    hardware_share: float  # Share of the failures that are of hardware; the others are of software.

    def victims(self, seed: int) -> ComponentVictims:
        """Return what the failures of a run strike."""
        return ComponentVictims(self, seed)


class ComponentVictims:
    """A component of the group, all alike, drawn anew for each failure.

    The draw depends on the seed, the group and the number of the failure only. A group's stream is
    made when it is asked for: most runs never ask. Only its latest draws are kept; who asks for
    older ones has them drawn again.
    """

    def __init__(self, choice: ComponentChoice, seed: int) -> None:
        self._choice = choice
        self._seed = seed
        self._streams: dict[int, _LatestDraws] = {}

    def of(self, group: int, index: int) -> tuple[Level, int, Kind]:
        """Return level and number of the component, and the kind, of a group's failure."""
        layout, level = self._choice.layout, self._choice.level
        where, what = self._uniforms(group, index)
        kind: Kind = "hardware" if what < self._choice.hardware_share else "software"
        if level == "group":
            return level, group, kind
        gpu = group * layout.gpus_per_group + int(where * layout.gpus_per_group)
        return level, gpu // layout.gpus_per_component(level), kind

    def _uniforms(self, group: int, index: int) -> tuple[float, float]:
        known = self._streams.get(group)
        if known is None or index < known.first:
            uniforms = stream(self._seed, Purpose.GROUP_FAILURE_PLACES, group)
            known = self._streams[group] = _LatestDraws(uniforms)
        return known[index]


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
