"""Figures of the head-to-head: maps of the best scheme, and the times of all candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.regions import MapAxes, choice_legend, draw_choices
from faultline.experiments.figures.style import (
    legend_below,
    mark,
    name_rows,
    ticks_at,
    write_notes,
    write_title,
)
from faultline.experiments.studies.head_to_head.maps import IDLE_POWER, JOBS, METRICS, WORTH
from faultline.experiments.studies.head_to_head.setting import FACTS, SETTINGS, modelled_restart_s
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_MTBF = "mean time between failures of the job"
_MTBF_TICKS: dict[float, str] = {
    300: "5 min",
    1800: "30 min",
    7200: "2 h",
    28_800: "8 h",
    86_400: "1 d",
}
_GPUS_TICKS: dict[float, str] = {
    1024: "1k",
    4096: "4k",
    16_384: "16k",
    65_536: "64k",
    262_144: "256k",
}
_SHARE_TICKS = {share / 100: f"{share} %" for share in range(0, 101, 20)}
_SHARE = "failures of a whole scale-up domain"
_AXES = {
    "restart": MapAxes(
        _MTBF, "time of a restart", _MTBF_TICKS,
        {10: "10 s", 60: "1 min", 300: "5 min", 900: "15 min", 3600: "1 h", 7200: "2 h"}, True,
    ),
    "stalls": MapAxes(
        _MTBF, "time of every recovery", _MTBF_TICKS,
        {10: "10 s", 30: "30 s", 60: "1 min", 180: "3 min", 300: "5 min", 900: "15 min"}, True,
    ),
    "queue": MapAxes("GPUs, machines from a queue", _SHARE, _GPUS_TICKS, _SHARE_TICKS, False),
    "standbys": MapAxes("GPUs, machines stand by", _SHARE, _GPUS_TICKS, _SHARE_TICKS, False),
}  # fmt: skip
_TITLES_OF_MAPS = {
    "restart": "restarts by their time",
    "stalls": "one price for every recovery",
    "queue": "from 1k to 600k GPUs, queue",
    "standbys": "from 1k to 600k GPUs, standbys",
}
_KEPT = {"reft": "REFT", "gemini": "Gemini", "just-in-time": "just in time"}
_APPROXIMATE = "* Trains on approximate gradients while a node works for two, which is not charged."
_ABOUT = (
    "The candidate of the least expected cost in each cell, over the priors of recoveries. "
    "Failures are memoryless; hardware is repaired in 3 to 5 days, or its place taken by the queue "
    "or a standby. A candidate that does not fit a GPU's memory is not drawn.",
)

_ORDER = (
    "checkpoint", "replication", "spare", "dp-drop", "ntp", "ntp-pw", "mecefo", "bamboo", "oobleck",
    "recycle", "varuna", "warm-standby", "replica-drop",
)  # fmt: skip


def name_of(scheme: str) -> str:
    """Return a scheme's title, with a star if its gradients are approximate."""
    return title_of(scheme, star=True)


def order_of(scheme: str) -> tuple[int, str]:
    """Return the sort key of a scheme: shipped schemes in their order, then all others."""
    return (_ORDER.index(scheme) if scheme in _ORDER else len(_ORDER), scheme)


def draw_maps(cells: pd.DataFrame, errors: pd.DataFrame) -> Figure:
    """Draw all maps of all jobs by time, a row of panels per job."""
    panels = [
        [(job, name, "ratio") for name in of_job["map"].unique()]
        for job, of_job in cells.groupby("job", sort=False)
    ]
    names = list(cells["map"].unique())
    figure = _grid(cells, panels, [_TITLES_OF_MAPS[name] for name in names], list(JOBS.values()))
    write_title(figure, "Which scheme trains soonest?")
    write_notes(figure, [*_ABOUT, _error_text(cells, errors)])
    return figure


