"""What is told of failures and repairs through 15 days, and of spares for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from faultline.experiments.analysis.printing import Columns, Printed, columns_of
from faultline.experiments.studies.base import Row, row_of, rows_by
from faultline.experiments.studies.ntp import published
from faultline.experiments.studies.ntp.placement_rows import SCHEMES

FAILING_REPAIR = "5 days"
"""How long repairs take where spares fail, too."""

_PUBLISHED_AT_RATE = {
    1: {"share_above": published.TRACE_SHARE_ABOVE, "peak_gpus": published.TRACE_PEAK_GPUS},
    3: dict.fromkeys(
        ("least_availability_tp32", "least_availability_tp64"), published.TRIPLE_RATE_AVAILABILITY
    ),
}


def course_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Yield what happened in the traces, means of each seed's traces, and what the rate changes."""
    keys = ["repair", "rate_factor"]
    means = table.groupby([*keys, "seed"], sort=False).mean(numeric_only=True).reset_index()
    measured = {
        "share_above": "1",
        "peak_gpus": "GPUs",
        "mean_fraction": "1",
        "least_availability_tp32": "1",
        "least_availability_tp64": "1",
    }
    lost = {f"loss_{scheme}": scheme for scheme in SCHEMES}

    def known(column: str, repair: str, rate_factor: int) -> float | None:
        # The paper says 3 or 5 days; its peak is that of 5.
        return None if repair == "3 days" else _PUBLISHED_AT_RATE[rate_factor].get(column)

    yield from rows_by(
        means,
        keys,
        {**measured, **dict.fromkeys(lost, "1")},
        lambda repair, rate_factor, column: (
            f"15 days, repair {repair}, rate x{rate_factor}"
            + (", mean over time" if column in lost else "")
        ),
        lambda column, **_: lost.get(column, "cluster"),
        known,
        dict.fromkeys(lost, "lost_throughput"),
    )
    peaks = means.set_index([*keys, "seed"]).peak_gpus.sort_index()
    repairs = list(table.repair.unique())
    for repair, other in [*zip(repairs, repairs, strict=True), ("3 days", "5 days")]:
        setting = f"15 days, rate x3 and repair {repair}, over rate x1 and repair {other}"
        texts = "peak_ratio", "cluster", setting, published.TRIPLE_RATE_PEAK_RATIO
        yield row_of(*texts, list(peaks[repair, 3] / peaks[other, 1]), "1")


def spare_rows(table: pd.DataFrame, failing: pd.DataFrame) -> Iterator[Row]:
    """Yield the spare domains that keep the batch through a trace, if they never fail and if so."""
    for repair, mine in table[table.rate_factor == 1].groupby("repair", sort=False):
        by_seed = mine.groupby("seed")
        for scheme in SCHEMES:
            for column, kind in (("spares", "one by one"), ("replica_spares", "whole replicas")):
                compared = repair == "5 days" and column == "replica_spares"
                setting = f"15 days, repair {repair}, {kind}, spares never fail"
                spares = by_seed[f"{column}_{scheme}"]
                yield from _spares_of(scheme, setting, spares, compared)
    for scheme, mine in failing.groupby("scheme", sort=False):
        setting = f"15 days, repair {FAILING_REPAIR}, whole replicas, spares fail too"
        yield from _spares_of(scheme, setting, mine.groupby("seed").spares, True)


def _spares_of(scheme: str, setting: str, by_seed: Any, compared: bool) -> Iterator[Row]:
    known = published.SPARE_DOMAINS[scheme] if compared else None
    for name, found in (
        ("mean of traces", by_seed.mean()),
        ("95th percentile", by_seed.quantile(0.95)),
        ("worst trace", by_seed.max()),
    ):
        values = [float(value) for value in found]
        yield row_of("spare_domains", scheme, f"{setting}, {name}", known, values, "domains")


def shown_traces(table: pd.DataFrame) -> Printed:
    """Show what 15 days do, by repair time and failure rate."""
    means = table.groupby(["rate_factor", "repair"], sort=False).mean(numeric_only=True)
    means = means.sort_index(level="rate_factor", sort_remaining=False, kind="stable").reset_index()
    columns: Columns = {
        "repair": "repair",
        "rate_factor": ("rate", "x{}"),
        "share_above": (">0.1%", "{:.0%}"),
        "peak_gpus": ("peak", "{:.0f}"),
        "least_availability_tp32": ("TP32", "{:.1%}"),
        "least_availability_tp64": ("TP64", "{:.1%}"),
        **{f"loss_{scheme}": (name, "{:.2%}") for scheme, name in SCHEMES.items()},
    }
    title = "15 days: time above 0.1 % failed, peak of GPUs, worst availability, mean loss"
    return columns_of(title, means, columns)


def shown_spares(table: pd.DataFrame, failing: pd.DataFrame) -> Printed:
    """Show how many spare domains keep the batch through a trace, if they fail and if not."""
    lines: list[tuple[str, ...]] = []
    for repair, mine in table[table.rate_factor == 1].groupby("repair", sort=False):
        for column, kind in (("spares", "domains"), ("replica_spares", "whole replicas")):
            spreads = (_spread(mine[f"{column}_{scheme}"]) for scheme in SCHEMES)
            lines.append((repair, kind, "never fail", *spreads))
        if repair == FAILING_REPAIR:
            spreads = (_spread(failing.spares[failing.scheme == scheme]) for scheme in SCHEMES)
            lines.append((repair, "whole replicas", "fail too", *spreads))
    known = (str(published.SPARE_DOMAINS[scheme]) for scheme in SCHEMES)
    lines.append(("5 days", "published", "not said", *known))
    return Printed(
        "Spare domains for a fixed batch: mean / 95th percentile / worst of the traces",
        pd.DataFrame(lines, columns=["repair", "in", "spares", *SCHEMES.values()]),
        dict.fromkeys(SCHEMES.values(), "{}"),
    )


def _spread(values: pd.Series) -> str:
    return f"{values.mean():.0f} / {values.quantile(0.95):.0f} / {values.max():.0f}"


def placement_sentence(losses: pd.DataFrame, table: pd.DataFrame, failing: pd.DataFrame) -> str:
    """Say what throughput and spares the schemes come to."""
    packed = losses[losses.packed & (losses.failed_fraction == 0.004)]
    loss = packed.groupby("scheme").loss.mean()
    spares = table[(table.repair == "5 days") & (table.rate_factor == 1)]
    dropped = _spread(spares["replica_spares_dp-drop"])
    if_failing = _spread(failing.spares[failing.scheme == "dp-drop"])
    return (
        f"At 0.4 % failed GPUs DP-DROP loses {loss['dp-drop']:.1%} of the throughput, NTP "
        f"{loss['ntp']:.1%}, NTP-PW {loss['ntp-pw']:.1%}. The spare domains that keep DP-DROP's "
        f"batch through 15 days with repairs of 5 days, mean / 95th percentile / worst of the "
        f"traces: {dropped} if spares never fail, {if_failing} if they do (published: "
        f"{published.SPARE_DOMAINS['dp-drop']})."
    )
