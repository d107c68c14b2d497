"""Checkpoints in the host memory of peers (GEMINI, Wang et al. 2023, SOSP), in closed form.

Whether memory still holds all state after machines are lost: the published probabilities, their
lower bound and the exact value. Beyond the paper: failures of whole scale-up domains, on 16,384
GPUs with the shipped mixes of causes, for GEMINI and REFT.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import nan
from typing import ClassVar

import pandas as pd
from faultline.experiments.config.mix_file import load_mix
from faultline.experiments.studies.base import Headline, Results, Row, Study
from faultline.experiments.studies.gemini.closed_forms import (
    expected_wasted_time_s,
    gemini_recovery_bound,
    wasted_time_s,
)
from faultline.experiments.studies.gemini.survival import (
    loss_given_domains,
    loss_given_nodes,
    loss_in_window,
)
from faultline.experiments.studies.stage import Stage
from faultline.simulator.failures.failure import JobLayout
from faultline.strategies.protection.node_groups import NodeGroups, Placement

LAYOUT = JobLayout(
    groups=2048, gpus_per_group=8, gpus_per_host=8, gpus_per_domain=64, gpus_per_switch=64
)
"""16,384 GPUs as 2,048 hosts of 8, in scale-up domains of 8 hosts; our choice.

Placement matters because domains are larger than a host.
"""
HOSTS = LAYOUT.components("host")
HOSTS_PER_DOMAIN = LAYOUT.gpus_per_domain // LAYOUT.gpus_per_host
SCHEMES = {
    "unprotected": (1, 0),
    "reft-16": (16, 1),
    "reft-8": (8, 1),
    "gemini-2": (2, 1),
    "gemini-3": (3, 2),
}
"""Hosts of a group, and the number of losses that it survives."""
PLACEMENTS: tuple[Placement, ...] = ("across-domains", "neighbours")
MIXES = ("llama3", "rsc-1", "rsc-2")
WINDOWS_H = (1, 24)

JOBS = ((16, 2), (64, 2), (256, 2), (1024, 2), (960, 2), (960, 3), (960, 4))
"""Machines N and replicas m; 960 has groups of 2, 3 and 4."""
LOST_MACHINES = (2, 3, 4, 8, 16)
PUBLISHED_RECOVERY = {(16, 2, 2): 93.3, (16, 2, 3): 80.0}
"""Per cent, by machines, replicas and lost machines (Wang et al. 2023 (GEMINI), SOSP)."""

# A job and the links that carry its checkpoints: inputs of the study, not measurements.
_PARAMETERS = 100e9
_MACHINES, _MACHINES_PER_DOMAIN, _REPLICAS = 16, 8, 2
_ITERATION_S = 60.0
_STORAGE_INTERVAL_S = 3 * 3600.0
"""Time between checkpoints on storage if they are less frequent than possible."""
_STATE_BYTES = _PARAMETERS * 12.0
"""Single-precision weights and two Adam moments take 12 bytes per parameter."""
_STORAGE_S = _STATE_BYTES / (20e9 / 8)
"""Time to write or read the whole state on storage, at 20 Gb/s."""
_PEER_S = _STATE_BYTES / _MACHINES / (400e9 / 8)
"""Time to copy one machine's share from a peer, at 400 Gb/s."""
IN_MEMORY_S = wasted_time_s(_ITERATION_S, _ITERATION_S, _PEER_S)
"""Time that a failure wastes if memory holds all state. The copies are spread over the idle times
of the network in an iteration, and complete at its end: ``t_ckpt = 1/f = T_iter``."""


def groups_of(scheme: str, placement: Placement) -> NodeGroups:
    """Return the groups of hosts that keep each other's state."""
    return NodeGroups(HOSTS, *SCHEMES[scheme], placement)


def recovery_table() -> pd.DataFrame:
    """Return GEMINI's recovery from memory in per cent, a row per job and number of lost machines.

    At most half of the machines are lost. The columns ``bound`` and ``exact`` are closed forms.
    """
    return pd.DataFrame(
        {
            "machines": machines,
            "replicas": replicas,
            "lost": lost,
            "published": PUBLISHED_RECOVERY.get((machines, replicas, lost), nan),
            "exact": 100.0
            * (
                1.0
                - loss_given_nodes(NodeGroups(machines, replicas, replicas - 1, "neighbours"), lost)
            ),
            "bound": 100.0 * gemini_recovery_bound(machines, replicas, lost),
        }
        for (machines, replicas), lost in product(JOBS, LOST_MACHINES)
        if 2 * lost <= machines
    )


def domain_table() -> pd.DataFrame:
    """Return recovery in per cent, a row per number of lost domains, scheme and placement."""
    return pd.DataFrame(
        {
            "lost_domains": lost,
            "scheme": scheme,
            "placement": placement,
            "exact": 100.0
            * (1.0 - loss_given_domains(groups_of(scheme, placement), HOSTS_PER_DOMAIN, lost)),
        }
        for lost, scheme, placement in product((1, 2, 3, 4), SCHEMES, PLACEMENTS)
        if scheme != "unprotected"
    )


