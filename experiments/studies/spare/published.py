"""The published numbers of Lee et al. 2026 (SPARe), as tables."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.studies.data import read_rows

GROUPS = (200, 600, 1000)
STUDY_ALL_REDUCE_S = {200: 2.0, 600: 6.0, 1000: 10.0}
STUDY_SAVE_S = 58.8
"""2e13 bytes at 340 GB/s."""


def table(name: str) -> pd.DataFrame:
    """Return one of the tracked tables of published numbers; its first line names the source."""
    return pd.DataFrame(read_rows("spare", name))


def trials() -> pd.DataFrame:
    """Means over three published trials at N = 200, Weibull, for every redundancy."""
    return table("spare_n200_weibull")


def headline() -> pd.DataFrame:
    """The best redundancy of each scheme and N, as the paper's table has it."""
    return table("spare_headline")


def interval_steps(scheme: str, groups: int, redundancy: int) -> int | None:
    """Return the checkpoint interval that the study used, in steps, where it is known."""
    known = _known("spare_intervals", scheme, groups, redundancy, "interval_steps")
    return None if known is None else int(known)


def published(scheme: str, groups: int, redundancy: int, quantity: str) -> float | None:
    """Return a published mean: from the trials where they reach, else from the headline."""
    known = _known("spare_n200_weibull", scheme, groups, redundancy, quantity)
    later = _known("spare_headline", scheme, groups, redundancy, quantity)
    return later if known is None else known


def _known(name: str, scheme: str, groups: int, redundancy: int, quantity: str) -> float | None:
    cell = {"scheme": scheme, "groups": groups, "redundancy": redundancy}
    for row in read_rows("spare", name):
        if cell.items() <= row.items() and quantity in row:
            return float(row[quantity])
    return None
