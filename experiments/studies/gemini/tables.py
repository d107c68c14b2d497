"""The job of the study, who keeps whose state, and what failures take memory away.

Lost nodes, in closed form beside random sets and windows cut out of drawn failures; and costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import interval_of_proportion
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.mix_file import load_mix
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.failures.mix import CauseMix
from faultline.strategies.in_memory.node_groups import NodeGroups, Placement
from faultline.strategies.in_memory.reliability import (
    expected_wasted_time_s,
    gemini_recovery_bound,
    wasted_time_s,
)
from faultline.strategies.in_memory.survival import (
    loss_given_domains,
    loss_given_nodes,
    loss_in_window,
)
from numpy.typing import NDArray

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


class MemoryScheme(NamedTuple):
    """A way to keep state in host memory."""

    label: str  # What it is called in figures.
    # Hosts of a group, and losses that a group survives.
    size: int
    tolerated: int

    def groups(self, placement: Placement) -> NodeGroups:
        """Return who keeps whose state."""
        return NodeGroups(HOSTS, self.size, self.tolerated, placement)


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


JOBS = ((16, 2), (64, 2), (256, 2), (1024, 2), (960, 2), (960, 3), (960, 4))
"""Machines N and replicas m; 960 has groups of 2, 3 and 4."""

LOST_MACHINES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
NUMBERS_OF_LOST_DOMAINS = (1, 2, 3, 4)

_CURVE_SHARES = tuple(number / 50 for number in range(11))
_CURVE_HOURS = tuple(2.0 * number for number in range(13))

Integers = NDArray[np.int64]

LOST_NODES, LOST_DOMAINS = 1, 2
"""What random streams are for; the numbers are part of what a seed means and never change."""

_STUDY = 0x4D454D
_SECONDS_PER_HOUR = 3600.0


def stream(seed: int, purpose: int, index: int) -> np.random.Generator:
    """Return a random stream of the study, apart from those of runs and of other studies."""
    key = (_STUDY, purpose, index)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


@dataclass(frozen=True, slots=True)
class LossSets:
    """Sets of lost nodes, as pairs of a set and a node, each pair once."""

    sets: int  # Number of sets; those without a lost node count, too.
    # Which set, and which of its lost nodes (shape (pairs,)).
    set_index: Integers
    node: Integers

    @classmethod
    def with_repeats(cls, sets: int, set_index: Integers, node: Integers) -> LossSets:
        """Return the sets of pairs that may occur more than once."""
        stride = int(node.max(initial=0)) + 1
        return cls(sets, *np.divmod(np.unique(set_index * stride + node), stride))

    def lost(self, groups: NodeGroups) -> NDArray[np.bool_]:
        """Return for each set, shape (sets,), whether a group loses more than it tolerates."""
        group_of = np.array([groups.group_of(node) for node in range(groups.nodes)])
        keys = self.set_index * groups.groups + group_of[self.node]
        hit, losses = np.unique(keys, return_counts=True)
        gone = np.zeros(self.sets, dtype=np.bool_)
        gone[hit[losses > groups.tolerated] // groups.groups] = True
        return gone


def uniform_sets(
    rng: np.random.Generator, sets: int, nodes: int, lost: int, domain_nodes: int = 1
) -> LossSets:
    """Draw sets of `lost` nodes or whole domains each, all sets of that size equally likely."""
    chosen = _distinct(rng, sets, -(-nodes // domain_nodes), lost)
    node = (chosen.reshape(-1, 1) * domain_nodes + np.arange(domain_nodes)).ravel()
    exists = node < nodes
    return LossSets(sets, np.repeat(np.arange(sets), lost * domain_nodes)[exists], node[exists])


def _distinct(rng: np.random.Generator, sets: int, things: int, chosen: int) -> Integers:
    """Draw `chosen` different things for each set, by Floyd's algorithm: a column a step.

    Bentley and Floyd 1987, "A sample of brilliance": step j draws one of the first j + 1 things,
    or takes thing j itself if that one is taken already.
    """
    drawn = np.empty((sets, chosen), dtype=np.int64)
    for column, newest in enumerate(range(things - chosen, things)):
        candidate = rng.integers(newest + 1, size=sets)
        taken = (drawn[:, :column] == candidate[:, np.newaxis]).any(axis=1)
        drawn[:, column] = np.where(taken, newest, candidate)
    return drawn


class DrawnLosses:
    """Hosts that lost their memory, by time, over one long course of failures of a mix.

    They are memoryless, so that windows cut out of one course do not depend on each other.
    """

    def __init__(self, mix: CauseMix, hours: int, seed: int) -> None:
        self._hours = hours
        end_s = hours * _SECONDS_PER_HOUR
        times_s: list[float] = []
        lost: list[int] = []
        for batch in mix.batches(seed):
            for failure in batch:
                hosts = mix.layout.hosts_losing_memory(failure)
                times_s += [failure.time_s] * len(hosts)
                lost += hosts
            if times_s and times_s[-1] > end_s:
                break
        self._time_s, self._host = np.array(times_s), np.array(lost)

    def windows(self, hours: int) -> LossSets:
        """Return the hosts lost in each window of so many hours; a rest at the end is left out."""
        sets = self._hours // hours
        index = (self._time_s // (hours * _SECONDS_PER_HOUR)).astype(np.int64)
        inside = index < sets
        return LossSets.with_repeats(sets, index[inside], self._host[inside])


def recovery_table(seeds: Sequence[int], sets: int) -> pd.DataFrame:
    """Return a row a job and number of lost machines: GEMINI's recovery from memory.

    Columns `bound` and `exact` are closed forms; `drawn`, `low` and `high` come from `sets` random
    sets a seed. No more than half of the machines are lost.
    """
    rows: list[dict[str, Any]] = []
    for index, (machines, replicas) in enumerate(JOBS):
        groups = NodeGroups(machines, replicas, replicas - 1, "neighbours")
        for place, lost in enumerate(LOST_MACHINES):
            if 2 * lost > machines:
                break
            number = len(LOST_MACHINES) * index + place
            streams = (stream(seed, LOST_NODES, number) for seed in seeds)
            drawn = [uniform_sets(rng, sets, machines, lost) for rng in streams]
            closed = {
                "bound": gemini_recovery_bound(machines, replicas, lost),
                "exact": 1.0 - loss_given_nodes(groups, lost),
            }
            cell = {"machines": machines, "replicas": replicas, "lost": lost}
            rows.append({**cell, **closed, **_survived(drawn, groups, "sets")})
    return pd.DataFrame(rows)


def domain_table(seeds: Sequence[int], sets: int) -> pd.DataFrame:
    """Return a row a scheme, placement and number of lost domains: recovery from memory.

    All schemes see the same sets of lost domains.
    """
    rows: list[dict[str, Any]] = []
    for place, lost in enumerate(NUMBERS_OF_LOST_DOMAINS):
        streams = (stream(seed, LOST_DOMAINS, place) for seed in seeds)
        drawn = [uniform_sets(rng, sets, HOSTS, lost, HOSTS_PER_DOMAIN) for rng in streams]
        for (name, scheme), placement in product(SCHEMES.items(), PLACEMENTS):
            groups = scheme.groups(placement)
            exact = 1.0 - loss_given_domains(groups, HOSTS_PER_DOMAIN, lost)
            cell = {"scheme": name, "placement": placement, "lost_domains": lost, "exact": exact}
            rows.append({**cell, **_survived(drawn, groups, "sets")})
    return pd.DataFrame(rows)


def window_table(
    mix: str,
    seeds: Sequence[int],
    days: int,
    shares: Sequence[float] = DOMAIN_SHARES,
    windows_h: Sequence[int] = WINDOWS_H,
) -> pd.DataFrame:
    """Return a row a share of domain failures, window, scheme and placement for one mix.

    Column `exact` is the closed form. `drawn`, `low` and `high` come from the failures that the
    simulator draws for so many days a seed, cut into windows. All schemes, placements
    and windows of a share see the same failures.
    """
    rows: list[dict[str, Any]] = []
    for place, share in enumerate(shares):
        causes = memory_losing_mix(mix, share)
        rates = failure_rates_per_s(causes)
        # Other failures for each share, so that one odd course does not show at all of them.
        courses = [DrawnLosses(causes, 24 * days, len(shares) * seed + place) for seed in seeds]
        for hours in windows_h:
            windows = [course.windows(hours) for course in courses]
            rows += [
                {
                    "mix": mix,
                    "domain_share": share,
                    "window_h": hours,
                    "scheme": name,
                    "placement": placement,
                    "exact": survival(name, placement, rates, hours),
                    **_survived(windows, scheme.groups(placement), "windows"),
                }
                for (name, scheme), placement in product(SCHEMES.items(), PLACEMENTS)
            ]
    return pd.DataFrame(rows)


def _survived(drawn: Sequence[LossSets], groups: NodeGroups, counted: str) -> dict[str, float]:
    """Return the share of sets that leave all state in memory, its interval, and their number."""
    total = sum(one.sets for one in drawn)
    survived = sum(int((~one.lost(groups)).sum()) for one in drawn)
    low, high = interval_of_proportion(survived, total)
    return {"drawn": survived / total, "low": low, "high": high, counted: total}


def curve_table(mix: str) -> pd.DataFrame:
    """Return the closed form on finer grids: over shares at 24 h, and over windows at a tenth."""
    cells = [(share, 24.0) for share in _CURVE_SHARES] + [(0.1, hours) for hours in _CURVE_HOURS]
    rates = {share: failure_rates_per_s(memory_losing_mix(mix, share)) for share, _ in cells}
    curves = [
        (mix, share, hours, name, placement, survival(name, placement, rates[share], hours))
        for share, hours in sorted(set(cells))
        for name, placement in product(SCHEMES, PLACEMENTS)
        if name != "unprotected"
    ]
    columns = ["mix", "domain_share", "window_h", "scheme", "placement", "exact"]
    return pd.DataFrame(curves, columns=columns)


def survival(
    scheme: str, placement: Placement, rates_per_s: tuple[float, float], window_h: float
) -> float:
    """Return the probability that memory holds all state after a window, in closed form.

    The rates are those of a host and of a domain; nothing is rebuilt in the window.
    """
    groups = SCHEMES[scheme].groups(placement)
    return 1.0 - loss_in_window(
        groups, HOSTS_PER_DOMAIN, *rates_per_s, window_h * _SECONDS_PER_HOUR
    )


# A job and the links that its checkpoints go over: inputs of the study, not measurements.
PARAMETERS = 100e9
MACHINES, MACHINES_PER_DOMAIN, REPLICAS = 16, 8, 2
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


def wasted_table() -> pd.DataFrame:
    """Return a row a way of checkpointing: seconds that a failure wastes."""
    ways = {
        "memory, every iteration": IN_MEMORY_S,
        "storage, one after the other": on_storage_s(STORAGE_S),
        f"storage, every {STORAGE_INTERVAL_S / 3600:g} h": on_storage_s(STORAGE_INTERVAL_S),
    }
    return pd.DataFrame({"checkpoints": list(ways), "wasted_s": list(ways.values())})


def placement_table() -> pd.DataFrame:
    """Return a row a placement and share of domain failures: mean wasted time of one failure.

    Each failure meets state of which all copies are whole: one machine is lost, or a domain with
    all its machines. What memory does not survive goes back to storage.
    """
    rows: list[tuple[str, float, float, float]] = []
    lost_s = on_storage_s(STORAGE_INTERVAL_S)
    for placement in PLACEMENTS:
        groups = NodeGroups(MACHINES, REPLICAS, REPLICAS - 1, placement)
        by_machine = loss_given_nodes(groups, 1)
        by_domain = loss_given_domains(groups, MACHINES_PER_DOMAIN, 1)
        for share in DOMAIN_SHARES:
            recovered = 1.0 - (1.0 - share) * by_machine - share * by_domain
            wasted_s = expected_wasted_time_s(recovered, IN_MEMORY_S, lost_s)
            rows.append((placement, share, recovered, wasted_s))
    return pd.DataFrame(rows, columns=["placement", "domain_share", "recovered", "wasted_s"])
