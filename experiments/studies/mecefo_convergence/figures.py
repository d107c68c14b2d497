"""The figures of the study."""

from __future__ import annotations

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.figures.palette import LineLook, look_of
from faultline.experiments.figures.style import draw_band, write_title
from faultline.experiments.studies.mecefo_convergence.cells import STEADY
from faultline.experiments.studies.mecefo_convergence.task_maps import LOSSES, NO_FAULTS
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

# Okabe and Ito (2008), a palette for all kinds of colour vision.
_RATES = {
    ("mecefo", NO_FAULTS): LineLook("no faults", "#000000", ""),
    ("mecefo", "low"): LineLook("low", "#56B4E9", "o"),
    ("mecefo", "mid"): LineLook("mid", "#0072B2", "s"),
    ("mecefo", "high"): LineLook("high", "#E69F00", "v"),
    ("mecefo", "higher"): LineLook("higher", "#D55E00", "D"),
    (STEADY, "1"): LineLook("1 of 4 pipelines, always", "#CC79A7", "P", ":"),
    (STEADY, "2"): LineLook("2 of 4 pipelines, always", "#882255", "X", ":"),
}
_NORMS = {
    "nowhere": LineLook("exact", "#000000", "o"),
    "one rank": LineLook("one rank approximate", "#0072B2", "s"),
    "every rank": LineLook("every rank approximate", "#D55E00", "D"),
}


def draw_convergence(curves: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw losses, their differences, and the steps to a loss by share."""
    figure, axes = plt.subplots(1, 3, figsize=(15.0, 4.6))
    _draw_losses(axes[0], curves)
    _draw_differences(axes[1], curves)
    _draw_inflation(axes[2], runs)
    write_title(figure, f"A small language model under take-overs, {curves.seed.nunique()} seeds")
    return figure


def _draw_losses(axis: Axes, curves: pd.DataFrame) -> None:
    for (loss, rate), look in _RATES.items():
        mine = curves[(curves.loss == loss) & (curves.rate == rate) & (curves.steps > 0)]
        if not mine.empty:
            mean = mine.groupby("samples", as_index=False).held_out.mean()
            axis.plot(mean.samples, mean.held_out, markersize=4, **look.line)
    axis.set_xlabel("sequences trained")
    axis.set_ylabel("held-out loss (nats a byte)")
    axis.set_title("Held-out loss, mean over seeds")
    axis.legend(title="failures")


def _draw_differences(axis: Axes, curves: pd.DataFrame) -> None:
    exact = curves[curves.rate == NO_FAULTS].set_index(["seed", "steps"]).held_out
    axis.axhline(0.0, color="black", lw=1.0)
    # Intervals at the end, beside each other: bands would hide the lines.
    last = curves.samples[curves.rate == NO_FAULTS].max()
    place = 1.0
    for (loss, rate), look in _RATES.items():
        mine = curves[(curves.loss == loss) & (curves.rate == rate)]
        if mine.empty or rate == NO_FAULTS:
            continue
        beside = exact.loc[pd.MultiIndex.from_frame(mine[["seed", "steps"]])].to_numpy()
        table = mean_over_seeds(mine.assign(change=mine.held_out - beside), ["samples"], "change")
        axis.plot(table.samples, table["mean"], markersize=4, **look.line)
        place += 0.025
        end = table.iloc[-1]
        axis.vlines(place * last, end.low, end.high, color=look.colour, lw=2.0)
        axis.plot(place * last, end["mean"], color=look.colour, marker=look.marker, markersize=4)
    axis.set_xlabel("sequences trained")
    axis.set_ylabel("held-out loss against no faults (nats)")
    axis.set_title("Difference by seed, mean; 95 % intervals at the end")


def _draw_inflation(axis: Axes, runs: pd.DataFrame) -> None:
    looks = {
        "mecefo": look_of("mecefo"),
        STEADY: LineLook("MeCeFO, always", "#882255", "X"),
        "idle": LineLook("idle pipelines", "#555555", "^"),
        **{name: look_of(name) for name in ("replica-drop", "dp-drop", "ntp")},
    }
    faulty = runs[(runs.rate != NO_FAULTS) & runs.inflation.notna()]
    widest = max(0.3, float(faulty.share.max())) * 1.1
    shares = np.linspace(0.0, min(widest, 0.7), 50)
    axis.plot(shares, 1 / (1 - shares), color="#999999", ls="--", label="worth nothing")
    axis.axhline(1.0, color="#999999", lw=1.0, label="worth as much as exact")
    for name in (*LOSSES, STEADY):
        mine = faulty[faulty.loss == name]
        if not mine.empty:
            look = looks[name]
            axis.plot(
                mine.share, mine.inflation, color=look.colour, marker=look.marker, ls="none",
                markersize=5, label=look.label,
            )  # fmt: skip
    axis.set_xlabel("share of gradients approximate, or of the batch missing")
    axis.set_ylabel("steps to a loss over those without faults")
    axis.set_title("Inflation by share, a mark a run")
    axis.legend()


def draw_norms(norms: pd.DataFrame) -> Figure:
    """Draw the mean squared norm of the exact gradient over nT."""
    figure, axis = plt.subplots(figsize=(7.2, 4.6))
    for where, look in _NORMS.items():
        mine = norms[norms["where"] == where]
        table = mean_over_seeds(mine, ["n_t"], "square")
        axis.plot(table.n_t, table["mean"], markersize=4, **look.line)
        draw_band(axis, table.n_t, table, look.colour)
    ends = np.array([norms.n_t.min(), norms.n_t.max()])
    first = norms[(norms["where"] == "nowhere") & (norms.n_t == ends[0])].square.mean()
    axis.plot(ends, first * np.sqrt(ends[0] / ends), color="#999999", ls="--", label="1/√(nT)")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    counts = sorted(norms.n_t.unique())
    axis.set_xticks(counts, [f"{count:,}" for count in counts])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("ranks × steps, nT")
    axis.set_ylabel("mean squared norm of the exact gradient")
    axis.set_title("Plain gradient descent, rate ∝ √(n/T)")
    axis.legend()
    return figure
