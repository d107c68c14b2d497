"""`faultline reproduce oobleck-artifact`: its rules by hand, its cells beside what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments.cli import main
from faultline.experiments.studies.oobleck_artifact import study
from faultline.experiments.studies.oobleck_artifact.losses import System, simulate
from faultline.experiments.studies.oobleck_artifact.published_oobleck import (
    SAMPLES_PER_S,
    ArtifactCosts,
)
from faultline.experiments.studies.oobleck_artifact.study import oobleck_times

COSTS = ArtifactCosts(10.0, 20.0, 100.0, 30.0, 5.0)


@pytest.mark.parametrize(
    ("system", "steps", "begun_s", "lost_s", "paid_s"),
    [
        # 45 + 9 * 100, the tenth broken; 10, then 9 and a broken one.
        ("oobleck", 18, 2_000, 100, 10),
        # 9 steps are taken back, the tenth is broken; 100, then 9.
        ("varuna", 9, 1_900, 1_000, 100),
        # 45 of the tenth are left: 30, 67.5 instead of 45, 30; then 8 in the other 872.5.
        ("bamboo", 18, 1_900, 0, 30 + 22.5 + 30),
    ],
)
def test_a_loss_by_hand(
    system: System, steps: int, begun_s: float, lost_s: float, paid_s: float
) -> None:
    """Two intervals of 1,000 s with steps of 100 s; training starts at 45 s."""
    booked = simulate(system, COSTS, (100.0, 100.0), 1_000.0)
    assert (booked.steps, booked.elapsed_s) == (steps, 2_000.0)
    assert booked.lost_s == pytest.approx(lost_s)
    assert booked.paid_s == pytest.approx(paid_s)
    assert booked.begun_s == pytest.approx(begun_s)
    assert booked.goodput == pytest.approx(steps * 100 / 2_000)


def test_varuna_goes_back_to_its_last_checkpoint() -> None:
    """45 + 10 * 60 + 20 of saving; the loss at 1,000 takes back five; 100, then 10, 20 and 4."""
    booked = simulate("varuna", COSTS, (60.0, 60.0), 1_000.0)
    assert booked.steps == 10 + 14
    assert booked.lost_s == pytest.approx(6 * 60.0)
    assert booked.paid_s == pytest.approx(20 + 100 + 20)
    assert booked.effective == pytest.approx(1_860 / (1_860 + 2 * 360 + 140), rel=0.05)
    # All fifteen of the first interval may count, though they are booked as lost.
    kept = simulate("varuna", COSTS, (60.0, 60.0), 1_000.0, takes_back=False)
    assert (kept.steps, kept.lost_s) == (15 + 14, pytest.approx(6 * 60.0))


def test_a_restart_longer_than_the_interval_never_ends() -> None:
    booked = simulate("varuna", COSTS, (10.0,) * 4, 90.0)
    # Four steps before the first loss, taken back; then nothing but restarts.
    assert (booked.steps, booked.paid_s) == (0, pytest.approx(3 * 90.0))


@pytest.fixture(scope="module")
def oobleck_67b() -> pd.DataFrame:
    return study.cells_of(("oobleck", "6.7B"))


def test_the_model_whose_speeds_are_printed_needs_no_calibration(
    oobleck_67b: pd.DataFrame,
) -> None:
    assert study.steps_of("oobleck", "6.7B") == tuple(1_024 / one for one in SAMPLES_PER_S)
    assert (oobleck_67b.steps - oobleck_67b.published_steps).abs().max() <= 1
    assert (oobleck_67b.effective - oobleck_67b.published_effective).abs().max() < 0.5
    ratio = oobleck_67b.samples_per_s / oobleck_67b.published_samples_per_s
    assert (ratio - 1).abs().max() < 0.05


def test_the_planner_foresees_the_speeds_of_67b() -> None:
    """By FLOP alone, without communication: within 25 % at each number of nodes, 7 % on average."""
    table = study.planner_table()
    errors = (table.planned / table.published - 1).abs()
    assert errors.max() < 0.25
    assert errors.mean() < 0.07
    assert oobleck_times("6.7B")[-1] > oobleck_times("6.7B")[0]


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "oobleck-artifact", "--json", "-o", str(tmp_path)]) == 0
    rows = pd.DataFrame(json.loads(capsys.readouterr().out))
    assert not rows.duplicated(["quantity", "scheme", "setting"]).any()
    mine = rows[(rows.scheme == "oobleck") & rows.published.notna()]
    effective = mine[mine.quantity == "effective time"]
    assert len(effective) == 25
    assert (effective.simulated - effective.published).abs().max() < 3
    samples = mine[mine.quantity == "samples/s"]
    assert (samples.simulated / samples.published - 1).abs().max() < 0.05
    assert (tmp_path / "oobleck-artifact.png").is_file()
