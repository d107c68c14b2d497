"""Survival of what is in memory through windows of time, by mix of causes, scheme and placement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from faultline.experiments.studies.gemini.proportions import proportion_interval
from faultline.experiments.studies.gemini.setting import (
    DOMAIN_SHARES,
    HOSTS,
    HOSTS_PER_DOMAIN,
    PLACEMENTS,
    SCHEMES,
    WINDOWS_H,
    failure_rates_per_s,
    memory_losing_mix,
)
from faultline.experiments.studies.gemini.windows import DrawnLosses
from faultline.strategies.in_memory.node_groups import Placement
from faultline.strategies.in_memory.survival import loss_in_window

_SECONDS_PER_HOUR = 3600.0
_CURVE_SHARES = tuple(number / 50 for number in range(11))
_CURVE_HOURS = tuple(2.0 * number for number in range(13))


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
            total = sum(one.sets for one in windows)
            for name, scheme in SCHEMES.items():
                for placement in PLACEMENTS:
                    groups = scheme.groups(HOSTS, placement)
                    survived = sum(int((~one.lost(groups)).sum()) for one in windows)
                    low, high = proportion_interval(survived, total)
                    rows.append(
                        {
                            "mix": mix,
                            "domain_share": share,
                            "window_h": hours,
                            "scheme": name,
                            "placement": placement,
                            "exact": survival(name, placement, rates, hours),
                            "drawn": survived / total,
                            "low": low,
                            "high": high,
                            "windows": total,
                        }
                    )
    return pd.DataFrame(rows)


def curve_table(mix: str) -> pd.DataFrame:
    """Return the closed form on finer grids: over shares at 24 h, and over windows at a tenth."""
    cells = [(share, 24.0) for share in _CURVE_SHARES] + [(0.1, hours) for hours in _CURVE_HOURS]
    rates = {share: failure_rates_per_s(memory_losing_mix(mix, share)) for share, _ in cells}
    return pd.DataFrame(
        [
            {
                "mix": mix,
                "domain_share": share,
                "window_h": hours,
                "scheme": name,
                "placement": placement,
                "exact": survival(name, placement, rates[share], hours),
            }
            for share, hours in sorted(set(cells))
            for name in SCHEMES
            if name != "unprotected"
            for placement in PLACEMENTS
        ]
    )


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
