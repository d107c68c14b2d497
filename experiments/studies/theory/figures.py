"""The figures of closed forms beside simulation; they read tables and nothing else."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from faultline.experiments.figures.style import legend_below, ticks_at, write_notes, write_title
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

_SIMULATED, _CLOSED, _PAPER, _OTHER = "black", "#0072B2", "#D55E00", "#009E73"
_ERROR_PANELS = {
    "failures to a wipe-out": {
        "plain_error_middle": "paper: μ(N, r) + 1/2",
        "closed_error": "here: shared hosts counted",
    },
    "least mean stacks": {
        "plain_work_error": "paper: mean up to ⌊μ⌋",
        "closed_work_error": "here: weighed by P(k)",
    },
}


def draw_errors(counts: pd.DataFrame) -> Figure:
    """Draw the relative errors of SPARe's closed forms by N: a mark a redundancy."""
    spare = counts[counts.scheme == "spare"]
    noise = 2 * float((spare.standard_error / spare.simulated).max())
    figure, axes = plt.subplots(1, 2, figsize=(9.4, 4.6), sharey=True)
    sizes = sorted(spare.groups.unique())
    looks = ((_PAPER, "D"), (_CLOSED, "o"))
    for axis, (title, forms) in zip(axes, _ERROR_PANELS.items(), strict=True):
        axis.axhspan(-noise, noise, color="#e4e4e4", zorder=0)
        # The paper's marks are left of ours; within them redundancy grows to the right.
        for side, ((column, label), (colour, marker)) in enumerate(
            zip(forms.items(), looks, strict=True)
        ):
            for place, size in enumerate(sizes):
                mine = spare[spare.groups == size].sort_values("redundancy")
                x = place + np.linspace(-0.38, -0.06, len(mine)) + 0.44 * side
                axis.plot(x, mine[column], marker, color=colour, markersize=3.5)
            axis.plot([], [], marker, color=colour, label=label)
        axis.set_title(title)
        axis.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
        axis.set_xlabel("groups N")
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, columnspacing=1.0)
    axes[0].set_ylabel("closed form / Monte Carlo − 1")
    write_title(figure, "The paper's closed forms are low for few groups; those used here are not")
    write_notes(
        figure,
        ["Per N, marks from left to right have more redundancy. Grey: two standard errors."],
    )
    return figure


def draw_replication(counts: pd.DataFrame) -> Figure:
    """Draw failures to the wipe-out of replication over r: simulated, exact, and the paper's."""
    chosen = counts[(counts.scheme == "replication") & counts.groups.isin((200, 1000))]
    figure, axes = plt.subplots(1, 2, figsize=(10.0, 3.8))
    for axis, (size, line) in zip(axes, chosen.groupby("groups"), strict=True):
        r = line.redundancy
        axis.plot(r, line.closed, color=_CLOSED, label="exact, with the smaller last set")
        axis.plot(r, line.plain * r ** (1 / r), color=_OTHER, linestyle=":",
                  label="N/r whole sets: paper × r^(1/r)")  # fmt: skip
        axis.plot(r, line.plain, color=_PAPER, linestyle="--", label="paper: μ(N, r)")
        axis.plot(r, line.simulated, "o", color=_SIMULATED, label="Monte Carlo")
        axis.set(title=f"N = {size} groups", xlabel="replication degree r", ylim=(0, None))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylabel("mean failures to a wipe-out")
    legend_below(figure, axes[0])
    return figure


def draw_work(by_failure: dict[tuple[int, int], pd.DataFrame]) -> Figure:
    """Draw rho_k over the failures k of a life, simulated and closed, a panel an (N, r)."""
    figure, axes = plt.subplots(1, len(by_failure), figsize=(10.0, 3.8), sharey=True, squeeze=False)
    for axis, ((groups, redundancy), table) in zip(axes[0], by_failure.items(), strict=True):
        _draw_patch(axis, table)
        axis.set(title=f"N = {groups}, r = {redundancy}", xlabel="failure k of a life")
    axes[0, 0].set_ylabel("patch compute ρ_k (stacks)")
    legend_below(figure, axes[0, 0])
    return figure


