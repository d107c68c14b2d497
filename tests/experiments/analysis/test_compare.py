"""Paired comparisons: against scipy and by hand, and as ``faultline compare`` prints them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.analysis.comparison import compare, make_report
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.analysis.selection import (
    at_best,
    averaged_axes,
    caveats,
    machines_notes,
    varied_axes,
    without_other_knobs,
)
from faultline.experiments.config.errors import UserError
from faultline.experiments.report.paired_tables import section_table
from faultline.experiments.runs.table import read_sweep
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.examples import examples
from tests.experiments.command_line import Cli

COMMAND = ("compare",)
RATIO = "time_to_train_ratio"
SCHEME = "strategy.name"
R = "strategy.redundancy"
MTBF = "failures.mtbf_s"

GRID = """
scenario = "spare-study"
seeds = 3
[set]
"job.groups" = 24
"job.steps" = 20
[grid]
"strategy.name" = ["replication", "spare"]
"strategy.redundancy" = [2, 3]
"failures.mtbf_s" = [1200.0, 7200.0]
"""


def sweep_frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return runs as a sweep has them; each is finished unless it states otherwise."""
    usual = {"status": "ok", "error": None, "steps": 10, "completed_steps": 10}
    return pd.DataFrame([usual | {"run_id": f"{place}"} | row for place, row in enumerate(rows)])


