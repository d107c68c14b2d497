"""The tables of the study, for the screen."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table

from experiments.ntp_study.setting import PACES, study_job
from experiments.ntp_study.trace_study import REPAIRS_DAYS
from experiments.reproductions.base import Row
from strategies.nonuniform.replica_plan import Scheme

SCHEME_NAMES = {"dp-drop": "DP-DROP", "ntp": "NTP", "ntp-pw": "NTP-PW"}
_FRACTIONS = (0.0005, 0.001, 0.002, 0.003, 0.004)
_MOST_FAILED = 8


def plan_frame() -> pd.DataFrame:
    """Return what each scheme does with failed GPUs in a domain, under every model of pace."""
    return pd.DataFrame(
        [
            {
                "pace": pace,
                "scheme": scheme.value,
                "failed_gpus": failed,
                "degree": plan.degree,
                "sequences": plan.sequences,
                "power_over_tdp": plan.power,
            }
            for pace in PACES
            for scheme in Scheme
            for failed, plan in enumerate(study_job(pace=pace).plans(scheme))
        ]
    )


def plan_table() -> Table:
    """Show what each scheme does with failed GPUs in a domain of 32."""
    table = new_table(
        "A replica with failed GPUs in its worst domain: sequences of 8 (power of TDP)"
    )
    for name in ("failed GPUs", "degree", *SCHEME_NAMES.values()):
        table.add_column(name, justify="right", no_wrap=True)
    job = study_job()
    plans = {scheme: job.plans(scheme) for scheme in Scheme}
    for failed in range(_MOST_FAILED + 1):
        cells = []
        for scheme in Scheme:
            plan = plans[scheme][failed]
            power = f" ({plan.power:.2f})" if plan.power > 1.0 else ""
            cells.append(f"{plan.sequences}{power}")
        table.add_row(str(failed), f"TP{plans[Scheme.NTP][failed].degree}", *cells)
    return table


def loss_table(losses: pd.DataFrame) -> Table:
    """Show the loss of each scheme over the failed fraction, packed and not."""
    table = new_table("Throughput lost: mean over random placements")
    table.add_column("failed GPUs", justify="right", no_wrap=True)
    for kind in ("packed", "not packed"):
        for name in SCHEME_NAMES.values():
            table.add_column(f"{name}\n{kind}", justify="right", no_wrap=True)
    means = losses.groupby(["failed_fraction", "packed", "scheme"]).loss.mean()
    for fraction in _FRACTIONS:
        cells = [
            f"{means[fraction, packed, scheme]:.2%}"
            for packed in (True, False)
            for scheme in SCHEME_NAMES
        ]
        table.add_row(f"{fraction:.2%}", *cells)
    return table


def trace_table(traces: pd.DataFrame) -> Table:
    """Show what 15 days do, by repair time and failure rate."""
    table = new_table(
        "15 days: time above 0.1 % failed, peak of GPUs, worst availability, mean loss"
    )
    table.add_column("repair")
    for name in ("rate", ">0.1%", "peak", "TP32", "TP64"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in SCHEME_NAMES.values():
        table.add_column(name, justify="right", no_wrap=True)
    means = traces.groupby(["rate_factor", "repair"]).mean(numeric_only=True)
    for factor in traces.rate_factor.unique():
        for repair in REPAIRS_DAYS:
            mine = means.loc[(factor, repair)]
            table.add_row(
                repair,
                f"x{factor}",
                f"{mine.share_above:.0%}",
                f"{mine.peak_gpus:.0f}",
                f"{mine.least_availability_tp32:.1%}",
                f"{mine.least_availability_tp64:.1%}",
                *(f"{mine[f'loss_{scheme}']:.2%}" for scheme in SCHEME_NAMES),
            )
    return table


def spare_table(traces: pd.DataFrame) -> Table:
    """Show how many spare domains keep the batch through a trace."""
    table = new_table(
        "Spare domains for a fixed batch: mean / 95th percentile / worst of the traces"
    )
    table.add_column("repair")
    table.add_column("in")
    for name in SCHEME_NAMES.values():
        table.add_column(name, justify="right", no_wrap=True)
    plain = traces[traces.rate_factor == 1]
    for repair, mine in plain.groupby("repair", sort=False):
        for column, kind in (("spares", "domains"), ("replica_spares", "whole replicas")):
            cells = []
            for scheme in SCHEME_NAMES:
                values = mine[f"{column}_{scheme}"]
                cells.append(
                    f"{values.mean():.0f} / {values.quantile(0.95):.0f} / {values.max():.0f}"
                )
            table.add_row(str(repair), kind, *cells)
    return table


def published_table(results: Iterable[Row]) -> Table:
    """Show everything that has a published number beside it."""
    table = new_table("Published and simulated")
    for name in ("quantity", "scheme", "setting"):
        table.add_column(name, overflow="fold")
    for name in ("published", "simulated"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in results:
        if row.published is not None:
            table.add_row(
                row.quantity,
                row.scheme,
                row.setting,
                f"{row.published:.4g}",
                f"{row.simulated:.4g}",
            )
    return table


def closing_sentence(losses: pd.DataFrame, traces: pd.DataFrame) -> str:
    """Say what the study comes to."""
    packed = losses[losses.packed & (losses.failed_fraction == 0.004)]
    loss = packed.groupby("scheme").loss.mean()
    spares = traces[(traces.repair == "5 days") & (traces.rate_factor == 1)]
    needed = {name: spares[f"replica_spares_{name}"].quantile(0.95) for name in SCHEME_NAMES}
    return (
        f"At 0.4 % failed GPUs DP-DROP loses {loss['dp-drop']:.1%} of the throughput, NTP "
        f"{loss['ntp']:.1%}, NTP-PW {loss['ntp-pw']:.1%}; through 15 days with repairs of 5 days "
        f"{needed['dp-drop']:.0f}, {needed['ntp']:.0f} and {needed['ntp-pw']:.0f} spare domains "
        "keep the batch in 95 % of the traces."
    )


def new_table(title: str) -> Table:
    """Return an empty table in the study's style."""
    return Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
