"""Predicted lengths of training steps, compared with published ones.

SimGrid runs a step of every row, on a representative part of the cluster. The time follows from
published speeds of kernels and links and from one number per software: the efficiency of its
computations, fitted on one row at the start. Every other row is a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import nan
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from faultline.experiments.figures.style import (
    BarLook,
    legend_below,
    mark,
    name_rows,
    stack_bars,
    write_title,
)
from faultline.experiments.studies.base import Headline, Results, Row, Study, errors_table
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.stage import Stage
from faultline.experiments.studies.step_time.accuracy import MOST, error_of_most
from faultline.experiments.studies.step_time.predicting import (
    GPUS,
    Group,
    Predicted,
    bus_bandwidths,
    simulate,
)
from faultline.experiments.studies.step_time.published import Case, Unit, cases
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

PARTS = {
    "compute_s": "compute",
    "tensor_s": "tensor parallel",
    "context_s": "context parallel",
    "pipeline_s": "sends of stages",
    "gather_s": "gathers",
    "bubble_s": "bubble",
    "data_parallel_s": "data parallel",
    "optimizer_s": "optimizer",
}
"""Columns of a step's time, and their labels."""

QUANTITIES = {
    "s": "step time",
    "TFLOP/s": "model FLOP rate a GPU",
    "%": "MFU",
    "tokens/s": "training rate a GPU",
}

SECTIONS = {row["section"]: row for row in read_rows("step_time", "sections")}
"""Sources of the rows: name, and the targets for errors, mean and worst."""

_DEEP = 16
"""Rows with more pipeline stages are simulated alone: each takes as long as many others."""

# Useful time in blue, communication in green and warm colours, waiting in grey.
_LOOKS = {
    "compute_s": BarLook("#0072B2"),
    "tensor_s": BarLook("#4DB993"),
    "context_s": BarLook("#B5E6D6", "////"),
    "pipeline_s": BarLook("#F0E442"),
    "gather_s": BarLook("#E69F00", "////"),
    "bubble_s": BarLook("#CFCFCF"),
    "data_parallel_s": BarLook("#B04E00"),
    "optimizer_s": BarLook("#CC79A7", "...."),
}
_FITTED: Mapping[str, Any] = {"marker": "D", "markerfacecolor": "white"}
_FAMILIES = {"A9": ("^", "long context"), "A10": ("s", "experts")}
_NOTED = 0.12
"""Errors above which a row is named in the figure."""
_COLOURS = {"A100": "#0072B2", "H100": "#D55E00", "GB200": "#009E73"}


