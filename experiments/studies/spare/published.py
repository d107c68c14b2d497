"""The published numbers of Lee et al. 2026 (SPARe), as tables."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

import pandas as pd

GROUPS = (200, 600, 1000)
STUDY_ALL_REDUCE_S = {200: 2.0, 600: 6.0, 1000: 10.0}
STUDY_SAVE_S = 58.8
"""2e13 bytes at 340 GB/s."""

_DATA = files("faultline.experiments.studies.spare").joinpath("data")


@cache
def table(name: str) -> pd.DataFrame:
    """Return one of the tracked tables of published numbers; its first line names the source."""
    with as_file(_DATA.joinpath(f"{name}.csv")) as path:
        return pd.read_csv(path, comment="#")


def trials() -> pd.DataFrame:
    """Means over three published trials at N = 200, Weibull, for every redundancy."""
    return table("spare_n200_weibull")


def headline() -> pd.DataFrame:
    """The best redundancy of each scheme and N, as the paper's table has it."""
    return table("spare_headline")


def interval_steps(scheme: str, groups: int, redundancy: int) -> int | None:
    """Return the checkpoint interval that the study used, in steps, where it is known."""
    known = table("spare_intervals")
    match = known[
        (known.scheme == scheme) & (known.groups == groups) & (known.redundancy == redundancy)
    ]
    return None if match.empty else int(match.interval_steps.iloc[0])


def published(scheme: str, groups: int, redundancy: int, quantity: str) -> float | None:
    """Return a published mean: from the trials where they reach, else from the headline."""
    for source in (trials(), headline()):
        match = source[
            (source.scheme == scheme)
            & (source.groups == groups)
            & (source.redundancy == redundancy)
        ]
        if not match.empty and quantity in match:
            return float(match[quantity].iloc[0])
    return None
