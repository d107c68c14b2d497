"""Nonuniform tensor parallelism (Arfeen et al. 2025, arXiv 2504.06095).

A 480B model on 32,768 B200 in NVLink domains of 32. A single failed GPU can stop its replica
(DP-DROP), lower the replica's tensor-parallel degree (NTP), or let the replica's other GPUs draw
more power (NTP-PW). The study compares the costs, also in the training loop through 15 days of
failures, repairs and restarts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.figures.palette import look_of
from faultline.experiments.figures.style import (
    CAUSE_LOOKS,
    legend_below,
    name_rows,
    stack_bars,
    write_notes,
    write_title,
)
from faultline.experiments.studies.base import Results, Study
from faultline.experiments.studies.ntp import failures, loop, setting, tables
from faultline.experiments.studies.stage import Stage
from faultline.simulator.accounting.badput import MEANINGS
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

_SHOWN = ("degraded", "repeated", "checkpoint", "restart")
"""Causes large enough to be visible; all others are useful time or negligible."""


def draw_loop(table: pd.DataFrame) -> Figure:
    """Draw the losses of each variant in 15 days, by cause; the goodput is behind the bars."""
    shares = pd.DataFrame({cause: table[f"{cause}_s"] / table.time_s for cause in _SHOWN})
    means = shares.groupby(table.variant, sort=False).mean()
    goodput = table.groupby("variant", sort=False).goodput.mean()
    figure, axis = plt.subplots(figsize=(9.0, 4.4))
    named = means.rename(columns=MEANINGS)
    stack_bars(axis, range(len(means)), named, (CAUSE_LOOKS[cause] for cause in _SHOWN))
    left = means.sum(axis=1)
    for place, variant in enumerate(means.index):
        text = f"goodput {goodput[variant]:.1%}"
        axis.text(left[variant] + 0.004, place, text, va="center", fontsize=9)
    name_rows(axis, range(len(means)), [loop.variant_name(str(name)) for name in means.index])
    axis.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.set(xlim=(0, float(left.max()) + 0.08), xlabel="share of 15 days lost")
    legend_below(figure, axis)
    write_title(figure, "With packed replicas restarts cost more than missing GPUs")
    write_notes(figure, ["32,768 GPUs at Llama 3's failure rate, restarts of ten minutes."])
    return figure


def draw_domains(table: pd.DataFrame) -> Figure:
    """Draw the losses over the size of domains."""
    figure, axis = plt.subplots(figsize=(7.0, 4.2))
    shares = table.assign(lost=1.0 - table.goodput)
    means = shares.groupby(["strategy", "domain_gpus"])["lost"].mean()
    for scheme in loop.DOMAIN_SCHEMES:
        look = replace(look_of(scheme), label=loop.variant_name(scheme))
        axis.plot(means.loc[scheme].index, means.loc[scheme], **look.line)
    axis.set(xlabel="GPUs of a scale-up domain", ylim=(0, None), xticks=failures.DOMAIN_SIZES)
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.set(ylabel="share of 15 days lost")
    legend_below(figure, axis)
    write_title(figure, "DP-DROP loses more in larger domains, NTP does not")
    return figure


_AT_MOST = "0.400% failed, packed, published: at most"
_SPARES = "*spares fail too, mean of traces"


class NtpStudy(Study):
    """Throughput lost to single GPUs, the spares that prevent it, and both in the training loop."""

    charts: ClassVar = {
        "goodput.png": (draw_loop, "loop"),
        "domains.png": (draw_domains, "domains"),
    }
    headline_title = "0.4 % of the GPUs failed (published: at most), and spares for 15 days"
    headline_rows: ClassVar = {
        "DP-DROP, throughput lost": (
            "lost_throughput",
            "dp-drop",
            _AT_MOST,
        ),
        "NTP, throughput lost": (
            "lost_throughput",
            "ntp",
            _AT_MOST,
        ),
        "NTP-PW, throughput lost": (
            "lost_throughput",
            "ntp-pw",
            _AT_MOST,
        ),
        "DP-DROP, spare domains": ("spare_domains", "dp-drop", _SPARES),
        "NTP, spare domains": ("spare_domains", "ntp", _SPARES),
        "NTP-PW, spare domains": ("spare_domains", "ntp-pw", _SPARES),
    }

    def simulate(self, stage: Stage) -> Results:
        """Place failed GPUs, draw traces, and run the training loop."""
        seeds, job = range(stage.seeds), setting.study_job()
        sets, count = stage.pick(1_000, 10_000), stage.pick(40, 400)
        losses = failures.loss_table
        with stage.step("placements"):
            high_tp = {
                degree: losses(setting.study_job(degree), [0.001], seeds, sets)
                for degree in (8, 16, 64, 72)
            }
            results: Results = {
                "plans": tables.plan_table(),
                "resharding": setting.resharding_table(),
                "utilisation": setting.utilisation_table(),
                "availability": tables.availability_table(),
                "power": tables.power_table(),
                "tried": tables.tried_table(),
                "losses": losses(job, failures.FRACTIONS, seeds, sets),
                "high_tp": pd.concat(high_tp, names=["degree"]).reset_index(level=0),
            }
        with stage.step("traces"):
            results["traces"] = failures.trace_table(seeds, count)
            results["spares"] = failures.spares_table(seeds, count)
        sample = stage.folder("failures"), stage.seeds, stage.pick(1, 10)
        runs = stage.runs("training loop", loop.loop_points(*sample))
        of_domains = stage.runs("domain sizes", loop.domain_points(*sample))
        return results | {"loop": loop.loop_table(runs), "domains": loop.domain_table(of_domains)}

    def row_tables(self, results: Results) -> Mapping[str, Any]:
        """Return the tables of which ``data/rows.csv`` lists rows."""
        return tables.row_tables(results)
