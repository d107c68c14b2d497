"""A failure: what broke, when, why, and which groups went down with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

Level = Literal[
    "gpu", "nvlink", "pcie", "adapter", "host", "domain", "switch", "cable", "group", "job"
]
"""What kind of component fails; each GPU has a link to NVLink's switches, one to its adapter (PCIe)
and that adapter; "domain" is a scale-up domain, "cable" is between two switches, "job" is
everything at once."""

Kind = Literal[
    "hardware",
    "network",
    "software",
    "preemption",
    "slow",
    "flap",
    "partial",
    "hang",
    "corrupt",
    "planned",
    "storage",
]
"""What kind of failure it is.

hardware, network, software, preemption
    A component stops: a machine is broken, the network between machines, a process; or machines
    are taken away.
slow
    A component is slower by a factor for a while.
flap
    A link is down for a moment, which collectives may outlast.
partial
    Some of the network is lost until its repair: what is left carries less.
hang
    Nothing is broken, and a collective does not end before its time-out.
corrupt
    From its onset a component computes what is wrong, until somebody finds out.
planned
    Maintenance, announced ahead.
storage
    Nothing can be saved, or loaded.
"""

STOPPING: frozenset[Kind] = frozenset({"hardware", "network", "software", "preemption"})
"""Kinds by which a component stops when the failure happens."""

LASTS_NEEDED: frozenset[Kind] = frozenset({"slow", "flap", "partial", "corrupt", "storage"})
"""Kinds of which it has to be said how long they last; of `LASTS_ALLOWED` it may."""

LASTS_ALLOWED: frozenset[Kind] = LASTS_NEEDED | {"hang", "planned"}

FACTOR_NEEDED: frozenset[Kind] = frozenset({"slow"})
"""Kinds that need a factor; `FACTOR_ALLOWED` may have one."""

FACTOR_ALLOWED: frozenset[Kind] = FACTOR_NEEDED | {"partial"}

TO_THE_NETWORK: frozenset[Level] = frozenset({"pcie", "adapter"})
"""What a GPU sends to the network passes; for what is lost, others of its server do the work."""

OF_ONE_GPU: frozenset[Level] = TO_THE_NETWORK | {"gpu", "nvlink"}
"""What there is of each GPU, numbered as these."""

NETWORK: frozenset[Level] = TO_THE_NETWORK | {"nvlink", "switch", "cable"}
"""Levels of components that compute nothing."""

_KINDS_OF_CABLES: frozenset[Kind] = frozenset({"slow", "partial"})
"""A cable between switches takes no GPU down: messages are slower, or go another way."""


def no_failure_of(level: Level, kind: Kind, has_factor: bool) -> str | None:
    """Return what to tell who says that a component failed in a way in which none does."""
    if level == "cable" and kind not in _KINDS_OF_CABLES:
        known = ", ".join(sorted(_KINDS_OF_CABLES))
        told = f"a cable between switches takes nobody down by a failure of kind {kind}: use"
        return f"{told} {known}"
    if kind == "partial" and level not in NETWORK:
        known = ", ".join(sorted(NETWORK))
        return f"of a {level} there is no part that others do without: name one of {known}"
    if level == "nvlink" and kind == "partial" and not has_factor:
        return "without its NVLink a GPU cannot go on: state a factor, or a kind that stops it"
    return None


LEVELS: tuple[Level, ...] = get_args(Level)
KINDS: tuple[Kind, ...] = get_args(Kind)

UNSTATED_CAUSE = "unstated"
"""Cause of the failures of a model that knows none."""


class Failure(NamedTuple):
    """One failure of one component."""

    time_s: float  # When it happens, in seconds of simulated time.
    level: Level  # What kind of component is hit.
    number: int  # Number of the component at its level, from 0.
    cause: str  # Name of the cause.
    kind: Kind  # What kind of repair it calls for.
    repair_s: float | None  # Seconds until the component is as good as new; None where nobody says.
    groups: range  # Groups that go down, or feel it: all that have GPUs on the component.
    # Of kinds that do not stop it: how long it goes on, until a hang is given up, until corruption
    # is found, or from the notice of maintenance to its beginning; in seconds.
    lasts_s: float = 0.0
    # How many times as long a slow component takes, or what is left of a network.
    factor: float = 1.0
    # Seconds from each time that it is up again to the next failure by the same culprit.
    recurs_s: tuple[float, ...] = ()

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
    """

    groups: int  # Number of groups.
    gpus_per_group: int  # GPUs g of a group.
    # GPUs of a host, of a scale-up domain, and those that a switch connects; 0 of a switch where no
    # GPU is cut off without it.
    gpus_per_host: int
    gpus_per_domain: int
    gpus_per_switch: int

    @property
    def gpus(self) -> int:
        """GPUs of the job."""
        return self.groups * self.gpus_per_group

    def gpus_per_component(self, level: Level) -> int:
        """Return the GPUs of a whole component of a level; 0 where it takes none down."""
        match level:
            case "host":
                size = self.gpus_per_host
            case "domain":
                size = self.gpus_per_domain
            case "switch":
                size = self.gpus_per_switch
            case "cable":
                size = 0
            case "group":
                size = self.gpus_per_group
            case "job":
                size = self.gpus
            case _:
                size = 1
        return size

    def components(self, level: Level) -> int:
        """Return how many components of a level the job has, the last one maybe incomplete.

        Of those that take no GPU down, which only a platform can count, as many as GPUs.
        """
        return -(-self.gpus // (self.gpus_per_component(level) or 1))

    def gpus_of(self, level: Level, index: int) -> range:
        """Return the numbers of the GPUs of a component."""
        size = self.gpus_per_component(level)
        return range(index * size, min((index + 1) * size, self.gpus))

    def groups_of(self, level: Level, index: int) -> range:
        """Return the groups that have GPUs on a component: all, where a switch is everybody's."""
        size = self.gpus_per_component(level)
        if not size:
            return range(self.groups)
        last = min((index + 1) * size, self.gpus) - 1
        return range(index * size // self.gpus_per_group, last // self.gpus_per_group + 1)

    def machines_of(self, failure: Failure) -> int:
        """Return how many machines a failure takes: all hosts that have GPUs on its component.

        A group fails with one of its machines.
        """
        if failure.level == "group":
            return 1
        gpus = self.gpus_of(failure.level, failure.number)
        return (gpus[-1] // self.gpus_per_host - gpus[0] // self.gpus_per_host + 1) if gpus else 1

    def hosts_losing_memory(self, failure: Failure) -> range:
        """Return the hosts whose memory is lost by a failure.

        Hardware is replaced by the server: a GPU that breaks takes its host's memory with it. So
        does who takes a server away, and nothing else.
        """
        if failure.kind not in ("hardware", "preemption"):
            return range(0)
        gpus = self.gpus_of(failure.level, failure.number)
        return range(gpus[0] // self.gpus_per_host, gpus[-1] // self.gpus_per_host + 1)

    def groups_losing_memory(self, failure: Failure) -> range:
        """Return the groups with GPUs on the hosts whose memory is lost by a failure."""
        hosts = self.hosts_losing_memory(failure)
        if not hosts:
            return range(0)
        first, last = (self.groups_of("host", host) for host in (hosts[0], hosts[-1]))
        return range(first.start, last.stop)

    def share_felt(self, level: Level, group: int) -> float:
        """Return the share of the job's GPUs that take `group` down when their component fails."""
        size = self.gpus_per_component(level)
        if not size:
            return 0.0
        first = group * self.gpus_per_group // size * size
        last = -(-(group + 1) * self.gpus_per_group // size) * size
        return (min(last, self.gpus) - first) / self.gpus
