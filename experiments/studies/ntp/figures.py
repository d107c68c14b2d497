"""The figures of the training loop; they read tables and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from faultline.experiments.figures.palette import look_of
from faultline.experiments.figures.style import CAUSE_LOOKS, legend_below, stack_bars
from faultline.experiments.studies.ntp import loop
from faultline.experiments.studies.ntp.failures import DOMAIN_SIZES
from faultline.simulator.badput import MEANINGS
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

_SHOWN = ("degraded", "repeated", "checkpoint", "restart")
"""Causes that come to more than a hairline; all others are useful, or next to nothing."""


def draw_loop(table: pd.DataFrame) -> Figure:
    """Draw what 15 days of each variant lose, by cause; the goodput stands behind the bars."""
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
    axis.set_yticks(range(len(means)), [loop.variant_name(str(name)) for name in means.index])
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")
    axis.invert_yaxis()
    axis.set_xlim(0, float(left.max()) + 0.08)
    axis.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.set_xlabel("share of 15 days lost")
    axis.set_title("32,768 GPUs at Llama 3's failure rate, restarts of ten minutes")
    figure.legend(loc="outside lower center", ncols=4)
    return figure


def draw_domains(table: pd.DataFrame) -> Figure:
    """Draw what is lost, and what is trained, over the size of domains."""
    looks = {
        scheme: replace(look_of(scheme), label=loop.variant_name(scheme))
        for scheme in loop.DOMAIN_SCHEMES
    }
    figure, (lost, trained) = plt.subplots(1, 2, figsize=(9.6, 4.2))
    shares = table.assign(lost=1.0 - table.goodput)
    means = shares.groupby(["strategy", "domain_gpus"]).mean(numeric_only=True)
    for axis, column in ((lost, "lost"), (trained, "batches_per_day")):
        for scheme, look in looks.items():
            line = means.loc[scheme, column]
            axis.plot(line.index, line, **look.line)
        axis.set(xlabel="GPUs of a scale-up domain", ylim=(0, None), xticks=DOMAIN_SIZES)
    lost.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    trained.yaxis.set_major_formatter("{x:,.0f}")
    lost.set(ylabel="share of 15 days lost", title="Each against itself without failures")
    trained.set(ylabel="batches of 1,024 sequences a day", title="What 32,768 GPUs train")
    legend_below(figure, lost)
    figure.suptitle("Through the same failures, at Llama 3's rate")
    return figure
