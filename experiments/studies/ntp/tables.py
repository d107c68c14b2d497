"""The tables of the study, for the screen."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
from faultline.experiments.studies.base import Row
from faultline.experiments.studies.ntp import published
from faultline.experiments.studies.ntp.setting import PACES, study_job
from faultline.experiments.studies.ntp.trace_study import REPAIRS_DAYS
from faultline.strategies.nonuniform.replica_plan import Scheme
from rich.box import SIMPLE_HEAD
from rich.table import Table

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


def spare_table(traces: pd.DataFrame, failing: pd.DataFrame, failing_repair: str) -> Table:
    """Show how many spare domains keep the batch through a trace, if they fail and if not.

    Parameters
    ----------
    traces : DataFrame
        That of `trace_study.trace_table`, in which spares never fail.
    failing : DataFrame
        That of `failing_spares.failing_spares_table`.
    failing_repair : str
        How long repairs take in `failing`.
    """
    table = new_table(
        "Spare domains for a fixed batch: mean / 95th percentile / worst of the traces"
    )
    for name in ("repair", "in", "spares"):
        table.add_column(name)
    for name in SCHEME_NAMES.values():
        table.add_column(name, justify="right", no_wrap=True)
    plain = traces[traces.rate_factor == 1]
    for repair, mine in plain.groupby("repair", sort=False):
        for column, kind in (("spares", "domains"), ("replica_spares", "whole replicas")):
            cells = [_spread(mine[f"{column}_{scheme}"]) for scheme in SCHEME_NAMES]
            table.add_row(str(repair), kind, "never fail", *cells)
        if repair == failing_repair:
            cells = [_spread(failing.spares[failing.scheme == scheme]) for scheme in SCHEME_NAMES]
            table.add_row(str(repair), "whole replicas", "fail too", *cells)
    known = (f"{published.SPARE_DOMAINS[scheme]}" for scheme in SCHEME_NAMES)
    table.add_row("5 days", "published", "not said", *known)
    return table


def _spread(values: pd.Series) -> str:
    return f"{values.mean():.0f} / {values.quantile(0.95):.0f} / {values.max():.0f}"


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


def closing_sentence(losses: pd.DataFrame, traces: pd.DataFrame, failing: pd.DataFrame) -> str:
    """Say what the study comes to."""
    packed = losses[losses.packed & (losses.failed_fraction == 0.004)]
    loss = packed.groupby("scheme").loss.mean()
    spares = traces[(traces.repair == "5 days") & (traces.rate_factor == 1)]
    dropped = _spread(spares["replica_spares_dp-drop"])
    if_failing = _spread(failing.spares[failing.scheme == "dp-drop"])
    return (
        f"At 0.4 % failed GPUs DP-DROP loses {loss['dp-drop']:.1%} of the throughput, NTP "
        f"{loss['ntp']:.1%}, NTP-PW {loss['ntp-pw']:.1%}. The spare domains that keep DP-DROP's "
        f"batch through 15 days with repairs of 5 days, mean / 95th percentile / worst of the "
        f"traces: {dropped} if spares never fail, {if_failing} if they do (published: "
        f"{published.SPARE_DOMAINS['dp-drop']})."
    )


def new_table(title: str) -> Table:
    """Return an empty table in the study's style."""
    return Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
