"""The job of the study, who keeps whose state, what failures take memory away, and costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.mix_file import load_mix
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.failures.mix import Cause, CauseMix
from faultline.strategies.in_memory.node_groups import NodeGroups, Placement
from faultline.strategies.in_memory.reliability import wasted_time_s

LAYOUT = JobLayout(
    groups=2048, gpus_per_group=8, gpus_per_host=8, gpus_per_domain=64, gpus_per_switch=64
)
"""16,384 GPUs as 2,048 hosts of 8, in scale-up domains of 8 hosts; our choice.

Domains that are larger than a host are what makes their failures a matter of placement.
"""

HOSTS = LAYOUT.components("host")
HOSTS_PER_DOMAIN = LAYOUT.gpus_per_domain // LAYOUT.gpus_per_host

MIXES = ("llama3", "rsc-1", "rsc-2")
SHOWN_MIX = "llama3"
DOMAIN_SHARES = (0.0, 0.05, 0.1, 0.15, 0.2)
WINDOWS_H = (1, 3, 6, 12, 24)
PLACEMENTS: tuple[Placement, ...] = ("across-domains", "neighbours")

PUBLISHED_RECOVERY = {(16, 2, 2): 93.3, (16, 2, 3): 80.0}
"""Per cent, by machines, replicas and lost machines (Wang et al. 2023 (GEMINI), SOSP)."""


@dataclass(frozen=True, slots=True)
class MemoryScheme:
    """A way to keep state in host memory."""

    label: str  # What it is called in figures.
    # Hosts of a group, and losses that a group survives.
    size: int
    tolerated: int

    def groups(self, nodes: int, placement: Placement) -> NodeGroups:
        """Return who keeps whose state among `nodes` hosts."""
        return NodeGroups(nodes, self.size, self.tolerated, placement)


SCHEMES = {
    "unprotected": MemoryScheme("unprotected memory", 1, 0),
    "reft-16": MemoryScheme("REFT, groups of 16", 16, 1),
    "reft-8": MemoryScheme("REFT, groups of 8", 8, 1),
    "gemini-2": MemoryScheme("GEMINI, m = 2", 2, 1),
    "gemini-3": MemoryScheme("GEMINI, m = 3", 3, 2),
}


def memory_losing_mix(mix: str, domain_share: float) -> CauseMix:
    """Return the causes of a shipped mix that take memory away, some failures taking a domain.

    Those are the causes of kind hardware: software and networks that fail leave memory as it is.
    The shipped mixes know no failures of scale-up domains. Here a share of each cause's failures
    strikes the whole domain instead; the number of failures stays the same.

    The share goes from 0 to 1.
    """
    causes = []
    for cause in load_mix(mix).causes():
        if cause.kind == "hardware":
            causes += list(_divided(cause, domain_share))
    return CauseMix(tuple(causes), LAYOUT)


def _divided(cause: Cause, domain_share: float) -> Iterable[Cause]:
    if domain_share < 1.0:
        yield replace(cause, rate_per_gpu_s=cause.rate_per_gpu_s * (1.0 - domain_share))
    if domain_share > 0.0:
        yield replace(
            cause,
            name=f"{cause.name}-of-domain",
            level="domain",
            rate_per_gpu_s=cause.rate_per_gpu_s * domain_share,
        )


def failure_rates_per_s(mix: CauseMix) -> tuple[float, float]:
    """Return the rates, in 1/s, of a host's and of a domain's failures that take memory away.

    Raises
    ------
    UserError
        If hardware of another level fails: the closed forms know hosts and domains.
    """
    layout = mix.layout
    by_domain = by_host = 0.0
    for cause in mix.mixed:
        if cause.kind != "hardware":
            continue
        if cause.level == "domain":
            by_domain += cause.rate_per_gpu_s * layout.gpus_per_domain
        elif cause.level in ("gpu", "host"):
            by_host += cause.rate_per_gpu_s * layout.gpus_per_host
        else:
            raise UserError(
                f"cause {cause.name}: hardware of level {cause.level}; use gpu, host or domain"
            )
    return by_host, by_domain


@dataclass(frozen=True, slots=True)
class CheckpointCosts:
    """A job and the links that its checkpoints go over: inputs of the study, not measurements."""

    # Size of the model; single-precision weights and two Adam moments take 12 bytes.
    parameters: float = 100e9
    bytes_per_parameter: float = 12.0
    machines: int = 16  # Machines, each with its share of the state.
    # Bandwidth of one machine's network, and of the storage as a whole.
    machine_bytes_per_s: float = 400e9 / 8
    storage_bytes_per_s: float = 20e9 / 8
    iteration_s: float = 60.0  # Time of an iteration, in seconds.
    # Time between checkpoints on storage where they are not taken as often as can be.
    storage_interval_s: float = 3 * 3600.0

    @property
    def storage_s(self) -> float:
        """Time to write or read the whole state on storage, in seconds."""
        return self.parameters * self.bytes_per_parameter / self.storage_bytes_per_s

    @property
    def peer_s(self) -> float:
        """Time to bring one machine's share from a peer, in seconds."""
        share = self.parameters * self.bytes_per_parameter / self.machines
        return share / self.machine_bytes_per_s

    def in_memory_s(self) -> float:
        """Return the time that a failure wastes if memory holds all state, in seconds.

        The copies are spread over the idle times of the network in an iteration, and complete at
        its end: ``t_ckpt = 1/f = T_iter``.
        """
        if self.peer_s > self.iteration_s:
            raise ValueError("a checkpoint does not fit into an iteration")
        return wasted_time_s(self.iteration_s, self.iteration_s, self.peer_s)

    def on_storage_s(self, interval_s: float | None = None) -> float:
        """Return the time that a failure wastes with checkpoints on storage, in seconds.

        One follows the other where no interval is given.
        """
        return wasted_time_s(self.storage_s, interval_s or self.storage_s, self.storage_s)
