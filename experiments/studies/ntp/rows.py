"""Every result of the study as a row beside the published number."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.ntp import published
from faultline.experiments.studies.ntp.gradient_sync import SyncCheck
from faultline.experiments.studies.ntp.setting import study_job
from faultline.strategies.nonuniform.power import PowerCurve
from faultline.strategies.nonuniform.replica_plan import Scheme


def availability_rows(table: pd.DataFrame) -> list[Row]:
    """Return the share of whole domains, drawn and by formula, at 0.1 % failed GPUs."""
    rows = []
    for size, mine in table[table.failed_fraction == 0.001].groupby("domain_gpus"):
        known = published.AVAILABILITY_TP64 if size == 64 else None
        setting = f"domains of {size} GPUs, 0.1% failed"
        formula = [float(mine.formula.iloc[0])]
        rows.append(row_of("available_domains", "drawn", setting, known, list(mine.share), "1"))
        rows.append(row_of("available_domains", "formula", setting, known, formula, "1"))
    return rows


def loss_rows(table: pd.DataFrame) -> list[Row]:
    """Return the loss of each scheme over the failed fraction; published are bounds at 0.4 %."""
    rows = []
    for (fraction, packed, scheme), mine in table.groupby(
        ["failed_fraction", "packed", "scheme"], sort=False
    ):
        bound = packed and fraction == 0.004
        known = published.MOST_LOSS[scheme] if bound else None
        placed = "packed" if packed else "not packed"
        setting = f"{fraction:.3%} failed, {placed}{', published: at most' if bound else ''}"
        rows.append(row_of("lost_throughput", scheme, setting, known, list(mine.loss), "1"))
    return rows


def high_tp_rows(tables: dict[int, pd.DataFrame]) -> list[Row]:
    """Return what jobs of high degrees lose without NTP at 0.1 % failed GPUs, packed."""
    rows = []
    for degree, table in tables.items():
        mine = table[table.packed & (table.scheme == Scheme.DP_DROP.value)]
        for column, what in (("loss", "mean"), ("high", "95th percentile of placements")):
            setting = f"TP{degree}, 0.1% failed, packed, {what}"
            rows.append(
                row_of(
                    "lost_throughput",
                    Scheme.DP_DROP.value,
                    setting,
                    published.HIGH_TP_LOSS,
                    list(mine[column]),
                    "1",
                )
            )
    return rows


def trace_rows(table: pd.DataFrame) -> list[Row]:
    """Return what happened in the traces: means of each seed's traces."""
    rows = []
    for (repair, factor), mine in table.groupby(["repair", "rate_factor"], sort=False):
        known: dict[str, float | None] = {}
        if repair == "3 days":
            # The paper says 3 or 5 days; its peak is that of 5.
            known = {}
        elif factor == 1:
            known["share_above"] = published.TRACE_SHARE_ABOVE
            known["peak_gpus"] = published.TRACE_PEAK_GPUS
        else:
            known["least_availability_tp32"] = published.TRIPLE_RATE_AVAILABILITY
            known["least_availability_tp64"] = published.TRIPLE_RATE_AVAILABILITY
        setting = f"15 days, repair {repair}, rate x{factor}"
        by_seed = mine.groupby("seed")
        for column, unit in (
            ("share_above", "1"),
            ("peak_gpus", "GPUs"),
            ("mean_fraction", "1"),
            ("least_availability_tp32", "1"),
            ("least_availability_tp64", "1"),
        ):
            means = list(by_seed[column].mean())
            rows.append(row_of(column, "cluster", setting, known.get(column), means, unit))
        rows += [
            row_of(
                "lost_throughput",
                scheme.value,
                f"{setting}, mean over time",
                None,
                list(by_seed[f"loss_{scheme.value}"].mean()),
                "1",
            )
            for scheme in Scheme
        ]
    return rows + _peak_ratio_rows(table)


def _peak_ratio_rows(table: pd.DataFrame) -> list[Row]:
    peaks = table.groupby(["repair", "rate_factor", "seed"]).peak_gpus.mean().unstack("seed")
    pairs = [(repair, repair) for repair in table.repair.unique()] + [("3 days", "5 days")]
    return [
        row_of(
            "peak_ratio",
            "cluster",
            f"15 days, rate x3 and repair {repair}, over rate x1 and repair {other}",
            published.TRIPLE_RATE_PEAK_RATIO,
            list(peaks.loc[(repair, 3)] / peaks.loc[(other, 1)]),
            "1",
        )
        for repair, other in pairs
    ]


