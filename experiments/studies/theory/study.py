"""Closed forms of Lee et al. 2026 (SPARe, arXiv 2603.00357), Monte Carlo and the simulator.

Mean failures masked, work of a step, time to a wipe-out, best redundancy: the paper's forms and the
forms derived here, compared with recorded random failures and simulated jobs.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
from faultline.experiments.figures.style import write_notes, write_title
from faultline.experiments.studies.base import Results, Study
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.stage import Stage
from faultline.experiments.studies.theory import comparisons
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

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
    """Draw the relative errors of SPARe's closed forms by N: a mark per redundancy."""
    spare = counts[counts.scheme == "spare"]
    noise = 2 * float((spare.standard_error / spare.simulated).max())
    figure, axes = plt.subplots(1, 2, figsize=(9.4, 4.6), sharey=True)
    sizes = sorted(spare.groups.unique())
    for axis, (title, forms) in zip(axes, _ERROR_PANELS.items(), strict=True):
        axis.axhspan(-noise, noise, color="#e4e4e4", zorder=0)
        # The paper's marks are left of ours; within each, redundancy grows to the right.
        looks = zip(forms.items(), (("#D55E00", "D"), ("#0072B2", "o")), strict=True)
        for side, ((column, label), (colour, marker)) in enumerate(looks):
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


class TheoryStudy(Study):
    """The closed forms compared with simulation, cell by cell.

    A `published` value is the paper's closed form or stated accuracy.
    """

    charts: ClassVar = {"errors.png": (draw_errors, "counts")}
    headline_title = "Largest relative error of closed forms"
    headline_rows: ClassVar = {
        "failures to a wipe-out, the paper's form": ("largest_plain_error_middle", "*", "*"),
        "failures to a wipe-out, the form used here": ("largest_closed_error", "*", "*"),
        "mean stacks of simulated jobs": ("largest_stacks_error", "*", "*"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Run jobs, and compare the closed forms with all samples."""
        sampled = {name: read_rows("theory", name) for name in ("counts", "work", "times")}
        of_counts = stage.calls(
            "failures to a wipe-out", comparisons.compare_counts, sampled["counts"]
        )
        works = stage.calls("patch compute", comparisons.compare_work, sampled["work"])
        chosen = stage.pick(comparisons.published_jobs(), comparisons.all_jobs())
        runs = comparisons.compare_jobs(stage, chosen)
        of_times = stage.calls("times", comparisons.compare_times, sampled["times"])
        with stage.step("best redundancy"):
            best = comparisons.compare_redundancies()
        counts, jobs = comparisons.with_errors(of_counts), comparisons.by_cell(runs)
        return {
            "accuracy": comparisons.largest_errors(counts, jobs),
            "counts": counts,
            "work": pd.DataFrame(works),
            "runs": runs,
            "jobs": jobs,
            "times": comparisons.times_with_intervals(of_times),
            "redundancies": best,
        }
