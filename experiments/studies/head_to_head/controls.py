"""Combinations of two schemes beside their controls: the same with one of the two left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose, isfinite
from typing import Any

from faultline.experiments.studies.head_to_head.candidates import Candidate

NTP_ALONE = "ntp-alone"
"""What a combination comes to where nothing ever wipes out: NTP without a restart."""

Rows = list[dict[str, Any]]


def named_for_what_they_are(candidates: Sequence[Candidate], rows: Mapping[str, Rows]) -> None:
    """Give controls, and combinations that do not differ from them, the scheme that they are.

    A combination whose every run takes as long as its control's owes nothing to the other scheme.

    Parameters
    ----------
    candidates : sequence of Candidate
        Who took part.
    rows : mapping of str to list of dict
        Their runs by name; ``scheme`` is changed in place.
    """
    for control in candidates:
        if not control.is_control:
            continue
        for other in candidates:
            same_kind = other.scheme == control.scheme and other.protection == control.protection
            if same_kind and (other is control or _alike(rows[other.name], rows[control.name])):
                for row in rows[other.name]:
                    row["scheme"] = NTP_ALONE


def _alike(one: Rows, other: Rows) -> bool:
    ratios = [
        {row["seed"]: row["ratio"] for row in rows if not row["absent"]} for rows in (one, other)
    ]
    seeds = ratios[0].keys() & ratios[1].keys()
    return bool(seeds) and all(
        isfinite(ratios[0][seed]) and isclose(ratios[0][seed], ratios[1][seed], rel_tol=1e-12)
        for seed in seeds
    )
