"""Which component of a group a failure strikes, where the group's clock does not say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from simulator.failures.failure import JobLayout, Kind, Level
from simulator.random_streams import Purpose, stream

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
    """How the failures of independent groups are told apart.

    Attributes
    ----------
    layout : JobLayout
        Which GPUs share which components.
    level : {"gpu", "host", "group"}
        What kind of component is struck.
    hardware_share : float
        Share of the failures that are of hardware; the others are of software.
    """

    layout: JobLayout
    level: Literal["gpu", "host", "group"]
    hardware_share: float

    def victims(self, seed: int) -> ComponentVictims:
        """Return what the failures of a run strike."""
        return ComponentVictims(self, seed)


class ComponentVictims:
    """A component of the group, all alike, drawn anew for each failure.

    The draw depends on the seed, the group and the number of the failure only. A group's stream is
    made when it is asked for: most runs never ask.
    """

    def __init__(self, choice: ComponentChoice, seed: int) -> None:
        self._choice = choice
        self._seed = seed
        self._draws: dict[int, Iterator[tuple[float, float]]] = {}
        self._drawn: dict[int, list[tuple[float, float]]] = {}

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
        if group not in self._draws:
            self._draws[group], self._drawn[group] = _pairs(self._seed, group), []
        drawn = self._drawn[group]
        while len(drawn) <= index:
            drawn.append(next(self._draws[group]))
        return drawn[index]


def _pairs(seed: int, group: int) -> Iterator[tuple[float, float]]:
    uniforms = stream(seed, Purpose.GROUP_FAILURE_PLACES, group)
    while True:
        yield from uniforms.random((_BLOCK, 2)).tolist()
