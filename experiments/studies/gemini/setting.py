"""The job of the study, who keeps whose state, what failures take memory away, and costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.mix_file import load_mix
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.failures.mix import CauseMix
from faultline.strategies.in_memory.node_groups import NodeGroups, Placement
from faultline.strategies.in_memory.wasted_time import wasted_time_s

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
    The shipped mixes know no failures of scale-up domains. Here a share of each cause's failures,
    from 0 to 1, strikes the whole domain instead; the number of failures stays the same.
    """
    causes = []
    for cause in load_mix(mix).causes():
        if cause.kind != "hardware":
            continue
        alone = cause.rate_per_gpu_s * (1.0 - domain_share)
        whole = cause.rate_per_gpu_s * domain_share
        of_domain = replace(cause, name=f"{cause.name}-of-domain", level="domain")
        if domain_share < 1.0:
            causes.append(replace(cause, rate_per_gpu_s=alone))
        if domain_share > 0.0:
            causes.append(replace(of_domain, rate_per_gpu_s=whole))
    return CauseMix(tuple(causes), LAYOUT)


def failure_rates_per_s(mix: CauseMix) -> tuple[float, float]:
    """Return the rates, in 1/s, of a host's and of a domain's failures that take memory away.

    It is a UserError if something of another level fails: the closed forms know no others.
    """
    by_domain = by_host = 0.0
    for cause in mix.mixed:
        if cause.level == "domain":
            by_domain += cause.rate_per_gpu_s * LAYOUT.gpus_per_domain
        elif cause.level in ("gpu", "host"):
            by_host += cause.rate_per_gpu_s * LAYOUT.gpus_per_host
        else:
            raise UserError(
                f"cause {cause.name}: hardware of level {cause.level}; use gpu, host or domain"
            )
    return by_host, by_domain


# A job and the links that its checkpoints go over: inputs of the study, not measurements.
PARAMETERS = 100e9
MACHINES = 16
"""Machines, each with its share of the state."""
ITERATION_S = 60.0
STORAGE_INTERVAL_S = 3 * 3600.0
"""Time between checkpoints on storage where they are not taken as often as can be."""
_STATE_BYTES = PARAMETERS * 12.0
"""Single-precision weights and two Adam moments take 12 bytes a parameter."""
STORAGE_S = _STATE_BYTES / (20e9 / 8)
"""Time to write or read the whole state on storage, at 20 Gb/s."""
_PEER_S = _STATE_BYTES / MACHINES / (400e9 / 8)
"""Time to bring one machine's share from a peer, at 400 Gb/s."""

IN_MEMORY_S = wasted_time_s(ITERATION_S, ITERATION_S, _PEER_S)
"""Time that a failure wastes if memory holds all state. The copies are spread over the idle times
of the network in an iteration, and complete at its end: ``t_ckpt = 1/f = T_iter``."""


def on_storage_s(interval_s: float) -> float:
    """Return the time that a failure wastes with checkpoints on storage, in seconds."""
    return wasted_time_s(STORAGE_S, interval_s, STORAGE_S)
