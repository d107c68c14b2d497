"""Lost nodes, in closed form beside random sets and windows cut out of drawn failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import interval_of_proportion
from faultline.experiments.studies.gemini.setting import (
    DOMAIN_SHARES,
    HOSTS,
    HOSTS_PER_DOMAIN,
    IN_MEMORY_S,
    MACHINES,
    PLACEMENTS,
    SCHEMES,
    STORAGE_INTERVAL_S,
    STORAGE_S,
    WINDOWS_H,
    failure_rates_per_s,
    memory_losing_mix,
    on_storage_s,
)
from faultline.simulator.failures.mix import CauseMix
from faultline.strategies.in_memory.node_groups import NodeGroups, Placement
from faultline.strategies.in_memory.reliability import gemini_recovery_bound
from faultline.strategies.in_memory.survival import (
    loss_given_domains,
    loss_given_nodes,
    loss_in_window,
)
from faultline.strategies.in_memory.wasted_time import expected_wasted_time_s
from numpy.typing import NDArray

JOBS = ((16, 2), (64, 2), (256, 2), (1024, 2), (960, 2), (960, 3), (960, 4))
"""Machines N and replicas m; 960 has groups of 2, 3 and 4."""

LOST_MACHINES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
NUMBERS_OF_LOST_DOMAINS = (1, 2, 3, 4)

REPLICAS = 2
MACHINES_PER_DOMAIN = 8

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


def uniform_sets(rng: np.random.Generator, sets: int, nodes: int, lost: int) -> LossSets:
    """Draw sets of `lost` nodes each, all sets of that size equally likely."""
    chosen = _distinct(rng, sets, nodes, lost)
    return LossSets(sets, np.repeat(np.arange(sets), lost), chosen.ravel())


def uniform_domain_sets(
    rng: np.random.Generator, sets: int, nodes: int, domain_nodes: int, lost: int
) -> LossSets:
    """Draw sets of `lost` whole domains each, all sets of that size equally likely."""
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
        drawn = [uniform_domain_sets(rng, sets, HOSTS, HOSTS_PER_DOMAIN, lost) for rng in streams]
        for (name, scheme), placement in product(SCHEMES.items(), PLACEMENTS):
            groups = scheme.groups(HOSTS, placement)
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
                    **_survived(windows, scheme.groups(HOSTS, placement), "windows"),
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
    groups = SCHEMES[scheme].groups(HOSTS, placement)
    return 1.0 - loss_in_window(
        groups, HOSTS_PER_DOMAIN, *rates_per_s, window_h * _SECONDS_PER_HOUR
    )


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
