"""A failure: the broken component, its time and cause, and the groups that it stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

Level = Literal[
    "gpu", "nvlink", "pcie", "adapter", "host", "domain", "switch", "cable", "group", "job"
]
"""Kind of component that fails. Each GPU has a link to NVLink's switches, a network adapter, and a
link to that adapter (PCIe). A "domain" is a scale-up domain, a "cable" connects two switches, and
"job" is the whole job at once."""

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
"""Kind of failure; `RULES` says what each one is."""

TO_THE_NETWORK: frozenset[Level] = frozenset({"pcie", "adapter"})
"""Components between a GPU and the network; those of the server's other GPUs replace a lost one."""

OF_ONE_GPU: frozenset[Level] = TO_THE_NETWORK | {"gpu", "nvlink"}
"""Components that each GPU has once, numbered like the GPUs."""

NETWORK: frozenset[Level] = TO_THE_NETWORK | {"nvlink", "switch", "cable"}
"""Levels of components that compute nothing."""

LEVELS: tuple[Level, ...] = get_args(Level)

LEVELS_WITH_GPUS: frozenset[Level] = frozenset(LEVELS) - {"cable"}
"""Levels of components whose failure can stop a GPU; a cable's makes messages slower."""

Need = Literal["never", "maybe", "always"]
"""Whether a kind of failure has a number."""


@dataclass(frozen=True, slots=True)
class KindRule:
    """A kind of failure, in one sentence, and what a failure of this kind can be."""

    sentence: str
    stops: bool = False  # Whether the component stops when the failure happens.
    lasts: Need = "never"  # Whether it has a duration.
    factor: Need = "never"  # Whether it has a factor.
    levels: frozenset[Level] = LEVELS_WITH_GPUS  # Where it can occur.


RULES: Mapping[Kind, KindRule] = {
    "hardware": KindRule("A component is broken.", stops=True),
    "network": KindRule("The network between machines is broken.", stops=True),
    "software": KindRule("A process fails; its machine works.", stops=True),
    "preemption": KindRule("Machines are taken away.", stops=True),
    "slow": KindRule(
        "A component is slower by a factor for a while.",
        lasts="always",
        factor="always",
        levels=LEVELS_WITH_GPUS | {"cable"},
    ),
    "flap": KindRule("A link is down for a moment, which collectives may outlast.", lasts="always"),
    "partial": KindRule(
        "A part of the network is lost until its repair: the rest carries less.",
        lasts="always",
        factor="maybe",
        levels=NETWORK,
    ),
    "hang": KindRule(
        "A collective does not end before its time-out, although nothing is broken.", lasts="maybe"
    ),
    "corrupt": KindRule("A component computes wrong results until that is found.", lasts="always"),
    "planned": KindRule("Maintenance, announced ahead.", lasts="maybe"),
    "storage": KindRule("Storage is unavailable for saving and loading.", lasts="always"),
}
"""What each kind of failure is, and at which levels it can occur."""

STOPPING: frozenset[Kind] = frozenset(kind for kind, rule in RULES.items() if rule.stops)
"""Kinds by which a component stops when the failure happens."""


def kind_error(level: Level, kind: Kind, has_factor: bool) -> str | None:
    """Return the error message for a kind of failure that a level cannot have."""
    levels = RULES[kind].levels
    if level == "cable" and level not in levels:
        known = ", ".join(sorted(one for one, rule in RULES.items() if level in rule.levels))
        return f"a cable between switches cannot have a failure of kind {kind}: use {known}"
    if level not in levels:
        known = ", ".join(sorted(levels))
        return f"a {level} cannot have a failure of kind {kind}: use a level of {known}"
    if level == "nvlink" and kind == "partial" and not has_factor:
        return "a GPU stops without its NVLink: state a factor, or a kind that stops it"
    return None


Transient = Literal["replaced", "in-place"]
"""Whether failures of software are taken for broken machines, which are replaced."""


def stops_machine(kind: Kind, level: Level, transient: Transient) -> bool:
    """Return whether a failure stops machines, rather than processes alone.

    After a failure of software of the whole job, no machine is known to be at fault.
    """
    return kind != "software" or (transient == "replaced" and level != "job")


