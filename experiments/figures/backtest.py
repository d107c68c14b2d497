"""The figure of a backtest: steps kept over time, predicted and measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from faultline.experiments.analysis.job_backtest import BAND, Backtest, band_of, kept_by
from faultline.experiments.figures.style import figure_style, save_figure, write_title
from matplotlib import pyplot as plt

_HOUR_S = 3600.0


def draw_backtest(tested: Backtest, path: Path) -> Path:
    """Draw the steps kept in both parts of a log, with the predicted band of the second.

    The file's suffix selects the format.
    """
    first, second, predicted = tested.first, tested.second, tested.predicted
    before_s = np.linspace(0.0, second.start_s - first.start_s, 201)
    done = kept_by(first, before_s)
    after = (before_s[-1] + predicted.times_s) / _HOUR_S
    low, middle, high = band_of(predicted.kept)
    with figure_style():
        figure, axis = plt.subplots(figsize=(9, 4.5))
        measured = np.concatenate([done, done[-1] + kept_by(second, predicted.times_s)])
        axis.fill_between(
            after, done[-1] + low, done[-1] + high, alpha=0.25, lw=0, label=f"predicted, {BAND:.0%}"
        )
        axis.plot(after, done[-1] + middle, ls="--", label="predicted, median")
        hours = np.concatenate([before_s / _HOUR_S, after])
        axis.step(hours, measured, where="post", color="black", label="measured")
        axis.axvline(before_s[-1] / _HOUR_S, color="grey", lw=0.8)
        axis.annotate(
            "fitted | predicted",
            (before_s[-1] / _HOUR_S, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            color="grey",
        )
        axis.set_xlabel("hours since the first start")
        axis.set_ylabel("steps kept")
        axis.set_xlim(0.0, float(after[-1]))
        axis.set_ylim(bottom=0.0)
        axis.legend(loc="upper left")
        kept = measured[-1] - done[-1]
        inside = "inside" if low[-1] <= kept <= high[-1] else "outside"
        write_title(figure, f"The steps of the second part are {inside} the predicted band")
        return save_figure(figure, path)
