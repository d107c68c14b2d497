"""The failure rates at which one scheme overtakes another, and their sentence."""

from __future__ import annotations

from itertools import combinations
from math import isnan, nan
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.crossings import Change, changes_of_lead
from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.studies.spare.rates import SCHEMES

_JOB = ["rules", "distribution", "groups"]
_CROSSING = ("often", "seldom", "mtbf_s", "low_s", "high_s", "closed_form_s")


def crossings(best: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Return where the lead changes between two schemes, each at its best.

    `best` has a row a run (`rates.best_runs`), `curves` a row a setting and scheme (`rates.sweep`).

    A row a crossing: rules, distribution, groups; ``often``, the scheme that is sooner where
    failures are more frequent, and ``seldom``, the other; ``mtbf_s`` with its 95 % interval
    ``low_s`` to ``high_s`` (at an end of the range if that is open), and ``closed_form_s``,
    empty if the closed forms have none in their range. If the lead never changes there is one
    row without ``mtbf_s``, whose ``often`` leads throughout.
    """
    rows: list[dict[str, Any]] = []
    for job, mine in best.groupby(_JOB, sort=False):
        forms = curves[(curves[_JOB] == list(job)).all(axis=1)]
        table = mine.pivot_table("time_to_train_ratio", "mtbf_s", ["strategy", "seed"])
        closed = forms.pivot_table("closed_form_ratio", "mtbf_s", "strategy")
        for one, other in combinations(SCHEMES, 2):
            found = _of_pair(table, closed, one, other)
            rows += [{**dict(zip(_JOB, job, strict=True)), **row} for row in found]
    return pd.DataFrame(rows)


def _of_pair(
    table: pd.DataFrame, closed: pd.DataFrame, one: str, other: str
) -> list[dict[str, Any]]:
    rates = np.log(table.index.to_numpy(dtype=float))
    with np.errstate(invalid="ignore"):
        leads = np.log(table[one].to_numpy()) - np.log(table[other].to_numpy())
    compared = ~np.isnan(leads).any(axis=1)
    found = changes_of_lead(rates[compared], leads[compared])
    if not found:
        found = [Change(nan, nan, nan, not bool((leads[compared].mean(axis=1) < 0).all()))]
    known = closed.reindex(columns=[one, other]).dropna()
    formed = changes_of_lead(
        np.log(known.index.to_numpy(dtype=float)),
        np.log(known[[one]].to_numpy()) - np.log(known[[other]].to_numpy()),
    )
    rows = []
    for at, low, high, first_leads_after in found:
        alike = [form.at for form in formed if form.first_leads_after == first_leads_after]
        nearest = min(alike, key=lambda form: abs(form - at), default=nan)
        often, seldom = (other, one) if first_leads_after else (one, other)
        times = (float(np.exp(end)) for end in (at, low, high, nan if isnan(at) else nearest))
        rows.append(dict(zip(_CROSSING, (often, seldom, *times), strict=True)))
    return rows


def crossing_sentence(crossings: pd.DataFrame) -> str:
    """Say where checkpoints alone overtake SPARe, and what becomes of replication."""
    sound = crossings[crossings.rules == "spare-sound"]
    overtaken = sound[(sound.seldom == "checkpoint") & (sound.often == "spare")].mtbf_s.dropna()
    text = (
        "Under sound rules checkpoints alone overtake SPARe where something fails every "
        f"{duration_text(overtaken.min())} to {duration_text(overtaken.max())}"
        if len(overtaken)
        else "Under sound rules checkpoints alone never overtake SPARe"
    )
    pairs = crossings[crossings[["often", "seldom"]].isin(["replication", "spare"]).all(axis=1)]
    never = pairs.mtbf_s.isna().all() and (pairs.often == "spare").all()
    return text + ("; replication is never soonest." if never else ".")
