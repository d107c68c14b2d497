"""Who trains soonest, and how sure that is, from runs made up so that the answer is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.analysis.comparison import compare
from faultline.experiments.report.result_tables import comparison_table
from faultline.experiments.report.standings import METRIC, answer, standings
from faultline.simulator.accounting.badput import CAUSES
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.examples import examples

Made = tuple[str, int, float, Sequence[float]]


def runs_of(*choices: Made, steps: int = 100) -> pd.DataFrame:
    """Make the runs of choices: scheme, redundancy, MTBF, and a ratio for each seed."""
    rows = [
        {
            "status": "ok",
            "strategy.name": scheme,
            "strategy.redundancy": redundancy,
            "failures.mtbf_s": mtbf_s,
            "strategy": scheme,
            "redundancy": redundancy,
            "seed": seed,
            "steps": steps,
            "completed_steps": steps,
            "time_s": ratio * 86400.0,
            "goodput": 1.0 / ratio,
            "checkpoint_interval_steps": 12,
            "checkpoint_interval_s": 1200.0,
            "gpu_hours": ratio * 24.0,
            "mfu": None,
            METRIC: ratio,
            **{f"{cause}_s": ratio * 86400.0 / len(CAUSES) for cause in CAUSES},
        }
        for scheme, redundancy, mtbf_s, ratios in choices
        for seed, ratio in enumerate(ratios)
    ]
    return pd.DataFrame(rows)


ONE = ("spare", 8, 300.0, [2.0, 2.1, 2.2])
LATER = ("replication", 3, 300.0, [3.0, 3.3, 3.2])


def test_a_clear_winner_is_printed_with_its_interval() -> None:
    printed = answer(standings(runs_of(ONE, LATER)))
    assert printed.sentence == (
        "SPARe + checkpoint, r = 8 trains soonest: in 2.1 days at a goodput of 47.7 %, "
        "with a checkpoint every 12 steps (20.0 minutes): 2.10 times as long as an "
        "undisturbed job."
    )
    interval = stats.ttest_rel(LATER[3], ONE[3]).confidence_interval(0.95)
    low, high = 100 * interval.low / np.mean(ONE[3]), 100 * interval.high / np.mean(ONE[3])
    assert "replication + checkpoint, r = 3, takes 50.8 % longer" in printed.confidence
    assert f"(95 % interval {low:.1f} to {high:.1f} %, 3 paired seeds)" in printed.confidence


def test_what_chance_may_have_made_is_not_called_a_lead() -> None:
    printed = answer(standings(runs_of(ONE, ("replication", 3, 300.0, [2.1, 2.2, 2.1]))))
    assert printed.sentence.startswith("SPARe + checkpoint, r = 8 looks soonest")
    assert "not significant" in printed.confidence


def test_one_seed_has_no_significance() -> None:
    runs = runs_of(("spare", 8, 300.0, [2.0]), ("replication", 3, 300.0, [9.0]))
    assert "the significance is unknown" in answer(standings(runs)).confidence
    both = pd.concat([runs, runs.assign(**{"failures.mtbf_s": 900.0})])
    assert "the significance is unknown" in answer(standings(both)).confidence


def test_protections_are_choices_and_so_is_an_axis_that_is_named() -> None:
    storage = runs_of(("checkpoint", 1, 300.0, [2.0, 2.1])).assign(**{"protection.name": "storage"})
    reft = runs_of(("checkpoint", 1, 300.0, [1.5, 1.4])).assign(**{"protection.name": "reft"})
    both = pd.concat([storage, reft], ignore_index=True)
    order = standings(both)
    assert order.conditions == ()
    assert order.best().iloc[0]["protection.name"] == "reft"
    rates = pd.concat([both, both.assign(**{"failures.mtbf_s": 900.0})], ignore_index=True)
    assert standings(rates).conditions == ("failures.mtbf_s",)
    assert standings(rates, by="failures.mtbf_s").conditions == ()


def test_a_single_scheme_is_compared_with_its_own_settings() -> None:
    runs = runs_of(*(("spare", r, 300.0, [r, r + 0.1, r + 0.3]) for r in range(2, 12)))
    order = standings(runs)
    assert list(order.best()["redundancy"]) == [2, 3, 4, 5, 6]
    assert "r = 2 trains soonest" in answer(order).sentence
    assert "The next best, SPARe + checkpoint, r = 3, takes" in answer(order).confidence


def test_a_job_that_gave_up_never_wins() -> None:
    """It did so after one step of a hundred, with a ratio that looks best."""
    runs = runs_of(ONE, LATER, ("checkpoint", 1, 300.0, [1.0, 1.0, 1.0]))
    runs.loc[(runs["strategy"] == "checkpoint") & (runs["seed"] == 2), "completed_steps"] = 1
    order = standings(runs)
    assert list(order.best()["strategy"]) == ["spare", "replication", "checkpoint"]
    table = comparison_table(order)
    place = [column.title for column in table.columns].index("verdict")
    verdicts = [row.cells[place] for row in table.rows]
    assert verdicts == ["soonest", "later", "did not finish"]
    assert (
        "does not finish" in answer(standings(runs[runs["strategy"] != "replication"])).confidence
    )
    nothing = runs.assign(completed_steps=0)
    assert answer(standings(nothing)).sentence.startswith("No setting finishes")


def test_a_setting_that_lost_its_worst_seed_does_not_win_by_that() -> None:
    lucky = ("spare", 9, 300.0, [1.0, 1.1, 50.0])
    runs = runs_of(ONE, lucky, LATER)
    runs = runs[runs[METRIC] < 50]
    assert standings(runs).best()["redundancy"].iloc[0] == 8


def test_winners_are_counted_over_conditions() -> None:
    far = ("spare", 8, 9000.0, [1.5, 1.6, 1.5])
    runs = runs_of(ONE, LATER, far, ("replication", 2, 9000.0, [2.5, 2.6, 2.8]))
    always = standings(runs)
    assert answer(always).sentence == ("SPARe + checkpoint trains soonest under 2 of 2 conditions.")
    assert "significant under 2 of 2 conditions" in answer(always).confidence
    assert list(always.best()["failures.mtbf_s"]) == [300.0, 300.0, 9000.0, 9000.0]
    turned = standings(runs.iloc[::-1])
    assert list(turned.best()["failures.mtbf_s"]) == [9000.0, 9000.0, 300.0, 300.0]
    mixed = standings(runs_of(ONE, LATER, far, ("replication", 2, 9000.0, [1.4, 1.7, 1.3])))
    assert answer(mixed).sentence == (
        "SPARe + checkpoint looks soonest under 1 of 2 conditions, "
        "replication + checkpoint under 1."
    )
    assert "significant under 1 of 2 conditions" in answer(mixed).confidence


ratios = st.lists(st.floats(1.0, 50.0), min_size=3, max_size=3)


@examples(0.1)
@given(st.lists(ratios, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_standings_agree_with_the_paired_comparison(
    drawn: list[list[float]], random: object
) -> None:
    """Against `compare`, with the soonest as its baseline; in whatever order the runs come."""
    runs = runs_of(*(("spare", 2 + place, 300.0, each) for place, each in enumerate(drawn)))
    order = standings(runs)
    shuffled = runs.sample(frac=1.0, random_state=random.randrange(2**32))  # type: ignore[attr-defined]
    pd.testing.assert_frame_equal(standings(shuffled).choices, order.choices)
    soonest = order.choices.iloc[0]
    assert soonest["mean"] == pytest.approx(min(map(np.mean, drawn)))
    table = compare(runs, "strategy.redundancy", soonest["strategy.redundancy"], [], METRIC)
    table = table.set_index("strategy.redundancy")
    for row in order.choices.iloc[1:].to_dict(orient="records"):
        expected = table.loc[row["strategy.redundancy"]]
        assert row["change"] == pytest.approx(expected["change"], abs=1e-12)
        assert row["low"] * soonest["mean"] == pytest.approx(expected["low"], abs=1e-9)
        assert row["high"] * soonest["mean"] == pytest.approx(expected["high"], abs=1e-9)
        assert row["change"] >= 0