def draw_costs(cells: pd.DataFrame) -> Figure:
    """Draw the maps of the first job by each cost, a row of panels per cost."""
    job, maps = cells["job"].iloc[0], list(cells["map"].unique())
    panels = [[(job, name, metric) for name in maps] for metric in METRICS]
    titles = [_TITLES_OF_MAPS[name] for name in maps]
    figure = _grid(cells, panels, titles, list(METRICS.values()))
    write_title(figure, f"Which scheme costs least? ({JOBS[job]})")
    power = f"Energy: a GPU that waits draws {IDLE_POWER:.0%} of its power (assumed)."
    low, high = WORTH
    worth = f"Loss: {low:.0%} to {high:.0%} of a missing part of a batch is lost (a prior)."
    write_notes(figure, [*_ABOUT, power, worth])
    return figure


def _grid(
    cells: pd.DataFrame,
    panels: Sequence[Sequence[tuple[str, str, str]]],
    titles: Sequence[str],
    sides: Sequence[str],
) -> Figure:
    rows, columns = len(panels), len(titles)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4.3 * columns, 3.7 * rows + 1.2), squeeze=False
    )
    for unused in (
        panel for row, of_row in enumerate(panels) for panel in axes[row][len(of_row) :]
    ):
        unused.set_visible(False)
    for row, (side, of_row) in enumerate(zip(sides, panels, strict=False)):
        for column, (job, name, metric) in enumerate(of_row):
            panel = axes[row][column]
            of_map = cells[(cells["job"] == job) & (cells["map"] == name)]
            axis = _axis_of(job, name)
            draw_choices(panel, *_choices(of_map, metric), axis)
            if row + 1 < rows and column < len(panels[row + 1]):
                panel.set_xlabel("")
            if row == 0:
                panel.set_title(titles[column])
            if column == 0:
                panel.set_ylabel(f"{side}\n{axis.y}")
    choice_legend(figure)
    return figure


def _axis_of(job: str, name: str) -> MapAxes:
    """Return the axes of a map, with a landmark at the job's own rate and modelled restart."""
    axis = _AXES[name]
    if name != "restart":
        return axis
    scenario = load_scenario(job)
    assert scenario.failures.mtbf_s is not None
    assert scenario.job.gpus is not None
    restart_s = modelled_restart_s(scenario.job.gpus)
    return replace(axis, landmarks=((scenario.failures.mtbf_s, restart_s, "today, queue"),))


def _choices(cells: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, dict[str, tuple[str, str]]]:
    """Return the schemes that a metric chooses in the cells of a map, and their looks."""
    best, probability = (metric.replace("ratio", name) for name in ("best", "probability"))
    schemes, percent = cells[best].str.partition("/")[0], 100.0 * cells[probability]
    looks = {
        scheme: (look_of(scheme).colour, name_of(scheme))
        for scheme in sorted(schemes.unique(), key=order_of)
    }
    return cells[["x", "y"]].assign(best=schemes, percent=percent), looks


def _error_text(cells: pd.DataFrame, errors: pd.DataFrame) -> str:
    """Return a sentence on the errors of the emulators of all chosen candidates."""
    chosen = cells[["job", "map", "best"]].drop_duplicates()
    of_chosen = errors.rename(columns={"candidate": "best"}).merge(chosen)
    median, most = (
        f"{of_chosen[name].min():.1%} to {of_chosen[name].max():.1%}"
        for name in ("median", "percentile_95")
    )
    return (
        "Error of the emulators of these candidates at a simulation that they have not seen: "
        f"median {median}, 95 % of errors below {most}."
    )


def map_sentences(cells: pd.DataFrame) -> list[str]:
    """Return a sentence per job: which schemes train soonest on its maps."""
    return [
        f"{JOBS.get(str(job), job)}: least expected time on "
        + "; ".join(
            f"{_TITLES_OF_MAPS[str(name)]}: {_shares(of_map['best'])}"
            for name, of_map in of_job.groupby("map", sort=False)
        )
        + "."
        for job, of_job in cells.groupby("job", sort=False)
    ]


