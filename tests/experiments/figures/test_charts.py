"""What is drawn: values, intervals, marks and words, read back from the figures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from faultline.experiments.analysis.course import (
    ACTIVITIES,
    activities_of,
    busiest_window,
    shares_over_time,
    steps_of,
)
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.figures.badput import draw_badput
from faultline.experiments.figures.curves import draw_curves
from faultline.experiments.figures.maps import colours_of, draw_best_map
from faultline.experiments.figures.palette import look_of
from faultline.experiments.figures.style import (
    CAUSE_LOOKS,
)
from faultline.experiments.figures.sweep_pictures import usual_figures
from faultline.experiments.figures.timeline import draw_timeline
from faultline.experiments.runs.single_run import run
from faultline.experiments.runs.store import Plan
from faultline.experiments.runs.table import Sweep
from faultline.simulator.accounting.badput import CAUSES
from faultline.simulator.accounting.timeline import Event, EventKind
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy import stats

from tests.examples import examples

RATIO = "time_to_train_ratio"
SCHEME = "strategy.name"
R = "strategy.redundancy"
MTBF = "failures.mtbf_s"
RESTART = "times.restart_s"


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    mpl.use("Agg")
    yield
    plt.close("all")


def sweep_frame(axes: dict[str, list[Any]], seeds: int = 3, seed: int = 0) -> pd.DataFrame:
    """Return a sweep over the product of some axes with numbers drawn at random."""
    random = np.random.default_rng(seed)
    rows = list(itertools.product(*axes.values(), range(seeds)))
    frame = pd.DataFrame(rows, columns=[*axes, "seed"])
    frame["run_id"] = [f"{place}" for place in range(len(frame))]
    frame["status"], frame["error"] = "ok", None
    frame["strategy"] = frame.get(SCHEME, "spare")
    frame["steps"], frame["completed_steps"] = 10, 10
    frame["restarts"] = random.integers(0, 9, len(frame))
    frame["availability"] = random.uniform(0.3, 0.9, len(frame))
    frame["goodput"] = random.uniform(0.3, 0.9, len(frame))
    frame[RATIO] = 2.0 + random.gamma(2.0, size=len(frame))
    frame["time_s"] = frame[RATIO] * 86400.0
    shares = random.dirichlet(np.ones(len(CAUSES)), len(frame))
    for cause, share in zip(CAUSES, shares.T, strict=True):
        frame[f"{cause}_s"] = share * frame["time_s"]
    return frame


NO_PLAN = Plan("1.0.0", {}, "replay", {}, [], [], {})


def sweep_of(frame: pd.DataFrame) -> Sweep:
    return Sweep(Path("nowhere"), frame, NO_PLAN, len(frame))


def words_in(figure: Figure) -> str:
    found = [text.get_text() for text in figure.findobj(mpl.text.Text)]
    return "\n".join(" ".join(text.split()) for text in found if text)


def panels(figure: Figure) -> list[Axes]:
    return [axis for axis in figure.axes if axis.get_visible() and axis.get_label() != "<colorbar>"]


def test_curves_are_means_and_bands_are_student_s_intervals() -> None:
    frame = sweep_frame({SCHEME: ["spare", "checkpoint"], R: [2, 3, 5]})
    (axis,) = panels(draw_curves(frame, R))
    assert len(axis.lines) == len(axis.collections) == 2
    for scheme, line, band in zip(
        ("spare", "checkpoint"), axis.lines, axis.collections, strict=True
    ):
        assert line.get_color() == look_of(scheme).colour
        edges = band.get_paths()[0].vertices
        for r, mean in zip(*line.get_data(), strict=True):
            sample = frame.loc[(frame[SCHEME] == scheme) & (frame[R] == r), RATIO]
            assert mean == pytest.approx(sample.mean())
            low, high = stats.t.interval(0.95, 2, sample.mean(), stats.sem(sample))
            heights = edges[edges[:, 0] == r][:, 1]
            assert (heights.min(), heights.max()) == pytest.approx((low, high))


def test_curves_have_units_names_and_panels() -> None:
    frame = sweep_frame(
        {SCHEME: ["spare", "replication"], MTBF: [300.0, 600.0, 9e4], RESTART: [60.0, 90.0]}
    )
    figure = draw_curves(frame, MTBF, RESTART)
    shown = words_in(figure)
    assert len(panels(figure)) == 2
    for words in ("MTBF of the system\n", "5 min\n", "time-to-train ratio", "restart = 1 min",
                  "restart = 1.5 min", "SPARe + checkpoint",
                  "Mean and 95 % interval over 3 seeds."):  # fmt: skip
        assert words in shown
    assert "Averaged" not in shown
    assert panels(figure)[0].get_xscale() == "log"


def test_axes_that_are_not_drawn_are_named() -> None:
    frame = sweep_frame({SCHEME: ["spare"], R: [2, 3], MTBF: [300.0, 600.0]})
    figure = draw_curves(frame, R)
    assert "Averaged over MTBF of the system." in words_in(figure)
    line = panels(figure)[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), frame.groupby(R)[RATIO].mean())


def test_points_of_jobs_that_completed_no_step_are_not_drawn_but_counted() -> None:
    frame = sweep_frame({SCHEME: ["checkpoint"], R: [1, 2, 3]})
    frame.loc[0, [RATIO, "completed_steps"]] = [math.inf, 0]
    frame.loc[8, ["status", RATIO]] = ["failed", math.nan]
    figure = draw_curves(frame, R)
    assert list(panels(figure)[0].lines[0].get_xdata()) == [2, 3]
    shown = words_in(figure)
    assert "Not drawn: 1 point at which a job completed no step." in shown
    assert "1 run gave up before the last step" in shown
    assert "1 run failed and is left out." in shown


def stripes_of(axis: Axes) -> list[list[list[str]]]:
    """Return the colours of each cell of a map, by rows and columns."""
    pixels = [[to_hex(pixel) for pixel in row] for row in np.asarray(axis.images[0].get_array())]
    return [
        [list(dict.fromkeys(row[first : first + 6])) for first in range(0, len(row), 6)]
        for row in pixels
    ]


def test_the_best_map_shows_the_winner_and_all_that_tie_with_it() -> None:
    schemes, places = ["checkpoint", "replication", "spare"], [1.0, 2.0, 3.0]
    frame = sweep_frame({SCHEME: schemes, R: [2, 3], MTBF: places, RESTART: places}, seeds=8)
    frame.loc[frame[SCHEME] != "replication", RATIO] += 0.3 * frame[MTBF] * frame[RESTART]
    figure = draw_best_map(frame, MTBF, RESTART)
    shown = stripes_of(panels(figure)[0])
    alone = []
    for (row, restart_s), (column, mtbf_s) in itertools.product(enumerate(places), repeat=2):
        cell = frame[(frame[MTBF] == mtbf_s) & (frame[RESTART] == restart_s)]
        means = cell.groupby([SCHEME, R])[RATIO].mean()
        redundancies = {scheme: means[scheme].idxmin() for scheme in schemes}
        samples = {
            scheme: cell[(cell[SCHEME] == scheme) & (cell[R] == r)][RATIO].to_numpy()
            for scheme, r in redundancies.items()
        }
        best = min(schemes, key=lambda scheme: samples[scheme].mean())
        tied = [
            scheme
            for scheme in schemes
            if scheme == best
            or stats.ttest_rel(samples[scheme], samples[best]).confidence_interval(0.95).low <= 0
        ]
        assert shown[row][column] == colours_of(tied)
        alone += tied if len(tied) == 1 else []
    assert 0 < len(alone) < 9
    assert f"soonest in {alone.count('replication')} of 9 settings" in words_in(figure)
    assert f"schemes tie in {9 - len(alone)}" in words_in(figure)


def test_a_job_that_ends_surely_beats_one_that_never_does() -> None:
    frame = sweep_frame({SCHEME: ["checkpoint", "spare"], MTBF: [1.0], RESTART: [1.0]})
    frame.loc[frame[SCHEME] == "checkpoint", RATIO] = math.inf
    axis = panels(draw_best_map(frame, MTBF, RESTART))[0]
    assert stripes_of(axis) == [[colours_of(["spare"])]]


def test_a_map_without_intervals_or_with_empty_cells_says_so() -> None:
    """One seed has no intervals: each cell has the best scheme alone, and the title is unsure."""
    frame = sweep_frame({SCHEME: ["a", "b"], MTBF: [1.0, 2.0], RESTART: [1.0, 2.0]}, seeds=1)
    frame = frame[(frame[MTBF] > 1.0) | (frame[RESTART] > 1.0)]
    figure = draw_best_map(frame, MTBF, RESTART)
    shown = stripes_of(panels(figure)[0])
    assert shown[0][0] == ["#ffffff"]
    assert {len(cell) for row in shown for cell in row} == {1}
    for words in ("looks soonest in ", " of 3 settings", "ties are unknown", "Empty: no result."):
        assert words in words_in(figure)


def test_many_schemes_that_tie_are_one_neutral_entry_of_the_legend() -> None:
    schemes = ["checkpoint", "spare", "ntp", "recycle"]
    frame = sweep_frame({SCHEME: schemes, MTBF: [1.0, 2.0], RESTART: [1.0]})
    frame[RATIO] = 1.0 + frame["seed"]
    figure = draw_best_map(frame, MTBF, RESTART)
    assert stripes_of(panels(figure)[0]) == [[colours_of(schemes)] * 2]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["more than 3 tie"]
    assert "Schemes tie in 2 settings" in words_in(figure)


def bars_of(axis: Axes) -> pd.DataFrame:
    """Return start and length of the bars: a row a cause, a column a point."""
    bars = [[(bar.get_x(), bar.get_width()) for bar in group] for group in axis.containers]
    return pd.DataFrame(bars, index=list(CAUSES))


def test_bars_are_stacked_useful_first_and_fill_the_time() -> None:
    frame = sweep_frame({SCHEME: ["spare", "replication"], R: [2, 3]})
    figure = draw_badput(frame, [SCHEME, R])
    bars = bars_of(panels(figure)[0])
    means = frame.groupby([SCHEME, R], sort=False)[[f"{cause}_s" for cause in CAUSES]].mean()
    for point, (_, seconds) in enumerate(means.iterrows()):
        widths = seconds / seconds.sum() * 100
        np.testing.assert_allclose([width for _, width in bars[point]], widths)
        np.testing.assert_allclose(
            [start for start, _ in bars[point]], widths.cumsum() - widths, atol=1e-9
        )
        useful = widths["compute_s"] + widths["all_reduce_s"]
        assert f"{useful / 100:.0%}" in words_in(figure)
    assert "SPARe + checkpoint, r = 2" in words_in(figure)
    assert "share of the time (%)" in words_in(figure)


def test_groups_faster_than_nominal_shorten_the_compute() -> None:
    frame = sweep_frame({SCHEME: ["spare"]}, seeds=1)
    frame["compute_s"] += frame["waiting_s"] + 100.0
    frame["waiting_s"] = -100.0
    bars = bars_of(panels(draw_badput(frame, [SCHEME]))[0])[0]
    total = frame[[f"{cause}_s" for cause in CAUSES]].sum(axis=1).iloc[0]
    assert bars["waiting"][1] == 0
    assert bars["compute"][1] == pytest.approx((frame["compute_s"].iloc[0] - 100.0) / total * 100)


def test_every_cause_has_a_look_of_its_own() -> None:
    assert tuple(CAUSE_LOOKS) == CAUSES
    assert len({(look.colour, look.hatch) for look in CAUSE_LOOKS.values()}) == len(CAUSES)


HISTORY = [
    Event(10.0, EventKind.STEP, 1, stacks=1),
    Event(12.0, EventKind.CHECKPOINT, 1, (0,)),
    Event(23.0, EventKind.MISSING, 1, (3,)),
    Event(24.0, EventKind.REORDERED, 1, (1, 2), stacks=2),
    Event(30.0, EventKind.STEP, 2, stacks=1),
    Event(45.0, EventKind.STEP, 3, stacks=2),
    Event(60.0, EventKind.MISSING, 3, (1, 2)),
    Event(60.0, EventKind.WIPE_OUT, 3),
    Event(70.0, EventKind.FAILURE_IN_RESTART, 3, (5,)),
    Event(160.0, EventKind.RESTARTED, 3),
    Event(165.0, EventKind.LOADED, 1),
    Event(175.0, EventKind.STEP, 2, stacks=1),
    Event(175.0, EventKind.CHECKPOINT, 2, (0,)),
]


def test_activities_by_hand() -> None:
    found = list(activities_of(HISTORY).itertuples(index=False, name=None))
    assert found == [
        (0.0, 10.0, "training", 1),
        (10.0, 12.0, "checkpoint", 1),
        (12.0, 23.0, "lost", 1),
        (23.0, 24.0, "lost", 1),
        (24.0, 30.0, "lost", 2),
        (30.0, 45.0, "lost", 3),
        (45.0, 60.0, "lost", 3),
        (60.0, 160.0, "restart", 3),
        (160.0, 165.0, "load", 1),
        (165.0, 175.0, "training", 2),
    ]


def test_a_failure_that_is_repaired_is_no_lost_work() -> None:
    found = activities_of(HISTORY[:6])
    assert list(found["activity"]) == ["training", "checkpoint", *["repair"] * 3, "training"]


def test_steps_by_hand() -> None:
    found = list(steps_of(HISTORY).itertuples(index=False, name=None))
    assert found == [(0.0, 10.0, 1), (12.0, 30.0, 1), (30.0, 45.0, 2), (165.0, 175.0, 1)]


def test_shares_by_hand() -> None:
    shares = shares_over_time(activities_of(HISTORY), np.array([0.0, 20.0, 60.0, 175.0]))
    spent = {"training": 0.5, "lost": 0.4, "checkpoint": 0.1}
    assert shares.iloc[0].to_dict() == pytest.approx(dict.fromkeys(ACTIVITIES, 0.0) | spent)
    assert shares.loc[2, "restart"] == pytest.approx(100 / 115)


def simulated(*words: str) -> tuple[list[Event], dict[str, Any]]:
    events: list[Event] = []
    small = ("job.groups=24", "job.steps=40", "strategy.redundancy=3", "failures.mtbf_s=900")
    record = run(load_scenario("spare-study", [*small, *words]), 1, "replay", events.append)
    return events, record


@given(st.sampled_from(["spare", "replication", "checkpoint"]), st.sampled_from([300, 1800]))
@examples(0.06)
def test_activities_fill_the_run_and_agree_with_its_record(scheme: str, restart_s: int) -> None:
    redundancy = 1 if scheme == "checkpoint" else 3
    events, record = simulated(
        f"strategy.name={scheme}", f"strategy.redundancy={redundancy}", "failures.mtbf_s=3000",
        f"times.restart_s={restart_s}.0",
    )  # fmt: skip
    found = activities_of(events)
    np.testing.assert_array_equal(found["start_s"].iloc[1:], found["end_s"].iloc[:-1])
    assert (found["start_s"].iloc[0], found["end_s"].iloc[-1]) == (0.0, record["time_s"])
    assert set(found["activity"]) <= set(ACTIVITIES)
    spent = (found["end_s"] - found["start_s"]).groupby(found["activity"]).sum()
    assert spent.get("restart", 0.0) == pytest.approx(record["restart_s"])
    assert spent.get("checkpoint", 0.0) == pytest.approx(record["checkpoint_s"])
    edges = np.linspace(0, record["time_s"], 17)
    np.testing.assert_allclose(shares_over_time(found, edges).sum(axis=1), 1.0)


def test_the_timeline_shows_what_happened() -> None:
    events, record = simulated("job.steps=400", "times.restart_s=900.0")
    assert record["restarts"] > 0
    figure = draw_timeline(events, "spare, seed 1")
    shown = words_in(figure)
    for words in ("spare, seed 1", "steps completed", "work lost", "restart",
                  "simulated time (", "The window marked above"):  # fmt: skip
        assert words in shown
    window = busiest_window(events, activities_of(events))
    wiped_out_s = next(event.time_s for event in events if event.kind is EventKind.WIPE_OUT)
    assert window.start_s < wiped_out_s < window.end_s


def test_usual_curves_show_each_scheme_at_its_best() -> None:
    frame = sweep_frame({SCHEME: ["spare", "replication"], R: [2, 3, 4], MTBF: [300.0, 600.0]})
    pictures = {picture.name: picture.figure for picture in usual_figures(sweep_of(frame))}
    figure = pictures["ratio-over-failures-mtbf-s"]
    best = frame.groupby([SCHEME, MTBF, R])[RATIO].mean().groupby([SCHEME, MTBF]).min()
    np.testing.assert_allclose(panels(figure)[0].lines[0].get_ydata(), best["spare"])
    assert "Each point at the redundancy r with the best time-to-train ratio." in words_in(figure)


@pytest.mark.parametrize(
    ("axes", "names"),
    [
        ({}, {"badput"}),
        ({R: [2, 3]}, {"ratio-over-strategy-redundancy", "badput"}),
        (
            {SCHEME: ["spare", "new"], MTBF: [1.0, 2.0], RESTART: [3.0, 4.0]},
            {
                "ratio-over-failures-mtbf-s", "ratio-over-times-restart-s",
                "best-scheme-map", "badput",
            },
        ),
        ],
)  # fmt: skip
def test_the_axes_decide_the_pictures(axes: dict[str, list[Any]], names: set[str]) -> None:
    pictures = usual_figures(sweep_of(sweep_frame(axes)))
    assert {picture.name for picture in pictures} == names
    assert all(picture.title for picture in pictures)
