"""The tables of the study: closed forms beside what was drawn, and what a failure wastes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from faultline.experiments.analysis.intervals import interval_of_proportion
from faultline.experiments.studies.gemini.draws import (
    LOST_DOMAINS,
    LOST_NODES,
    DrawnLosses,
    LossSets,
    stream,
    uniform_domain_sets,
    uniform_sets,
)
from faultline.experiments.studies.gemini.setting import (
    DOMAIN_SHARES,
    HOSTS,
    HOSTS_PER_DOMAIN,
    PLACEMENTS,
    SCHEMES,
    WINDOWS_H,
    CheckpointCosts,
    failure_rates_per_s,
    memory_losing_mix,
)
from faultline.strategies.in_memory.node_groups import NodeGroups, Placement
from faultline.strategies.in_memory.reliability import gemini_recovery_bound
from faultline.strategies.in_memory.survival import (
    loss_given_domains,
    loss_given_nodes,
    loss_in_window,
)
from faultline.strategies.in_memory.wasted_time import expected_wasted_time_s

JOBS = ((16, 2), (64, 2), (256, 2), (1024, 2), (960, 2), (960, 3), (960, 4))
"""Machines N and replicas m; 960 has groups of 2, 3 and 4."""

LOST_MACHINES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
NUMBERS_OF_LOST_DOMAINS = (1, 2, 3, 4)

COSTS = CheckpointCosts()
REPLICAS = 2
MACHINES_PER_DOMAIN = 8

_SECONDS_PER_HOUR = 3600.0
_CURVE_SHARES = tuple(number / 50 for number in range(11))
_CURVE_HOURS = tuple(2.0 * number for number in range(13))


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
            streams = (
                stream(seed, LOST_NODES, len(LOST_MACHINES) * index + place) for seed in seeds
            )
            drawn = [uniform_sets(rng, sets, machines, lost) for rng in streams]
            rows.append(
                {
                    "machines": machines,
                    "replicas": replicas,
                    "lost": lost,
                    "bound": gemini_recovery_bound(machines, replicas, lost),
                    "exact": 1.0 - loss_given_nodes(groups, lost),
                    **_survived(drawn, groups, "sets"),
                }
            )
    return pd.DataFrame(rows)


def domain_table(seeds: Sequence[int], sets: int) -> pd.DataFrame:
    """Return a row a scheme, placement and number of lost domains: recovery from memory.

    All schemes see the same sets of lost domains.
    """
    rows: list[dict[str, Any]] = []
    for place, lost in enumerate(NUMBERS_OF_LOST_DOMAINS):
        streams = (stream(seed, LOST_DOMAINS, place) for seed in seeds)
        drawn = [uniform_domain_sets(rng, sets, HOSTS, HOSTS_PER_DOMAIN, lost) for rng in streams]
        for name, scheme in SCHEMES.items():
            for placement in PLACEMENTS:
                groups = scheme.groups(HOSTS, placement)
                rows.append(
                    {
                        "scheme": name,
                        "placement": placement,
                        "lost_domains": lost,
                        "exact": 1.0 - loss_given_domains(groups, HOSTS_PER_DOMAIN, lost),
                        **_survived(drawn, groups, "sets"),
                    }
                )
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
                for name, scheme in SCHEMES.items()
                for placement in PLACEMENTS
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
        for name in SCHEMES
        if name != "unprotected"
        for placement in PLACEMENTS
    ]
    columns = ["mix", "domain_share", "window_h", "scheme", "placement", "exact"]
    return pd.DataFrame(curves, columns=columns)


def survival(
    scheme: str, placement: Placement, rates_per_s: tuple[float, float], window_h: float
) -> float:
    """Return the probability that memory holds all state after a window, in closed form.

    Parameters
    ----------
    scheme : str
        Key of `SCHEMES`.
    placement : {"across-domains", "neighbours"}
        Which hosts share a group.
    rates_per_s : tuple of float
        Failures a second of a host and of a domain.
    window_h : float
        Hours in which nothing is rebuilt.
    """
    groups = SCHEMES[scheme].groups(HOSTS, placement)
    return 1.0 - loss_in_window(
        groups, HOSTS_PER_DOMAIN, *rates_per_s, window_h * _SECONDS_PER_HOUR
    )


def wasted_table() -> pd.DataFrame:
    """Return a row a way of checkpointing: seconds that a failure wastes."""
    interval_s = COSTS.storage_interval_s
    ways = {
        "memory, every iteration": COSTS.in_memory_s(),
        "storage, one after the other": COSTS.on_storage_s(),
        f"storage, every {interval_s / 3600:g} h": COSTS.on_storage_s(interval_s),
    }
    return pd.DataFrame({"checkpoints": list(ways), "wasted_s": list(ways.values())})


def placement_table() -> pd.DataFrame:
    """Return a row a placement and share of domain failures: mean wasted time of one failure.

    Each failure meets state of which all copies are whole: one machine is lost, or a domain with
    all its machines. What memory does not survive goes back to storage.
    """
    rows: list[tuple[str, float, float, float]] = []
    kept_s, lost_s = COSTS.in_memory_s(), COSTS.on_storage_s(COSTS.storage_interval_s)
    for placement in PLACEMENTS:
        groups = NodeGroups(COSTS.machines, REPLICAS, REPLICAS - 1, placement)
        by_machine = loss_given_nodes(groups, 1)
        by_domain = loss_given_domains(groups, MACHINES_PER_DOMAIN, 1)
        for share in DOMAIN_SHARES:
            recovered = 1.0 - (1.0 - share) * by_machine - share * by_domain
            wasted_s = expected_wasted_time_s(recovered, kept_s, lost_s)
            rows.append((placement, share, recovered, wasted_s))
    return pd.DataFrame(rows, columns=["placement", "domain_share", "recovered", "wasted_s"])