def sweep_of(ratios: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Return a sweep of the ratios of each scheme by seed; an infinite one gave up."""
    return sweep_frame(
        [
            {SCHEME: scheme, "seed": seed, RATIO: ratio, "completed_steps": 10 * isfinite(ratio)}
            for scheme, mine in ratios.items()
            for seed, ratio in enumerate(mine)
        ]
    )


def random_sweep(seed: int = 1, seeds: int = 4) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    cells = itertools.product(["a", "b", "c"], [300.0, 600.0], [2, 3, 4], range(seeds))
    return sweep_frame(
        [
            {SCHEME: scheme, MTBF: mtbf_s, R: r, "seed": seed, RATIO: 2 + random.gamma(2.0)}
            for scheme, mtbf_s, r, seed in cells
        ]
    )


def values_of(frame: pd.DataFrame, **setting: Any) -> np.ndarray:
    """Return the ratios of one setting in the order of the seeds."""
    names = {"scheme": SCHEME, "mtbf_s": MTBF, "r": R}
    for name, value in setting.items():
        frame = frame[frame[names[name]] == value]
    ratios: np.ndarray = frame.sort_values("seed")[RATIO].to_numpy()
    return ratios


def test_three_pairs_by_hand() -> None:
    """Differences 2, 3, 4: mean 3, deviation 1, and t(2) = 4.302653 makes 3 ± 2.484138."""
    frame = sweep_of({"base": (1.0, 2.0, 3.0), "ours": (3.0, 5.0, 7.0)})
    table = compare(frame, SCHEME, "base", [], RATIO)
    assert len(table) == 1
    row = table.iloc[0]
    assert (row[SCHEME], row["mean"], row["baseline_mean"]) == ("ours", 5.0, 2.0)
    assert (row["difference"], row["change"], row["pairs"]) == (3.0, 1.5, 3)
    half = 4.302652729749464 / math.sqrt(3)
    assert row["low"] == pytest.approx(3 - half, rel=1e-12)
    assert row["high"] == pytest.approx(3 + half, rel=1e-12)


def test_every_row_is_what_scipy_computes() -> None:
    frame = random_sweep()
    table = compare(frame, SCHEME, "b", [MTBF, R], RATIO)
    assert len(table) == 2 * 2 * 3
    for row in table.to_dict(orient="records"):
        ours = values_of(frame, scheme=row[SCHEME], mtbf_s=row[MTBF], r=row[R])
        theirs = values_of(frame, scheme="b", mtbf_s=row[MTBF], r=row[R])
        interval = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
        assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high), rel=1e-9)
        assert row["change"] == pytest.approx(ours.mean() / theirs.mean() - 1, rel=1e-9)


def test_over_all_settings_a_seed_is_one_pair() -> None:
    frame = random_sweep()
    table = compare(frame, SCHEME, "a", [MTBF, R], RATIO, over_all=True).set_index(SCHEME)
    means = frame.groupby([SCHEME, "seed"])[RATIO].mean()
    for scheme in ("b", "c"):
        interval = stats.ttest_rel(means[scheme], means["a"]).confidence_interval(0.95)
        row = table.loc[scheme]
        assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high), rel=1e-9)
        assert (row["pairs"], row["settings"]) == (4, 6)


def test_over_all_leaves_out_settings_that_lack_a_seed() -> None:
    frame = random_sweep()
    lost = (frame[SCHEME] == "c") & (frame[MTBF] == 300.0) & (frame[R] == 2) & (frame["seed"] == 1)
    table = compare(frame[~lost], SCHEME, "a", [MTBF, R], RATIO, over_all=True).set_index(SCHEME)
    assert dict(table["settings"]) == {"b": 6, "c": 5}
    whole = frame[(frame[MTBF] != 300.0) | (frame[R] != 2)]
    expected = compare(whole, SCHEME, "a", [MTBF, R], RATIO, over_all=True).set_index(SCHEME)
    assert table.loc["c", "difference"] == pytest.approx(expected.loc["c", "difference"])


def test_an_infinite_ratio_stays_infinite() -> None:
    frame = sweep_of({"base": (1.0, 2.0), "gone": (math.inf, 4.0), "ours": (2.0, 4.0)})
    table = compare(frame, SCHEME, "base", [], RATIO).set_index(SCHEME)
    assert table.loc["gone", "difference"] == math.inf
    assert table.loc["gone", ["low", "high", "change"]].isna().all()
    assert (table.loc["gone", "gave_up"], table.loc["gone", "baseline_gave_up"]) == (1, 0)
    assert table.loc["ours", "change"] == pytest.approx(1.0)
    against_it = compare(frame, SCHEME, "gone", [], RATIO).set_index(SCHEME)
    assert against_it.loc["ours", "difference"] == -math.inf
    assert math.isnan(against_it.loc["ours", "change"])
    assert against_it.loc["ours", "baseline_gave_up"] == 1


@pytest.mark.parametrize("nothing", [None, math.nan, 1])
def test_a_knob_that_the_other_scheme_does_not_share_is_compared_in_all_combinations(
    nothing: float | None,
) -> None:
    rows = [
        {SCHEME: "spare", MTBF: mtbf_s, R: r, "seed": seed, RATIO: 1.0 * r + seed}
        for mtbf_s in (300.0, 600.0)
        for r in (2, 3)
        for seed in range(2)
    ]
    rows += [
        {SCHEME: "checkpoint", MTBF: mtbf_s, R: nothing, "seed": seed, RATIO: 10.0 + seed}
        for mtbf_s in (300.0, 600.0)
        for seed in range(2)
    ]
    table = compare(sweep_frame(rows), SCHEME, "checkpoint", [MTBF, R], RATIO)
    found = set(zip(table[MTBF], table[R], table["difference"], table["pairs"], strict=True))
    assert found == {(mtbf_s, r, r - 10.0, 2) for mtbf_s in (300.0, 600.0) for r in (2, 3)}


def test_what_no_user_may_choose_is_never_matched_with_another_value() -> None:
    rows = [
        {SCHEME: scheme, MTBF: mtbf_s, "seed": 0, RATIO: 1.0}
        for scheme, mtbf_s in (("spare", 300.0), ("checkpoint", 600.0))
    ]
    assert compare(sweep_frame(rows), SCHEME, "checkpoint", [MTBF], RATIO).empty


@given(st.randoms(use_true_random=False), st.booleans())
@examples(0.1)
def test_the_order_of_rows_does_not_matter(random: Any, over_all: bool) -> None:
    frame = random_sweep()
    order = list(range(len(frame)))
    random.shuffle(order)
    keys = [SCHEME] if over_all else [SCHEME, MTBF, R]
    tables = [
        compare(runs, SCHEME, "a", [MTBF, R], RATIO, over_all=over_all).sort_values(keys)
        for runs in (frame, frame.iloc[order])
    ]
    pd.testing.assert_frame_equal(*(table.reset_index(drop=True) for table in tables))


def test_the_mean_over_seeds_is_what_scipy_computes() -> None:
    frame = random_sweep()
    for row in mean_over_seeds(frame, [SCHEME, MTBF, R], RATIO).to_dict(orient="records"):
        sample = values_of(frame, scheme=row[SCHEME], mtbf_s=row[MTBF], r=row[R])
        expected = stats.t.interval(0.95, 3, sample.mean(), stats.sem(sample))
        assert (row["low"], row["high"]) == pytest.approx(expected, rel=1e-9)
        assert row["seeds"] == 4


def test_axes_left_open_are_averaged_within_a_seed_first() -> None:
    frame = random_sweep()
    row = mean_over_seeds(frame, [], RATIO).iloc[0]
    sample = frame.groupby("seed")[RATIO].mean()
    expected = stats.t.interval(0.95, 3, sample.mean(), stats.sem(sample))
    assert (row["low"], row["high"]) == pytest.approx(expected, rel=1e-9)


def brute_force_best(frame: pd.DataFrame, better: Callable[..., float]) -> set[tuple[Any, ...]]:
    best = set()
    for scheme, mtbf_s in itertools.product(["a", "b", "c"], [300.0, 600.0]):
        means = {r: values_of(frame, scheme=scheme, mtbf_s=mtbf_s, r=r).mean() for r in (2, 3, 4)}
        best.add((scheme, mtbf_s, better(means, key=lambda r, means=means: means[r])))
    return best


@pytest.mark.parametrize(("metric", "better"), [(RATIO, min), ("availability", max)])
def test_each_at_its_best(metric: str, better: Callable[..., float]) -> None:
    frame = random_sweep()
    best = at_best(frame.rename(columns={RATIO: metric}), [SCHEME, MTBF], [R], metric)
    assert len(best) == 6 * 4
    found = set(best[[SCHEME, MTBF, R]].itertuples(index=False, name=None))
    assert found == brute_force_best(frame, better)
    assert list(best.index) == sorted(best.index)


@pytest.mark.parametrize("gave_up", [[], [{"seed": 1, "completed_steps": 4}]])
def test_a_setting_of_which_runs_failed_or_gave_up_is_not_the_best(
    gave_up: list[dict[str, int]],
) -> None:
    """With r = 2 the job looks sooner by the steps that it did, and one seed never ended."""
    rows = [{"seed": 0}, *gave_up]
    sooner = [{SCHEME: "spare", R: 2, RATIO: 1.0} | row for row in rows]
    whole = [{SCHEME: "spare", R: 3, "seed": seed, RATIO: 3.0} for seed in range(2)]
    assert at_best(sweep_frame(sooner + whole), [], [R], RATIO)[R].tolist() == [3, 3]


def test_failed_runs_stay_to_be_counted_where_knobs_are_at_their_best() -> None:
    frame = random_sweep()
    frame.loc[[0, 1], "status"] = "failed"
    settled, notes = without_other_knobs(frame, {MTBF}, RATIO)
    assert R not in settled
    assert notes == ["Each point at the redundancy r with the best time-to-train ratio."]
    assert caveats(settled) == ["2 runs failed and are left out."]
    assert without_other_knobs(frame, {R}, RATIO) == (frame, [])


def test_only_axes_that_still_vary_are_averaged() -> None:
    """Events by cause are outcomes, though their names have a dot as a key's has."""
    frame = random_sweep()
    frame["events_by_cause.fan"] = range(len(frame))
    assert varied_axes(frame) == [SCHEME, MTBF, R]
    assert averaged_axes(frame, [SCHEME]) == [MTBF, R]
    assert averaged_axes(frame.assign(place=frame[MTBF] * frame[R]), ["place"]) == [SCHEME, MTBF, R]
    assert averaged_axes(frame.assign(point=frame[MTBF]), [SCHEME, "point"]) == [R]


def test_the_best_is_printed_with_the_knobs_of_both_sides() -> None:
    frame = random_sweep()
    table = make_report(frame, RATIO).sections["at_best"]
    best = {(scheme, mtbf_s): r for scheme, mtbf_s, r in brute_force_best(frame, min)}
    assert len(table) == 4
    for row in table.to_dict(orient="records"):
        assert row[R] == best[row[SCHEME], row[MTBF]]
        assert row[f"baseline {R}"] == best["a", row[MTBF]]
        ours = values_of(frame, scheme=row[SCHEME], mtbf_s=row[MTBF], r=row[R])
        theirs = values_of(frame, scheme="a", mtbf_s=row[MTBF], r=row[f"baseline {R}"])
        interval = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
        assert row["low"] == pytest.approx(interval.low, rel=1e-9)


def test_each_mean_over_settings_names_those_that_are_paired() -> None:
    """Only runs with r = 2 have partners among those of scheme a."""
    frame = random_sweep()
    frame = frame[(frame[SCHEME] == "a") | (frame[R] == 2)]
    report = make_report(frame, RATIO, baseline="a")
    assert set(report.sections["overall"]["paired_at"]) == {"r = 2"}
    assert set(report.sections["at_best"]["paired_at"]) == {"all settings"}
    assert section_table(report, "overall").caption.startswith(
        "mean over the settings that both have; r = 2 only; 4 pairs per row"
    )
    assert section_table(report, "settings").caption == (
        "setting by setting; r = 2 only; 4 pairs per row"
    )
    # The baseline's own runs without a partner are counted, too.
    assert report.notes == [
        f"16 of the runs of a have no partner with {scheme} of the same seed and setting."
        for scheme in "bc"
    ]


def test_failed_runs_are_left_out_and_counted() -> None:
    frame = random_sweep()
    lost = (frame[SCHEME] == "a") & (frame["seed"] == 0) & (frame[R] == 2)
    frame.loc[lost, ["status", RATIO]] = ["failed", math.nan]
    report = make_report(frame, RATIO)
    settings_ = report.sections["settings"]
    assert set(settings_.loc[settings_[R] == 2, "pairs"]) == {3}
    assert set(settings_.loc[settings_[R] != 2, "pairs"]) == {4}
    assert report.notes[0] == "2 runs failed and are left out."
    assert report.notes[1].startswith("2 of the runs of b have no partner with a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("time_to_train",), "did you mean 'time_to_train_ratio'?"),
        ((RATIO, "strategy.nam"), "did you mean 'strategy.name'?"),
        ((RATIO, SCHEME, "d"), "use one of a, b, c"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        make_report(random_sweep(), *arguments)


def test_a_sweep_of_nothing_but_failures_is_refused() -> None:
    frame = random_sweep().assign(status="failed")
    with pytest.raises(UserError, match="none of the 72 runs"):
        make_report(frame, RATIO)


def test_a_sweep_in_which_nothing_varies_is_refused() -> None:
    frame = random_sweep()
    one = frame[(frame[SCHEME] == "a") & (frame[MTBF] == 300.0) & (frame[R] == 2)]
    with pytest.raises(UserError, match="nothing to compare"):
        make_report(one, RATIO)
    with pytest.raises(UserError, match="one value only"):
        make_report(one, RATIO, SCHEME)


def test_sources_of_machines_that_differ_in_numbers_are_one_note() -> None:
    text = "{} free machines of 8 GPUs; {} under repair on average".format
    frame = pd.DataFrame({"machines": [text("1,200", "36"), text("1,200", "4.5"), text(90, 6)]})
    (note,) = machines_notes(frame)
    assert (
        note == "Machines: 90 to 1,200 free machines of 8 GPUs; 4.5 to 36 under repair on average."
    )


def test_json_has_what_the_table_of_the_sweep_has(swept: Path, cli: Cli) -> None:
    printed = cli.json(swept, "--baseline", "spare")
    assert (printed["metric"], printed["by"], printed["baseline"]) == (RATIO, SCHEME, "spare")
    assert all(note.startswith("Machines: ") for note in printed["notes"])
    assert len(printed["settings"]) == 4
    frame = read_sweep(swept).frame
    for row in printed["settings"]:
        mine = {"mtbf_s": row[MTBF], "r": row[R]}
        apart = values_of(frame, scheme="replication", **mine) - values_of(
            frame, scheme="spare", **mine
        )
        assert row["difference"] == pytest.approx(apart.mean(), rel=1e-9)


def test_csv_has_all_sections_and_begins_with_each_scheme_at_its_best(
    swept: Path, tmp_path: Path, cli: Cli
) -> None:
    path = tmp_path / "rows.csv"
    cli(swept, "-o", path)
    rows = pd.read_csv(path)
    assert set(rows["section"]) == {"best", "settings", "at_best", "overall"}
    best = rows[rows["section"] == "best"]
    assert list(best.index) == list(range(4))
    assert set(best[SCHEME]) == {"spare", "replication"}
    assert (best["goodput"] > 0).all()


def test_latex_has_the_digits_and_units_of_the_screen(
    swept: Path, tmp_path: Path, cli: Cli
) -> None:
    path = tmp_path / "tables.tex"
    printed = cli(swept, "-o", path)
    text = path.read_text(encoding="utf-8")
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 4
    assert text.count("\\caption{") == 4
    share = re.search(r"([\d.]+) %", printed)
    assert share is not None
    assert f"{share[1]} \\%" in text
    _, _, tables = text.partition("\n")
    # An unescaped sign of these ends a cell, begins a comment or is an error.
    assert not re.search(r"(?<!\\)[%#_]", tables)


def test_fewer_than_three_seeds_are_pointed_out() -> None:
    frame = random_sweep()
    assert not any("may be luck" in note for note in make_report(frame, RATIO).notes)
    few = make_report(frame[frame["seed"] < 2], RATIO)
    assert any(note.startswith("2 seeds: ") and "may be luck" in note for note in few.notes)


def test_the_words_of_the_field_come_first(swept: Path, cli: Cli) -> None:
    first = cli(swept, "--price", "2.5").partition("differences from")[0]
    assert all(word in first for word in ("goodput", "time (", "GPU-hours", "cost", "ratio"))
    frame = read_sweep(swept).frame
    best = cli.json(swept)["best"]
    assert len(best) == frame[[SCHEME, MTBF]].drop_duplicates().shape[0]
    for row in best:
        chosen = (frame[SCHEME] == row["strategy"]) & (frame[MTBF] == row[MTBF])
        runs = frame[chosen & (frame[R] == row[R])]
        assert row["goodput"] == pytest.approx(runs["goodput"].mean(), rel=1e-12)
        assert row["mean"] == frame[chosen].groupby(R)[RATIO].mean().min()


@pytest.mark.parametrize(
    "words",
    [["--metric", "ratio"], ["-o", "no/such/file.csv"]],
)
def test_mistakes_are_one_line(swept: Path, words: list[str], cli: Cli) -> None:
    assert cli.refused(swept, *words).startswith("faultline: ")