def _draw_patch(axis: Axes, table: pd.DataFrame) -> None:
    # Only a few lives get that far: their mean is noise.
    table = table[(table.failures > 0) & (table.lives >= 0.1 * table.lives.max())]
    width = max(1, len(table) // 60)
    # Failures that make S grow stand alone; the others are pooled with their neighbours.
    grows = table.closed_as_needed > table.closed_one_stack
    block = (table.failures // width).where(~grows & (table.failures > 1), -table.failures)
    pooled = table.groupby(block).apply(_pooled, include_groups=False)
    axis.plot(pooled.failures, pooled.as_needed, "o", color=_SIMULATED, markersize=4,
              label="simulated matching")  # fmt: skip
    axis.plot(table.failures, table.closed_as_needed, color=_OTHER, linestyle="--",
              label="closed form, as-needed")  # fmt: skip
    axis.plot(table.failures, table.closed_one_stack, color=_CLOSED, label="closed form, one-stack")


def _pooled(block: pd.DataFrame) -> pd.Series:
    weights = block.lives / block.lives.sum()
    return pd.Series(
        {"failures": block.failures.mean(), "as_needed": (weights * block.as_needed).sum()}
    )


def draw_stacks(cells: pd.DataFrame) -> Figure:
    """Draw mean stacks a step of SPARe at N = 200: simulated jobs and three closed forms."""
    chosen = cells[
        (cells.strategy == "spare")
        & (cells.groups == 200)
        & (cells.rules == "spare-study")
        & (cells.distribution == "weibull")
    ]
    figure, axis = plt.subplots(figsize=(7.0, 4.2))
    r = chosen.redundancy
    axis.plot(r, chosen.work_by_failure, color=_OTHER, linestyle=":",
              label="mean over failures, ρ_k included")  # fmt: skip
    axis.plot(r, chosen.predicted_mean_stacks, color=_CLOSED, label="mean over steps (here)")
    axis.plot(r, chosen.plain_work, color=_PAPER, linestyle="--",
              label="paper: lower bound, without ρ_k")  # fmt: skip
    axis.plot(r, chosen.mean_stacks, "o", color=_SIMULATED, label="simulated jobs")
    axis.set(xlabel="redundancy r", ylabel="mean stacks")
    axis.set_title("Work of a step, N = 200, rules of the study")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(loc="upper left")
    return figure


def draw_times(times: pd.DataFrame) -> Figure:
    """Draw the mean time to a wipe-out over mu m, by Weibull shape, for new and for old groups."""
    titles = {"new": "restart renews all groups", "old": "clocks run on through restarts"}
    figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.2), sharey=True)
    colours = [mpl.colors.to_hex(plt.get_cmap("viridis")(x)) for x in (0.0, 0.3, 0.6, 0.85)]
    for axis, (age, title) in zip(axes, titles.items(), strict=True):
        mine = times[times.age == age]
        lines = mine.groupby(["scheme", "redundancy"], sort=False)
        redundancies = sorted(mine.redundancy.unique())
        for (scheme, redundancy), line in lines:
            colour = colours[redundancies.index(redundancy)]
            name = {"spare": "SPARe", "replication": "replication"}[scheme]
            axis.plot(line["shape"], line.closed_s / line.plain_s, color=colour,
                      linestyle="-" if scheme == "spare" else "--",
                      label=f"{name}, r = {redundancy}")  # fmt: skip
            axis.plot(line["shape"], line.simulated_s / line.plain_s, "o", color=colour)
        axis.axhline(1.0, color="#888888", linewidth=0.8)
        axis.set(title=title, xlabel="Weibull shape (1: exponential)", yscale="log")
        ticks_at(axis.yaxis, [0.05, 0.1, 0.2, 0.5, 1, 2, 3])
    axes[0].set_ylabel("time to a wipe-out / (μ m)")
    write_title(figure, "N = 200 (lines: closed form, dots: Monte Carlo)")
    legend_below(figure, axes[0])
    return figure
