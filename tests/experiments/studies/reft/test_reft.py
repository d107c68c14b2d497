"""`faultline reproduce reft`: published numbers, and closed forms beside simulated runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from faultline.experiments.studies.base import beside_published, listed_rows
from faultline.experiments.studies.reft import combinations, failures, snapshots
from faultline.experiments.studies.stage import Stage
from faultline.strategies.protection.reft import Reft

from tests.experiments.command_line import Cli


@pytest.mark.paper("REFT", "times to 10 % loss", "reproduce-reft")
def test_times_to_loss_are_the_published_ones() -> None:
    made = {"reliability": failures.reliability_table()}
    rows = list(beside_published("reft", listed_rows("reft", made)))
    assert [row.published for row in rows] == [2.34, 7.79, 12.37]
    assert [row.simulated for row in rows] == pytest.approx([2.34, 7.79, 12.37], abs=0.02)


def test_overheads_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """13B: 19.57 s on top of 3.58 s; 34B without snapshots takes 5.473 s; 0.5 s if hidden."""
    monkeypatch.setattr(snapshots, "snapshot_delay_s", lambda passes_s: 0.5)
    table = snapshots.iteration_table().set_index(["mode", "model"])
    sync = table.loc[("synchronous", "34B")]
    assert sync.predicted_s == pytest.approx(5.473 + 19.57 * 5.473 / 3.58)
    assert table.loc[("thread and stream", "7B")].predicted_s == pytest.approx(3.277 + 0.94)
    assert table.loc[("hidden", "7B")].predicted_s == pytest.approx(3.777)
    fitted = table[table.calibrated != ""]
    assert list(fitted.predicted_s) == pytest.approx(list(fitted.published_s), abs=1e-12)
    # Of the overheads that are predicted, one thread's of 7B alone misses 15 %.
    predicted = table[(table.calibrated == "") & (table.published_overhead_s > 0.0)]
    errors = predicted.overhead_s / predicted.published_overhead_s - 1.0
    missed = errors[errors.abs() > 0.15]
    assert missed.to_dict() == {("one thread", "7B"): pytest.approx(0.19, abs=0.005)}


def test_what_was_tried_of_sharded_snapshots_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 GB/s copy 11,471 MiB in 0.376 s; published are 0.46, 0.51 and 0.354 s."""

    def copied(shards: Reft) -> SimpleNamespace:
        return SimpleNamespace(copy_s=shards.transfers.snapshot_bytes_per_gpu / 32e9)

    monkeypatch.setattr(snapshots, "measured", copied)
    made = {"sharded": snapshots.sharded_table()}
    rows = {(row.quantity, row.setting): row for row in listed_rows("reft", made)}
    assert rows["bytes of a snapshot", "sharded over 4"].simulated == pytest.approx(2868, abs=1)
    for tried, change in (
        ("PCIe alone", -0.75),
        ("launching limits, by shards of 4", 0.354 / 0.3759 - 1),
    ):
        row = rows["change of a snapshot's time", f"over 4 of 11,471 MiB, {tried}"]
        assert row.simulated == pytest.approx(change, abs=1e-3)
        assert row.published == pytest.approx(0.354 / 0.46 - 1)


def test_stalls_in_closed_form() -> None:
    """17.7 minutes between failures: 44 % are published for stalls of 10 minutes."""
    assert pytest.approx(17.72 * 60, rel=1e-3) == failures.STALL_GAP_S
    ways = (failures.ALONE, *failures.TREATMENTS)
    for stall_s, expected in ((600.0, 0.436), (180.0, 0.831)):
        alone, anew, absorbed = (failures.effective_time(name, stall_s) for name in ways)
        assert alone == pytest.approx(expected, abs=1e-3)
        assert alone < anew < absorbed


@pytest.mark.slow
def test_simulated_stalls_lie_below_their_closed_forms_by_what_is_done_twice(stage: Stage) -> None:
    table = failures.stall_table(stage, 20_000)
    lost = (table.repeated_s + table.detection_s) / table.time_s
    simulated = table.assign(lost=lost)[table.simulated.notna()]
    for _, mine in simulated.groupby(["stall_s", "treatment"]):
        exact = mine.exact.iloc[0]
        # About 200 failures a run: 7 % of the time lost, over three runs 4 %.
        off = 0.12 * exact * (1 - exact) + 0.02
        assert mine.simulated.mean() == pytest.approx(exact - mine.lost.mean(), abs=off)


@pytest.mark.paper("REFT", "iteration times and saving", "reproduce-reft")
@pytest.mark.slow
def test_the_whole_reproduction_from_the_command_line(cli: Cli, tmp_path: Path) -> None:
    results = cli.reproduced("reft", tmp_path, "--seeds", "2")
    names = [(row["quantity"], row["scheme"], row["setting"]) for row in results]
    assert len(names) == len(set(names))
    found = {name: row["simulated"] for name, row in zip(names, results, strict=True)}

    for row in results:
        if row["quantity"] == "iteration with a snapshot":
            assert row["simulated"] == pytest.approx(row["published"], rel=0.15), row
        if row["quantity"].startswith("time to 10 % loss"):
            assert row["simulated"] == pytest.approx(row["published"], rel=0.01), row
    hidden = [name for name in names if name[0].startswith("overhead") and "hidden" in name[2]]
    assert [found[name] for name in hidden] == [0.0, 0.0, 0.0]

    factors = {name[2]: found[name] for name in names if name[0].startswith("saving speed")}
    assert factors["hgx-a800, storage 25GB/s, groups of 4"] > 14
    assert factors["hgx-a800, storage 25GB/s, groups of 2"] < 14

    ratios = pd.read_csv(tmp_path / "combinations.csv")
    mean = ratios.groupby(["minutes", "protection", "strategy"]).time_to_train_ratio.mean()
    for minutes in combinations.RESTARTS_MINUTES:
        for protection in combinations.PROTECTIONS:
            mine = mean[minutes, protection]
            assert mine["spare"] < mine["replication"] < mine["checkpoint"]
        for scheme in combinations.SCHEMES:
            assert mean[minutes, "reft", scheme] < mean[minutes, "storage", scheme]
