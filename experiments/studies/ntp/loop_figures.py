"""The figures of the schemes in the training loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from faultline.experiments.figures.style import CAUSE_LOOKS, figure_style, save_figure
from faultline.experiments.studies.ntp.loop_tables import NAMES, variant_name
from faultline.experiments.studies.ntp.within_study import CONTROL_REDUNDANCY
from faultline.simulator.badput import MEANINGS
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
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
# Okabe and Ito (2008); the stall that is longer is hatched.
_COLOURS = {"die": "#999999", "slow": "#0072B2", "boosted": "#009E73", "smaller-batch": "#E69F00"}
_CONTROL: dict[str, Any] = {
    "color": "black",
    "marker": "D",
    "linestyle": "none",
    "markersize": 6,
    "markerfacecolor": "white",
}


def draw_loop(table: pd.DataFrame, path: Path) -> Path:
    """Draw what 15 days of each variant lose, by cause; the goodput stands behind the bars."""
    shares = pd.DataFrame({cause: table[f"{cause}_s"] / table.time_s for cause in _SHOWN})
    means = shares.groupby(table.variant, sort=False).mean()
    goodput = table.groupby("variant", sort=False).goodput.mean()
    with figure_style():
        figure, axis = plt.subplots(figsize=(9.0, 4.4))
        left = pd.Series(0.0, index=means.index)
        for cause in _SHOWN:
            look = CAUSE_LOOKS[cause]
            axis.barh(
                range(len(means)),
                means[cause],
                left=left,
                color=look.colour,
                hatch=look.hatch,
                edgecolor="white",
                linewidth=0.5,
                label=MEANINGS[cause],
            )
            left += means[cause]
        for place, variant in enumerate(means.index):
            axis.text(
                left[variant] + 0.004,
                place,
                f"goodput {goodput[variant]:.1%}",
                va="center",
                fontsize=9,
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
        return save_figure(figure, path)


def draw_within(table: pd.DataFrame, path: Path) -> Path:
    """Draw the time to train with hit groups that die, or work on, at two lengths of a stall."""
    with figure_style():
        figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), sharey=True)
        for axis, scheme in zip(axes, ("spare", "replication"), strict=True):
            plain = table[table.scheme == scheme]
            redundancy = int(plain.redundancy.iloc[0])
            mine = table[table.scheme.isin([scheme, f"{scheme}-ntp"])]
            mine = mine[mine.redundancy == redundancy]
            _draw_bars(axis, mine, table[table.redundancy == CONTROL_REDUNDANCY])
            name = NAMES[scheme]
            same = mine.without_a_restart[mine.hit_groups != "die"].all()
            note = ": where hit groups work on,\nno more than NTP without a restart" if same else ""
            axis.set_title(f"{name[0].upper()}{name[1:]}, r = {redundancy}{note}")
        axes[0].set_ylabel("time to train over ideal")
        stalls = sorted(table.stall_s[table.stall_s > 0].unique())
        handles = [
            *(Patch(color=_COLOURS[kind], label=label) for kind, label in _HIT_GROUPS.items()),
            *(
                Patch(
                    facecolor="white",
                    edgecolor="#555555",
                    hatch="////" if place else "",
                    label=f"a change of degree stalls all for {stall_s:g} s",
                )
                for place, stall_s in enumerate(stalls)
            ),
            Line2D([], [], **_CONTROL, label="NTP without a restart: the same with r = 1"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        figure.suptitle("600,000 GPUs, a single GPU fails every 300 s, repair in 4 days")
        return save_figure(figure, path)


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
                place,
                ratio,
                width=0.9,
                color=_COLOURS[hit_groups],
                hatch="////" if number else "",
                edgecolor="white",
            )
            axis.text(place, ratio + 0.07, f"{ratio:.2f}", ha="center", fontsize=9)
            if (hit_groups, stall_s) in control:
                axis.plot(place, control[hit_groups, stall_s], **_CONTROL)
            place += 1.0
        places.append((first + place - 1.0) / 2)
        place += 0.5
    axis.axhline(1.0, color="black", linestyle=":", linewidth=1.2)
    axis.set_xticks(places, [name.replace("-", "\n") for name in _HIT_GROUPS])
    axis.tick_params(axis="x", length=0)
    axis.grid(visible=False, axis="x")
