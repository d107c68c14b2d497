"""The figures of the training loop; they read tables and nothing else."""

from __future__ import annotations

from typing import Any

import pandas as pd
from faultline.experiments.figures.palette import looks_of_schemes, title_of
from faultline.experiments.figures.style import (
    CAUSE_LOOKS,
    legend_below,
    mark,
    stack_bars,
)
from faultline.experiments.studies.ntp.domains import SCHEMES
from faultline.experiments.studies.ntp.loop import variant_name
from faultline.experiments.studies.ntp.within import CONTROL_REDUNDANCY
from faultline.simulator.badput import MEANINGS
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

_SHOWN = ("degraded", "repeated", "checkpoint", "restart")
"""Causes that come to more than a hairline; all others are useful, or next to nothing."""
_HIT_GROUPS = {
    "die": "hit groups die",
    "slow": "work on, all wait",
    "boosted": "work on, more power",
    "smaller-batch": "work on, smaller batch",
}
_HIT_COLOURS = {
    "die": "#999999",
    "slow": "#0072B2",
    "boosted": "#009E73",
    "smaller-batch": "#E69F00",
}
_CONTROL: Any = {"color": "black", "marker": "D", "ls": "none", "ms": 6, "mfc": "white"}


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
        axis.text(
            left[variant] + 0.004, place, f"goodput {goodput[variant]:.1%}", va="center", fontsize=9
        )
    axis.set_yticks(range(len(means)), [variant_name(str(name)) for name in means.index])
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
    looks = looks_of_schemes(SCHEMES)
    figure, (lost, trained) = plt.subplots(1, 2, figsize=(9.6, 4.2))
    sizes = sorted(table.domain_gpus.unique())
    for scheme, look in looks.items():
        mine = table[table.strategy == scheme].groupby("domain_gpus")
        for axis, values in (
            (lost, 1.0 - mine.goodput.mean()),
            (trained, mine.batches_per_day.mean()),
        ):
            axis.plot(
                range(len(sizes)), values.loc[sizes], color=look.colour, marker=look.marker,
                label=variant_name(scheme),
            )  # fmt: skip
    for axis in (lost, trained):
        axis.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        axis.set_xlabel("GPUs of a scale-up domain")
        axis.set_ylim(bottom=0)
    lost.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    trained.yaxis.set_major_formatter("{x:,.0f}")
    lost.set_ylabel("share of 15 days lost")
    trained.set_ylabel("batches of 1,024 sequences a day")
    lost.set_title("Each against itself without failures")
    trained.set_title("What 32,768 GPUs train")
    legend_below(figure, lost.get_legend_handles_labels()[0], 4)
    figure.suptitle("Through the same failures, at Llama 3's rate")
    return figure


def draw_within(table: pd.DataFrame) -> Figure:
    """Draw the time to train with hit groups that die, or work on, at two lengths of a stall."""
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), sharey=True)
    for axis, scheme in zip(axes, ("spare", "replication"), strict=True):
        plain = table[table.scheme == scheme]
        redundancy = int(plain.redundancy.iloc[0])
        mine = table[table.scheme.isin([scheme, f"{scheme}-ntp"])]
        mine = mine[mine.redundancy == redundancy]
        _draw_bars(axis, mine, table[table.redundancy == CONTROL_REDUNDANCY])
        name = title_of(scheme)
        same = mine.without_a_restart[mine.hit_groups != "die"].all()
        note = ": where hit groups work on,\nno more than NTP without a restart" if same else ""
        axis.set_title(f"{name[0].upper()}{name[1:]}, r = {redundancy}{note}")
    axes[0].set_ylabel("time to train over ideal")
    stalls = sorted(table.stall_s[table.stall_s > 0].unique())
    handles = [
        *(Patch(color=_HIT_COLOURS[kind], label=label) for kind, label in _HIT_GROUPS.items()),
        *(
            Patch(
                facecolor="white",
                edgecolor="#555555",
                hatch="////" if place else "",
                label=f"a change of degree stalls all for {stall_s:g} s",
            )
            for place, stall_s in enumerate(stalls)
        ),
        mark("NTP without a restart: the same with r = 1", **_CONTROL),
    ]
    legend_below(figure, handles, 3)
    figure.suptitle("600,000 GPUs, a single GPU fails every 300 s, repair in 4 days")
    return figure


def _draw_bars(axis: Axes, table: pd.DataFrame, controls: pd.DataFrame) -> None:
    keys = ["hit_groups", "stall_s"]
    means = table.groupby(keys, sort=False).time_to_train_ratio.mean()
    control = controls.groupby(keys, sort=False).time_to_train_ratio.mean()
    place, places = 0.0, []
    for hit_groups in _HIT_GROUPS:
        bars = means[hit_groups]
        first = place
        for number, (stall_s, ratio) in enumerate(bars.items()):
            axis.bar(
                place, ratio, width=0.9, color=_HIT_COLOURS[hit_groups],
                hatch="////" if number else "", edgecolor="white",
            )  # fmt: skip
            top = ratio
            if (hit_groups, stall_s) in control:
                axis.plot(place, control[hit_groups, stall_s], **_CONTROL)
                # The number stands above the mark, too.
                top = max(top, control[hit_groups, stall_s] + 0.1)
            axis.text(place, top + 0.07, f"{ratio:.2f}", ha="center", fontsize=9)
            place += 1.0
        places.append((first + place - 1.0) / 2)
        place += 0.5
    axis.axhline(1.0, color="black", linestyle=":", linewidth=1.2)
    axis.set_xticks(places, [name.replace("-", "\n") for name in _HIT_GROUPS])
    axis.tick_params(axis="x", length=0)
    axis.grid(visible=False, axis="x")
