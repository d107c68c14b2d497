"""A failure: what broke, when, why, and which groups went down with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

Level = Literal["gpu", "host", "domain", "switch", "group", "job"]
"""What kind of component fails; "domain" is a scale-up domain, "job" is everything at once."""

Kind = Literal["hardware", "network", "software"]
"""Whether a machine, the network between machines, or no machine at all is broken."""

LEVELS: tuple[Level, ...] = get_args(Level)
KINDS: tuple[Kind, ...] = get_args(Kind)

UNSTATED_CAUSE = "unstated"
"""Cause of the failures of a model that knows none."""


class Failure(NamedTuple):
    """One failure of one component.

    Attributes
    ----------
    time_s : float
        When it happens, in seconds of simulated time.
    level : Level
        What kind of component is hit.
    number : int
        Number of the component at its level, from 0.
    cause : str
        Name of the cause.
    kind : Kind
        What kind of repair it calls for.
    repair_s : float or None
        Seconds until the component is as good as new; None where nobody says.
    groups : range
        Groups that go down: all that have GPUs on the component.
    """

    time_s: float
    level: Level
    number: int
    cause: str
    kind: Kind
    repair_s: float | None
    groups: range

    @property
    def component(self) -> str:
        """Level and number of the component, as in ``gpu-97``; ``job`` has no number."""
        return component_name(self.level, self.number)


def component_name(level: Level, index: int) -> str:
    """Return a component's name in traces and tables: ``gpu-97``, ``job``."""
    return level if level == "job" else f"{level}-{index}"


@dataclass(frozen=True, slots=True)
class JobLayout:
    """Which GPUs of a job share a group, a host, a scale-up domain and a switch.

    GPUs are numbered through the job: group k has GPUs ``k*g`` to ``(k+1)*g - 1``, and the
    components of each level are runs of GPUs in the same way. The last component of a level has
    fewer GPUs where the level's size does not divide the job's.

    Attributes
    ----------
    groups : int
        Number of groups.
    gpus_per_group : int
        GPUs g of a group.
    gpus_per_host, gpus_per_domain, gpus_per_switch : int
        GPUs of a host, of a scale-up domain, and those that a switch connects; 0 of a switch where
        no GPU is cut off without it.
    """

    groups: int
    gpus_per_group: int
    gpus_per_host: int
    gpus_per_domain: int
    gpus_per_switch: int

    @property
    def gpus(self) -> int:
        """GPUs of the job."""
        return self.groups * self.gpus_per_group

    def gpus_per_component(self, level: Level) -> int:
        """Return the GPUs of a whole component of a level."""
        sizes: Mapping[Level, int] = {
            "gpu": 1,
            "host": self.gpus_per_host,
            "domain": self.gpus_per_domain,
            "switch": self.gpus_per_switch,
            "group": self.gpus_per_group,
            "job": self.gpus,
        }
        return sizes[level]

    def components(self, level: Level) -> int:
        """Return how many components of a level the job has, the last one maybe incomplete."""
        return -(-self.gpus // self.gpus_per_component(level))

    def gpus_of(self, level: Level, index: int) -> range:
        """Return the numbers of the GPUs of a component."""
        size = self.gpus_per_component(level)
        return range(index * size, min((index + 1) * size, self.gpus))

    def groups_of(self, level: Level, index: int) -> range:
        """Return the groups that have GPUs on a component."""
        gpus = self.gpus_of(level, index)
        return range(gpus[0] // self.gpus_per_group, gpus[-1] // self.gpus_per_group + 1)

    def hosts_losing_memory(self, failure: Failure) -> range:
        """Return the hosts whose memory is lost by a failure.

        Hardware is replaced by the server: a GPU that breaks takes its host's memory with it.
        Neither network nor software failures do.
        """
        if failure.kind != "hardware":
            return range(0)
        gpus = self.gpus_of(failure.level, failure.number)
        return range(gpus[0] // self.gpus_per_host, gpus[-1] // self.gpus_per_host + 1)

    def share_felt(self, level: Level, group: int) -> float:
        """Return the share of the job's GPUs that take `group` down when their component fails."""
        size = self.gpus_per_component(level)
        first = group * self.gpus_per_group // size * size
        last = -(-(group + 1) * self.gpus_per_group // size) * size
        return (min(last, self.gpus) - first) / self.gpus