def spare_rows(table: pd.DataFrame) -> list[Row]:
    """Return the spare domains that keep the batch through a trace."""
    rows = []
    for repair, mine in table[table.rate_factor == 1].groupby("repair", sort=False):
        by_seed = mine.groupby("seed")
        for scheme in Scheme:
            for column, kind in (("spares", "one by one"), ("replica_spares", "whole replicas")):
                compared = repair == "5 days" and column == "replica_spares"
                known = published.SPARE_DOMAINS[scheme.value] if compared else None
                values = by_seed[f"{column}_{scheme.value}"]
                setting = f"15 days, repair {repair}, {kind}, spares never fail"
                for name, found in (
                    ("mean of traces", values.mean()),
                    ("95th percentile", values.quantile(0.95)),
                    ("worst trace", values.max()),
                ):
                    rows.append(
                        row_of(
                            "spare_domains",
                            scheme.value,
                            f"{setting}, {name}",
                            known,
                            list(found),
                            "domains",
                        )
                    )
    return rows


def blast_rows(table: pd.DataFrame) -> list[Row]:
    """Return the loss over the GPUs that a failure takes, packed."""
    return [
        row_of(
            "lost_throughput",
            str(scheme),
            f"33 failures of {radius} GPUs, packed",
            None,
            list(mine.loss),
            "1",
        )
        for (radius, scheme), mine in table[table.packed].groupby(
            ["blast_radius", "scheme"], sort=False
        )
    ]


def pace_rows(table: pd.DataFrame) -> list[Row]:
    """Return how the loss depends on the model of an iteration's time."""
    return [
        row_of(
            "lost_throughput",
            str(scheme),
            f"{mine.failed_fraction.iloc[0]:.3%} failed, packed, pace {pace}",
            None,
            list(mine.loss),
            "1",
        )
        for (pace, scheme), mine in table[table.scheme != Scheme.DP_DROP.value].groupby(
            ["pace", "scheme"], sort=False
        )
    ]


def power_rows() -> list[Row]:
    """Return what more power costs, and what NTP-PW draws."""
    curve = PowerCurve()
    rows = [
        row_of(
            "performance_per_watt_lost",
            Scheme.NTP_PW.value,
            f"{power} times TDP (the curve is a fit through this)",
            known,
            [1.0 - curve.performance(power) / power],
            "1",
        )
        for power, known in published.PERFORMANCE_PER_WATT_LOSS.items()
    ]
    plans = study_job().plans(Scheme.NTP_PW)
    return rows + [
        row_of(
            "power_over_tdp",
            Scheme.NTP_PW.value,
            f"TP{plans[failed].degree}, {plans[failed].sequences} sequences",
            None,
            [plans[failed].power],
            "1",
        )
        for failed in (1, 3)
    ]


def sync_rows(resharding: pd.DataFrame, checks: list[SyncCheck]) -> list[Row]:
    """Return what resharding costs, and the sums and times of the simulated gradient syncs."""
    rows = [
        row_of(
            "backward_slowdown",
            Scheme.NTP.value,
            f"TP32 to TP{row['degree']}, nothing hidden, published: at most",
            published.BACKWARD_SLOWDOWN,
            [row["backward_slowdown"]],
            "1",
        )
        for row in resharding.to_dict("records")
    ]
    rows += [
        row_of(
            "iteration_slowdown",
            Scheme.NTP.value,
            f"TP32 to TP{row['degree']}, nothing hidden",
            None,
            [row["iteration_slowdown"]],
            "1",
        )
        for row in resharding.to_dict("records")
    ]
    setting = "TP32, TP30 and TP28 on SimGrid"
    wrong = [float(check.wrong) for check in checks]
    ratios = [check.time_s / check.alpha_beta_s for check in checks]
    rows.append(row_of("wrong_gradient_sums", Scheme.NTP.value, setting, 0.0, wrong, "elements"))
    rows.append(row_of("sync_time_over_alpha_beta", Scheme.NTP.value, setting, None, ratios, "1"))
    return rows