def _shares(best: pd.Series) -> str:
    """Return the chosen schemes with their shares of the cells."""
    shares = best.str.partition("/")[0].value_counts(normalize=True)
    return ", ".join(f"{name_of(str(name))} {share:.0%}" for name, share in shares.items())


def draw_settings(table: pd.DataFrame) -> Figure:
    """Draw each candidate's time to train with its 95 % interval, a panel per setting.

    All panels order the candidates by their mean ratio over the settings.
    """
    shown = table[(table["plane"] == "settings") & (table["seeds"] > 0)]
    shown = shown[np.isfinite(shown["ratio"])]
    logarithms = np.log(shown["ratio"]).groupby([shown["scheme"], shown["protection"]]).mean()
    order = {pair: place for place, pair in enumerate(logarithms.sort_values().index)}
    figure, panels = plt.subplots(
        1, len(SETTINGS), figsize=(9.4, 0.36 * len(order) + 1.8), sharey=True
    )
    for place, (panel, (setting, mtbf_s)) in enumerate(zip(panels, SETTINGS.items(), strict=True)):
        _dots(panel, shown[shown["x"] == place], order)
        panel.set_title(f"{setting}: a failure\nevery {_time(mtbf_s)}")
        panel.set_xlabel("time to train (log)")
    names = [f"{name_of(scheme)} · {_KEPT.get(kept, kept)}" for scheme, kept in order]
    name_rows(panels[0], range(len(order)), names)
    handles = [
        mark(f"machines: {fact}", linestyle="none", **look)
        for fact, look in zip(FACTS, _FACT_LOOKS, strict=True)
    ]
    legend_below(figure, handles, 2)
    soonest = set(shown.loc[shown.groupby(["x", "y"])["ratio"].idxmin(), "scheme"])
    title = "Time to train, in the order of the mean over all settings"
    if len(soonest) == 1:
        title = f"{name_of(soonest.pop())} trains soonest in every setting"
    write_title(figure, title)
    standby = shown[(shown["y"] == 1) & (shown["spare_gpus"] > 0)]
    extra = (standby["gpu_ratio"] / standby["ratio"] - 1).groupby(standby["x"]).max()
    printed = ", ".join(f"{extra[place]:.1%} ({name})" for place, name in enumerate(SETTINGS)
                     if place in extra)  # fmt: skip
    notes = [f"Standbys add up to these GPU-hours: {printed}."] if printed else []
    about = "Time over that of a run without failures, with 95 % intervals."
    write_notes(figure, [about, *notes, _APPROXIMATE])
    return figure


_FACT_LOOKS: tuple[Mapping[str, Any], ...] = (
    {"marker": "o"},
    {"marker": "s", "markerfacecolor": "white"},
)
"""Looks of marks by the source of machines, in the order of `FACTS`."""


def _dots(panel: Axes, candidates: pd.DataFrame, order: Mapping[tuple[str, str], int]) -> None:
    for row in candidates.itertuples(index=False):
        # A mark per source of machines, one above the other.
        place = order[row.scheme, row.protection] + (0.18 if row.y else -0.18)
        ends = [[row.ratio - row.ratio_low], [row.ratio_high - row.ratio]]
        look = {"color": look_of(row.scheme).colour, **_FACT_LOOKS[int(row.y)]}
        panel.errorbar(row.ratio, place, xerr=ends, markersize=5, elinewidth=1.2, **look)
    panel.set_xscale("log")
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x")
    panel.grid(axis="y", visible=False)
    # Every second row is shaded, to lead the eye from its name.
    for place in range(0, len(order), 2):
        panel.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
    far = candidates["ratio"].max() > 4.0
    ticks_at(panel.xaxis, [1, 2, 5, 10] if far else [1, 1.2, 1.5, 2, 3])
    panel.set_xlim(0.97, 1.06 * candidates["ratio_high"].max())


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 3600 else f"{seconds / 60:.3g} min"