def failure_rates_per_s(mix: str, domain_share: float) -> tuple[float, float]:
    """Return the rates, in 1/s, of a host's and of a domain's failures that erase its memory.

    Causes of kind hardware erase memory; failures of software and networks do not. The shipped
    mixes have no failures of scale-up domains: a share of each cause's failures, from 0 to 1,
    strikes the whole domain instead. The number of failures stays the same.
    """
    by_host = by_domain = 0.0
    for cause in load_mix(mix).causes():
        if cause.kind == "hardware":
            by_host += cause.rate_per_gpu_s * (1.0 - domain_share) * LAYOUT.gpus_per_host
            by_domain += cause.rate_per_gpu_s * domain_share * LAYOUT.gpus_per_domain
    return by_host, by_domain


def survival(
    mix: str, domain_share: float, window_h: float, scheme: str, placement: Placement
) -> float:
    """Return the probability that memory holds all state after a window without rebuilding."""
    rates_per_s = failure_rates_per_s(mix, domain_share)
    groups = groups_of(scheme, placement)
    return 1.0 - loss_in_window(groups, HOSTS_PER_DOMAIN, *rates_per_s, 3600.0 * window_h)


def window_table() -> pd.DataFrame:
    """Return `survival` in per cent, a row per combination of its arguments."""
    cells = product(MIXES, (0.0, 0.1, 0.2), WINDOWS_H, SCHEMES, PLACEMENTS)
    names = ["mix", "domain_share", "window_h", "scheme", "placement"]
    frame = pd.DataFrame([(*cell, 100.0 * survival(*cell)) for cell in cells])
    return frame.set_axis([*names, "exact"], axis=1)


def on_storage_s(interval_s: float) -> float:
    """Return the time that a failure wastes with checkpoints on storage, in seconds."""
    return wasted_time_s(_STORAGE_S, interval_s, _STORAGE_S)


def wasted_table() -> pd.DataFrame:
    """Return the seconds that a failure wastes, a row per place of the checkpoints.

    ``over_memory`` is the time of storage over that of memory.
    """
    ways = {
        "memory, every iteration": IN_MEMORY_S,
        "storage, one after the other": on_storage_s(_STORAGE_S),
        f"storage, every {_STORAGE_INTERVAL_S / 3600:g} h": on_storage_s(_STORAGE_INTERVAL_S),
    }
    table = pd.DataFrame({"scheme": list(ways), "wasted_s": list(ways.values())})
    over_memory = table.wasted_s / IN_MEMORY_S
    return table.assign(over_memory=over_memory.where(table.index > 0))


def placement_table() -> pd.DataFrame:
    """Return the mean seconds that a failure wastes, a row per placement and share of domains.

    All copies are whole before each failure. One machine is lost, or a domain with all its
    machines. If memory does not survive, the job restarts from storage.
    """
    rows = []
    lost_s = on_storage_s(_STORAGE_INTERVAL_S)
    for placement, share in product(PLACEMENTS, (0.0, 0.05, 0.1, 0.15, 0.2)):
        groups = NodeGroups(_MACHINES, _REPLICAS, _REPLICAS - 1, placement)
        by_machine = loss_given_nodes(groups, 1)
        by_domain = loss_given_domains(groups, _MACHINES_PER_DOMAIN, 1)
        recovered = 1.0 - (1.0 - share) * by_machine - share * by_domain
        wasted_s = expected_wasted_time_s(recovered, IN_MEMORY_S, lost_s)
        rows.append((placement, share, recovered, wasted_s))
    return pd.DataFrame(rows, columns=["placement", "domain_share", "recovered", "wasted_s"])


class GeminiStudy(Study):
    """Recovery from memory, survival of windows of time, and the time that a failure wastes."""

    default_seeds = 1
    scaled_by: ClassVar = frozenset()
    headline_title = "Probability of recovery from memory, two replicas"
    headline_rows: ClassVar = {
        "2 of 16 machines lost": ("recovery probability", "*", "N=16 m=2 k=2"),
        "3 of 16 machines lost": ("recovery probability", "*", "N=16 m=2 k=3"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Compute the closed forms."""
        with stage.step("closed forms"):
            return {
                "recovery": recovery_table(),
                "domains": domain_table(),
                "windows": window_table(),
                "wasted": wasted_table(),
                "placement": placement_table(),
            }

    def headline(self, results: Results, rows: Sequence[Row]) -> Headline:
        """Return the published probabilities, and the effect of the placement in a sentence."""
        yield from super().headline(results, rows)
        day = {place: survival(MIXES[0], 0.1, 24, "gemini-2", place) for place in PLACEMENTS}
        yield (
            f"24 h of {MIXES[0]}'s failures, 10 % of which take a whole domain, are survived by "
            f"{day['across-domains']:.0%} of jobs whose replicas are across domains, by "
            f"{day['neighbours']:.0%} if neighbours have them."
        )