KINDS: tuple[Kind, ...] = tuple(RULES)

UNSTATED_CAUSE = "unstated"
"""Cause of the failures of a model that knows none."""


class Failure(NamedTuple):
    """One failure of one component."""

    time_s: float  # When it happens, in seconds of simulated time.
    level: Level  # What kind of component is hit.
    number: int  # Number of the component at its level, from 0.
    cause: str  # Name of the cause.
    kind: Kind  # Kind of failure; the repair depends on it.
    repair_s: float | None  # Seconds to repair the component; None if not stated.
    groups: range  # Groups that stop or are affected: all that have GPUs on the component.
    # Duration of kinds that do not stop it, in seconds: of the condition, until a hang times out,
    # until corruption is found, or from the notice of maintenance to its start.
    lasts_s: float = 0.0
    # How many times as long a slow component takes, or the remaining share of a network.
    factor: float = 1.0
    # Seconds from each repair that misses the fault to the next failure by it.
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
    fewer GPUs if the level's size does not divide the job's.
    """

    groups: int  # Number of groups.
    gpus_per_group: int  # GPUs g of a group.
    # GPUs of a host, of a scale-up domain, and of a switch; 0 for the switch if all GPUs stay
    # connected without it.
    gpus_per_host: int
    gpus_per_domain: int
    gpus_per_switch: int

    @property
    def gpus(self) -> int:
        """GPUs of the job."""
        return self.groups * self.gpus_per_group

    def gpus_per_component(self, level: Level) -> int:
        """Return the GPUs of a whole component of a level; 0 if it stops none."""
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
        """Return the number of a level's components, the last one perhaps incomplete.

        For components that stop no GPU, which only a platform can count, it is the number of GPUs.
        """
        return -(-self.gpus // (self.gpus_per_component(level) or 1))

    def gpus_of(self, level: Level, index: int) -> range:
        """Return the numbers of the GPUs of a component."""
        size = self.gpus_per_component(level)
        return range(index * size, min((index + 1) * size, self.gpus))

    def groups_of(self, level: Level, index: int) -> range:
        """Return the groups with GPUs on a component; all groups if it stops no GPU."""
        size = self.gpus_per_component(level)
        if not size:
            return range(self.groups)
        last = min((index + 1) * size, self.gpus) - 1
        return range(index * size // self.gpus_per_group, last // self.gpus_per_group + 1)

    def hosts_of(self, failure: Failure) -> range:
        """Return the hosts with GPUs on the component of a failure.

        A component that stops no GPU has the first host of the first affected group.
        """
        gpus = self.gpus_of(failure.level, failure.number)
        if not gpus:
            return self.hosts_of_group(failure.groups[0])[:1]
        return range(gpus[0] // self.gpus_per_host, gpus[-1] // self.gpus_per_host + 1)

    def hosts_of_group(self, group: int) -> range:
        """Return the hosts with GPUs of a group."""
        gpus = self.gpus_of("group", group)
        return range(gpus[0] // self.gpus_per_host, gpus[-1] // self.gpus_per_host + 1)

    def hosts_losing_memory(self, failure: Failure) -> range:
        """Return the hosts whose memory is lost by a failure.

        Hardware is replaced per server, so a broken GPU means the loss of its host's memory. The
        only other kind that loses it is a preempted server.
        """
        if failure.kind not in ("hardware", "preemption"):
            return range(0)
        return self.hosts_of(failure)

    def groups_losing_memory(self, failure: Failure) -> range:
        """Return the groups with GPUs on the hosts whose memory is lost by a failure."""
        hosts = self.hosts_losing_memory(failure)
        if not hosts:
            return range(0)
        first, last = (self.groups_of("host", host) for host in (hosts[0], hosts[-1]))
        return range(first.start, last.stop)

    def share_stopping(self, level: Level, group: int) -> float:
        """Return the share of the job's GPUs whose component stops `group` when it fails."""
        size = self.gpus_per_component(level)
        if not size:
            return 0.0
        first = group * self.gpus_per_group // size * size
        last = -(-(group + 1) * self.gpus_per_group // size) * size
        return (min(last, self.gpus) - first) / self.gpus
