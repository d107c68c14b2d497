"""Whether memory still holds all state after so many lost machines, or scale-up domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from faultline.experiments.studies.gemini.failure_sets import uniform_domain_sets, uniform_sets
from faultline.experiments.studies.gemini.proportions import proportion_interval
from faultline.experiments.studies.gemini.setting import (
    HOSTS,
    HOSTS_PER_DOMAIN,
    PLACEMENTS,
    SCHEMES,
)
from faultline.experiments.studies.gemini.streams import Purpose, stream
from faultline.strategies.in_memory.node_groups import NodeGroups
from faultline.strategies.in_memory.reliability import gemini_recovery_bound
from faultline.strategies.in_memory.survival import loss_given_domains, loss_given_nodes

JOBS = ((16, 2), (64, 2), (256, 2), (1024, 2), (960, 2), (960, 3), (960, 4))
"""Machines N and replicas m; 960 has groups of 2, 3 and 4."""

LOST_MACHINES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
LOST_DOMAINS = (1, 2, 3, 4)


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
            survived = 0
            for seed in seeds:
                rng = stream(seed, Purpose.LOST_NODES, len(LOST_MACHINES) * index + place)
                survived += int((~uniform_sets(rng, sets, machines, lost).lost(groups)).sum())
            rows.append(
                {
                    "machines": machines,
                    "replicas": replicas,
                    "lost": lost,
                    "bound": gemini_recovery_bound(machines, replicas, lost),
                    "exact": 1.0 - loss_given_nodes(groups, lost),
                    **_drawn(survived, sets * len(seeds)),
                }
            )
    return pd.DataFrame(rows)


def domain_table(seeds: Sequence[int], sets: int) -> pd.DataFrame:
    """Return a row a scheme, placement and number of lost domains: recovery from memory.

    All schemes see the same sets of lost domains.
    """
    rows: list[dict[str, Any]] = []
    for place, lost in enumerate(LOST_DOMAINS):
        drawn = [
            uniform_domain_sets(
                stream(seed, Purpose.LOST_DOMAINS, place), sets, HOSTS, HOSTS_PER_DOMAIN, lost
            )
            for seed in seeds
        ]
        for name, scheme in SCHEMES.items():
            for placement in PLACEMENTS:
                groups = scheme.groups(HOSTS, placement)
                survived = sum(int((~one.lost(groups)).sum()) for one in drawn)
                rows.append(
                    {
                        "scheme": name,
                        "placement": placement,
                        "lost_domains": lost,
                        "exact": 1.0 - loss_given_domains(groups, HOSTS_PER_DOMAIN, lost),
                        **_drawn(survived, sets * len(seeds)),
                    }
                )
    return pd.DataFrame(rows)


def _drawn(survived: int, sets: int) -> dict[str, float]:
    low, high = proportion_interval(survived, sets)
    return {"drawn": survived / sets, "low": low, "high": high, "sets": sets}