def predictions(cases: Sequence[Case], simulated_rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per case and unit: the published and the predicted value, and its parts.

    `low` and `high` are the extremes over legal parts of a stage and sizes of a micro-batch, if the
    source states none. `constant` is the error if each GPU did as many model FLOP per second as on
    the fitted row.
    """
    rows = []
    by_label = {case.label: case for case in cases}
    for case in cases:
        choices = simulated_rows[simulated_rows["case"] == case.label]
        (stated,) = choices[choices.stated].to_dict("records")
        for unit, value in case.outputs:
            values = [case.in_unit(step_s, unit) for step_s in choices.step_s]
            simulated = case.in_unit(stated["step_s"], unit)
            published = nan if value is None else value
            rows.append(
                {
                    "section": case.section,
                    "case": case.label,
                    "software": case.software.title,
                    "fitted_on": case.software.fitted_on,
                    "fitted": case.is_fitted,
                    "gpus": case.gpus,
                    "unit": unit,
                    "published": published,
                    "simulated": simulated,
                    "low": min(values),
                    "high": max(values),
                    "error": simulated / published - 1.0,
                    "constant": at_constant_rate(case, by_label, unit) / published - 1.0,
                    "efficiency": stated["efficiency"],
                    "parts_per_stage": stated["parts"],
                    "micro_batch": stated["micro_batch"],
                    "step_s": stated["step_s"],
                    **{part: stated[part] for part in PARTS},
                }
            )
    return pd.DataFrame(rows)


def at_constant_rate(case: Case, by_label: Mapping[str, Case], unit: Unit) -> float:
    """Return the value of a case at the model FLOP per second and GPU of its fitted row."""
    fitted = by_label[case.software.fitted_on]
    fitted_unit, value = fitted.outputs[0]
    assert value is not None
    per_s = fitted.model_flop() / fitted.gpus / fitted.in_unit(value, fitted_unit)
    return case.in_unit(case.model_flop() / case.gpus / per_s, unit)


def errors(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean and the worst error of each section, in percent of the published value."""
    rows = []
    for section, judged_rows in judged(table).groupby("section", sort=False):
        goal, worst = SECTIONS[str(section)].get, judged_rows.loc[judged_rows.error.abs().idxmax()]
        mean, most = 100.0 * judged_rows.error.abs().mean(), 100.0 * abs(worst.error)
        constant = 100.0 * judged_rows.constant.abs().mean()
        ends = (mean, goal("mean_goal"), most, goal("worst_goal"), worst.case)
        rows.append((section, len(judged_rows), *ends, constant, mean < constant))
    columns = ["section", "rows", "mean", "mean_goal", "worst", "worst_goal", "worst_case"]
    columns += ["constant", "better"]
    return pd.DataFrame(rows, columns=columns).astype({"mean_goal": float, "worst_goal": float})


def judged(table: pd.DataFrame) -> pd.DataFrame:
    """Return the judged rows: published and not fitted, each in its first unit."""
    return table[~table.fitted & table.error.notna()].drop_duplicates("case")


def draw_agreement(table: pd.DataFrame) -> Figure:
    """Draw the error of every published row, by section."""
    published = table[table.error.notna()].drop_duplicates("case")
    # In seconds: a rate that is too high is a step time that is too short.
    error = published.error
    too_long = error.where(published.unit == "s", 1.0 / (1.0 + error) - 1.0)
    published = published.assign(too_long=too_long)
    sections = list(published.section.unique())
    figure, axis = plt.subplots(figsize=(10.6, 4.6))
    axis.axhspan(-0.1, 0.1, color="#EFEFEF", zorder=0)
    axis.axhline(0.0, color="#555555", linewidth=1.0, zorder=1)
    for place, section in enumerate(sections):
        chosen = published[published.section == section]
        spread = np.linspace(-0.3, 0.3, len(chosen)) if len(chosen) > 1 else np.zeros(1)
        for offset, case in zip(spread, chosen.itertuples(), strict=True):
            colour = next(_COLOURS[gpu] for gpu in _COLOURS if gpu in case.software)
            look = _FITTED if case.fitted else {"marker": "o"}
            axis.plot(place + offset, case.too_long, color=colour, markersize=7, **look)
    axis.set_xticks(range(len(sections)), [section_name(section, "\n") for section in sections])
    axis.tick_params(axis="x", labelsize="small")
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.set_ylabel("predicted step time against published")
    gpus = [mark(gpu, colour, marker="o", linestyle="") for gpu, colour in _COLOURS.items()]
    legend_below(figure, [*gpus, mark("fitted on", linestyle="", **_FITTED)])
    predicted = judged(table).error.abs()
    met = f"{(predicted <= 0.1).sum()} of {len(predicted)} predicted step times"
    write_title(figure, f"{met} are within 10 % of the published ones")
    return figure


def draw_one_to_one(table: pd.DataFrame) -> Figure:
    """Draw the simulated step of every published row over the published one."""
    published = table[table.error.notna()].drop_duplicates("case")
    ratio = published.simulated / published.published
    published_s = published.step_s * ratio.where(published.unit != "s", 1.0 / ratio)
    published = published.assign(published_s=published_s)
    figure, axis = plt.subplots(figsize=(6.6, 6.0))
    ends = np.array([0.7 * published_s.min(), 1.4 * published_s.max()])
    axis.fill_between(ends, 0.9 * ends, 1.1 * ends, color="#E3E3E3", linewidth=0, zorder=0)
    axis.plot(ends, ends, color="#555555", linewidth=1.0, zorder=1)
    for case in published.itertuples():
        colour = next(_COLOURS[gpu] for gpu in _COLOURS if gpu in case.software)
        look = _FITTED if case.fitted else {"marker": _FAMILIES.get(case.section, ("o", ""))[0]}
        axis.plot(case.published_s, case.step_s, color=colour, markersize=6, alpha=0.85, **look)
        too_long = case.step_s / case.published_s - 1.0
        if abs(too_long) > _NOTED:
            above = too_long > 0
            axis.annotate(
                f"{_row_name(str(case.case), int(case.gpus))}, {too_long:+.0%}",
                (case.published_s, case.step_s),
                xytext=(-8, 6) if above else (8, -6),
                textcoords="offset points",
                ha="right" if above else "left",
                va="bottom" if above else "top",
                fontsize=8,
            )
    axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    axis.set_xlabel("published step time, s")
    axis.set_ylabel("simulated step time, s")
    entries = [mark(gpu, colour, marker="o", linestyle="") for gpu, colour in _COLOURS.items()]
    entries += [mark(name, marker=shape, linestyle="") for shape, name in _FAMILIES.values()]
    entries += [mark("fitted on", linestyle="", **_FITTED), mark("equal; band: 10 %")]
    legend_below(figure, entries, 4)
    most = error_of_most(judged(table).error)
    share = f"{100 * MOST:.0f} % of the predicted steps"
    write_title(figure, f"{share} are within {100 * most:.1f} % of the published ones")
    return figure


def draw_parts(table: pd.DataFrame) -> Figure:
    """Draw the parts of the step of every published row, by source."""
    chosen = table[table.published.notna()].drop_duplicates("case")
    chosen = chosen.assign(source=chosen.section.map(section_name))
    parts = {part: name for part, name in PARTS.items() if chosen[part].any()}
    # Each source is in one column; both columns have equally many bars. Its name takes a row too.
    lengths = chosen.groupby("source", sort=False).size() + 1
    above = lengths.cumsum() - lengths / 2 < lengths.sum() / 2
    halves = [names for names in (lengths.index[above], lengths.index[~above]) if len(names)]
    tallest = max(lengths[names].sum() for names in halves)
    figure, axes = plt.subplots(1, len(halves), figsize=(9.4, 0.24 * tallest + 1.6), squeeze=False)
    for axis, names in zip(axes[0], halves, strict=True):
        labels = dict[float, str]()
        for name in names:
            rows, first = chosen[chosen.source == name], len(labels) + 1
            labels[first - 1] = name
            places = np.arange(first, first + len(rows))
            shares = rows[list(parts)].div(rows.step_s, axis=0).rename(columns=parts)
            stack_bars(axis, places, shares, (_LOOKS[part] for part in parts))
            labels |= dict(zip(places, map(_row_name, rows["case"], rows.gpus), strict=True))
        name_rows(axis, list(labels), list(labels.values()))
        axis.set_ylim(tallest - 0.4, -0.6)
        for text in axis.get_yticklabels():
            text.set_fontweight("bold" if text.get_text() in set(names) else "normal")
            text.set_fontsize(8.5)
        axis.set_xlim(0, 1)
        axis.set_xlabel("share of the step")
        axis.xaxis.set_major_formatter(PercentFormatter(1))
    one_of_each = dict(zip(*axes[0][0].get_legend_handles_labels()[::-1], strict=True))
    legend_below(figure, list(one_of_each.values()), 4)
    write_title(figure, "Computation is most of nearly every step")
    return figure


def section_name(section: str, between: str = " ") -> str:
    """Return the display name of a section's source."""
    name = str(SECTIONS[section]["name"])
    return name.replace("-|", f"-{between.strip(' ')}").replace("|", between)


def _row_name(case: str, gpus: int) -> str:
    """Return a row's own part of its label, without the code of its section, and its GPUs."""
    # Labels that count replicas state no GPUs.
    words = case.split()[1:]
    if "replica" not in case and str(gpus) in words:
        words.remove(str(gpus))
    return ", ".join(filter(None, [" ".join(words), f"{gpus:,} GPU{'s' * (gpus > 1)}"]))


def _by_size(case: Case) -> tuple[str, int]:
    return case.software.fitted_on, case.layout.pipeline


class StepTimeStudy(Study):
    """Step times of published runs, from kernels, links and one efficiency per software."""

    default_seeds = 1
    scaled_by: ClassVar = frozenset()
    within = 0.1
    charts: ClassVar = {
        "step-time.png": (draw_agreement, "predictions"),
        "step-time-one-to-one.png": (draw_one_to_one, "predictions"),
        "step-time-parts.png": (draw_parts, "predictions"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Fit every software on its row, and run all others."""
        every = cases()
        fitted = {case.label: case for case in every if case.is_fitted}
        shallow = [case for case in every if case.layout.pipeline <= _DEEP]
        groups = [
            Group(tuple(other for other in shallow if other.software.fitted_on == label), case)
            for label, case in fitted.items()
        ]
        fits: dict[str, Predicted] = dict(
            zip(fitted, stage.calls("rows of a software", simulate, groups), strict=True)
        )
        by_size = sorted((case for case in every if case.layout.pipeline > _DEEP), key=_by_size)
        deep = [
            Group(tuple(alike), fitted[label], fits[label].efficiencies)
            for (label, _), alike in groupby(by_size, key=_by_size)
        ]
        results = [*fits.values(), *stage.calls("deep pipelines", simulate, deep)]
        rings = stage.calls("collectives", bus_bandwidths, GPUS)
        rows = predictions(every, pd.concat([result.rows for result in results]))
        return {"predictions": rows, "errors": errors(rows), "collectives": pd.concat(rings)}

    def row_tables(self, results: Results) -> Results:
        """Return the results, with the quantity of each prediction; fits are calibrated."""
        table = results["predictions"]
        is_calibrated = table.fitted & table.published.notna()
        kinds = is_calibrated.map({True: "calibrated", False: ""})
        predictions = table.assign(quantity=table.unit.map(QUANTITIES), kind=kinds)
        return {**results, "predictions": predictions}

    def headline(self, results: Results, rows: Sequence[Row]) -> Headline:
        """Return the errors of the predictions, by source."""
        table = judged(results["predictions"])
        most = error_of_most(table.error)
        yield (
            f"{len(table)} published steps are predicted with a mean error of "
            f"{table.error.abs().mean():.1%}; {MOST:.0%} of them are within {most:.1%}."
        )
        named = table.assign(source=table.section.map(section_name))
        yield errors_table(
            f"Predicted steps within {self.within:.0%}", named, "source", "error", self.within
        )
