"""The tables of the sweep over failure rates, for the screen and for ``--json``."""

from __future__ import annotations

from math import isfinite

import pandas as pd
from faultline.experiments.studies.base import Row
from faultline.experiments.studies.failure_rates.figures import NAMES, span_text
from faultline.experiments.studies.failure_rates.settings import SCHEMES
from rich.box import SIMPLE_HEAD
from rich.table import Table

_RULES = {"spare-study": "study", "spare-sound": "sound"}


def rates_table(curves: pd.DataFrame) -> Table:
    """Show ratio and best redundancy over the failure rate, Weibull failures, sound rules."""
    table = Table(
        title="Failure rates: time-to-train ratio, sound rules, Weibull (best r)",
        title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    mine = curves[(curves.rules == "spare-sound") & (curves.distribution == "weibull")]
    table.add_column("failure every")
    for groups in sorted(mine.groups.unique()):
        for scheme in SCHEMES:
            heading = f"N={groups}\n" if scheme == SCHEMES[0] else "\n"
            table.add_column(heading + scheme, justify="right", no_wrap=True)
    cells = mine.set_index(["mtbf_s", "groups", "strategy"])
    for rate in sorted(mine.mtbf_s.unique()):
        texts = []
        for groups in sorted(mine.groups.unique()):
            for scheme in SCHEMES:
                row = cells.loc[(rate, groups, scheme)]
                known = f"{row.time_to_train_ratio:.2f}"
                if scheme != "checkpoint":
                    known += f" ({row.redundancy})"
                texts.append(known if row.finished == 1.0 else "not in a year")
        table.add_row(span_text(rate), *texts)
    return table


def crossing_table(crossings: pd.DataFrame) -> Table:
    """Show at which failure rates one scheme overtakes another, beside the closed forms."""
    table = Table(
        title="Failure rates at which one scheme overtakes another (mean time between failures)",
        title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for name in ("rules", "failures", "N", "sooner above", "sooner below"):
        table.add_column(name)
    for name in ("simulated", "95 % interval", "closed forms"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in crossings.sort_values(
        ["rules", "distribution", "groups"], kind="stable"
    ).itertuples():
        job = (_RULES[row.rules], row.distribution, str(row.groups))
        if not isfinite(row.mtbf_s):
            table.add_row(*job, NAMES[row.often], "", "never below", f"{NAMES[row.seldom]}", "")
            continue
        closed = span_text(row.closed_form_s) if isfinite(row.closed_form_s) else ""
        between = f"{span_text(row.low_s)} to {span_text(row.high_s)}"
        names = (NAMES[row.seldom], NAMES[row.often])
        table.add_row(*job, *names, span_text(row.mtbf_s), between, closed)
    return table


def crossing_sentence(crossings: pd.DataFrame) -> str:
    """Say where checkpoints alone overtake SPARe, and what becomes of replication."""
    sound = crossings[crossings.rules == "spare-sound"]
    overtaken = sound[(sound.seldom == "checkpoint") & (sound.often == "spare")].mtbf_s.dropna()
    text = (
        "Under sound rules checkpoints alone overtake SPARe where something fails every "
        f"{span_text(overtaken.min())} to {span_text(overtaken.max())}"
        if len(overtaken)
        else "Under sound rules checkpoints alone never overtake SPARe"
    )
    pairs = crossings[crossings[["often", "seldom"]].isin(["replication", "spare"]).all(axis=1)]
    never = pairs.mtbf_s.isna().all() and (pairs.often == "spare").all()
    return text + ("; replication is never soonest." if never else ".")


def crossing_rows(crossings: pd.DataFrame) -> list[Row]:
    """Return a row a crossing, and one for that of the closed forms, in seconds.

    A pair without a crossing between the first and the last rate gives their number, 0.
    """
    rows = []
    for row in crossings.itertuples():
        setting = f"N={row.groups} {row.distribution} {row.rules}"
        if not isfinite(row.mtbf_s):
            scheme = f"{row.often} before {row.seldom}"
            rows.append(Row("crossings", scheme, setting, None, 0.0, 0.0, 0.0, "1"))
            continue
        scheme = f"{row.seldom} overtakes {row.often}"
        rows.append(
            Row("crossing_mtbf_s", scheme, setting, None, row.mtbf_s, row.low_s, row.high_s, "s")
        )
        if isfinite(row.closed_form_s):
            closed = row.closed_form_s
            name = "closed_form_crossing_mtbf_s"
            rows.append(Row(name, scheme, setting, None, closed, closed, closed, "s"))
    return rows
