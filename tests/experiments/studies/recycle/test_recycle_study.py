"""ReCycle beside Oobleck and Bamboo."""

from __future__ import annotations

import pandas as pd
import pytest
from faultline.experiments.studies.recycle import study
from faultline.experiments.studies.recycle.study import bamboo_price

SETTINGS = {name: study.SETTINGS[name] for name in list(study.SETTINGS)[:2]}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    monkeypatch.setattr(study, "SETTINGS", SETTINGS)
    return study.step_table()


def test_no_scheme_beats_the_bound_and_recycle_meets_it(steps: pd.DataFrame) -> None:
    by = steps.pivot_table(index=["setting", "down"], columns="way", values="step")
    assert (by["ReCycle"] >= by["bound"] - 1e-9).all()
    # Within a micro-batch of m + p - 1.
    assert (by["ReCycle"] <= by["bound"] + 1 / 15).all()
    assert (by["re-routing"] > by["ReCycle"]).any()
    assert (by["Oobleck"] > 1.0).all()


@pytest.mark.paper("ReCycle", "throughput over Oobleck's and Bamboo's", "reproduce-recycle")
def test_at_most_as_much_faster_as_published() -> None:
    """1.46 and 1.64 times: of the largest of our settings, with 9 % of the nodes down."""
    setting, down = (16, 16, 64), 24
    found = study.pace_of("recycle", setting, down, **study.PAPER)
    assert found == 1.0
    oobleck, bamboo = (study.pace_of(name, setting, down) or 0.0 for name in study.PUBLISHED)
    assert oobleck == pytest.approx(1.46, rel=0.15)
    assert bamboo * (1 + bamboo_price(16, 64)) == pytest.approx(1.64, rel=0.15)


def test_the_greatest_ratios_and_slowdowns_are_those_of_the_steps(steps: pd.DataFrame) -> None:
    found = study.greatest_table(steps).set_index("over")
    by = steps.pivot_table(index=["setting", "down"], columns="way", values="step")
    assert list(found.published) == [1.46, 1.64]
    for over in ("Oobleck", "Bamboo"):
        assert (by[over] / by["ReCycle"] <= found.ratio[over]).all()
    assert (study.slowdown_table(steps).slowdown <= by["ReCycle"].max() - 1.0).all()
