"""The schemes of the head-to-head; its cells: simulated, kept, tabulated, the winners marked."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isnan
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest
from faultline.experiments.cli import main
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.state_loss import loss_in_restart
from faultline.experiments.studies.head_to_head.cell_runs import (
    CellTask,
    Prepared,
    candidate_table,
    prepare,
    simulate_cell,
)
from faultline.experiments.studies.head_to_head.setting import (
    CHANGES,
    EDITS,
    FACTS,
    SETTINGS,
    Cell,
    MeasuredJob,
    all_candidates,
    extra_compute_share,
    listed_cells,
    measure_job,
)
from faultline.strategies.interface.recovery import Move, Recovery, RecoveryKind, SentMove
from faultline.strategies.plugins.registry import all_protections, all_strategies

_NAMES = ["checkpoint/reft", "checkpoint/storage", "replication/reft"]


@pytest.fixture(scope="module")
def measured() -> MeasuredJob:
    return measure_job({one.protection for one in all_candidates(_NAMES)})


def test_every_registered_scheme_takes_part_with_known_protections() -> None:
    candidates = all_candidates()
    assert {one.scheme for one in candidates} == set(all_strategies())
    assert {one.protection for one in candidates} <= set(all_protections())
    assert len({one.name for one in candidates}) == len(candidates)


def test_a_scheme_or_one_candidate_can_be_chosen() -> None:
    assert [one.name for one in all_candidates(["spare/reft"])] == ["spare/reft"]
    assert {one.scheme for one in all_candidates(["checkpoint"])} == {"checkpoint"}
    with pytest.raises(UserError, match="no such candidate"):
        all_candidates(["spear"])


def test_every_scheme_gets_the_same_job() -> None:
    shape = job_shape(load_scenario("head-to-head"))
    assert (shape.stages, shape.tensor, shape.sequences) == (16, 32, 64)
    assert shape.stages_that_fit == 2


def test_interleaved_pipelines_leave_schemes_fewer_bubbles(measured: MeasuredJob) -> None:
    """16 stages of 4 parts idle for 15 / 4 of 67.75 slots."""
    cells = listed_cells("interleaved")
    assert [cell.machines for cell in cells] == list(FACTS)
    interleaved = measure_job(["reft"], CHANGES["interleaved"])
    shapes = [
        job_shape(one.scenario_of(all_candidates(["checkpoint/reft"])[0], cells[0]))
        for one in (measured, interleaved)
    ]
    assert [shape.slots for shape in shapes] == [79.0, 67.75]
    prices = [extra_compute_share("bamboo", shape) for shape in shapes]
    assert prices == pytest.approx([19 / 237, (64 / 3 - 3.75) / 67.75])
    # (p - 1) / (p v) more activations are in flight.
    assert interleaved.held_bytes(1.0) - measured.held_bytes(1.0) == pytest.approx(
        15 / 64 * 114e9, rel=0.01
    )


@pytest.mark.slow
def test_links_and_gpus_decide_the_step_and_time_per_token_compares_them(
    measured: MeasuredJob,
) -> None:
    (checkpoint,) = all_candidates(["checkpoint/reft"])
    rows = {}
    for name in ("as it is", "GPU speed halved", "NVLink halved", "adapters and fabric halved"):
        edited = measure_job(["reft"], edits=EDITS[name])
        (cell,) = (
            one for one in listed_cells("links") if one.name == name and one.machines == "standbys"
        )
        (rows[name],) = simulate_cell(CellTask(cell, (checkpoint,), (0,), edited, races=False))
    usual = rows.pop("as it is")
    assert usual["step_s"] == pytest.approx(
        measured.undisturbed_step_s(listed_cells("settings")[0])
    )
    assert usual["token_us"] == pytest.approx(
        1e6 * usual["ratio"] * usual["step_s"] / (64 * 64 * 16_384)
    )
    longer = {name: row["step_s"] / usual["step_s"] for name, row in rows.items()}
    assert 1.9 < longer["GPU speed halved"] < 2.0
    assert longer["NVLink halved"] > 1.03
    assert longer["adapters and fabric halved"] > 1.005
    # The ratio has the slower step beneath it: it shows little of the edit.
    assert all(row["ratio"] == pytest.approx(usual["ratio"], abs=0.03) for row in rows.values())
    assert all(row["token_us"] > 1.005 * usual["token_us"] for row in rows.values())


def test_where_all_recoveries_cost_the_same_they_do(measured: MeasuredJob) -> None:
    (mecefo,) = all_candidates(["mecefo/reft"])
    cell = Cell("stalls", 0.0, 0.0, 1e5, 300.0, stall_s=77.0)
    prepared = prepare(mecefo, cell, measured)
    assert isinstance(prepared, Prepared)
    prices = prepared.resolved.durations.recovery
    # A migration is part of a restart.
    others_s = {"restart": 300.0, "migrate": 0.0}
    for known in get_args(RecoveryKind):
        stated_s = others_s.get(known, 77.0)
        assert prices.duration_s(Recovery(known, moves=(Move(0, 0, 0, 1),))) == stated_s


def test_more_groups_than_the_platform_has_send_and_load_their_state(measured: MeasuredJob) -> None:
    """Groups stand for those that are alike: a job of 80 loses groups beyond the 64th, too."""
    plain, drop = all_candidates(["checkpoint/reft", "replica-drop"])
    cell = Cell("domains", 80 * 512, 0.0, 900.0, 300.0, groups=80)
    loaded, row = simulate_cell(CellTask(cell, (plain, drop), (0,), measured, races=False))
    assert loaded["restarts"] > 20
    assert row["rejoined"] > 20
    move = SentMove(Move(79, 0, 0, 1), 70)
    times = [
        measured.durations_in(of, measured.scenario_of(drop, of)).moves
        for of in (cell, listed_cells("settings")[0])
    ]
    assert all(times)
    many, few = times
    assert many.busy_s([move]).keys() == {79, 70}
    same = SentMove(Move(0, 0, 0, 1), 1)
    assert many.duration_s([move]) == few.duration_s([same]) > 0.0


def _task(
    measured: MeasuredJob,
    mtbf_s: float,
    restart_s: float,
    names: Sequence[str] = _NAMES,
    seeds: int = 2,
    **changes: Any,
) -> CellTask:
    cell = Cell("restart", mtbf_s, restart_s, mtbf_s, restart_s)
    return CellTask(cell, tuple(all_candidates(names)), tuple(range(seeds)), measured, **changes)


def test_a_race_finds_the_winner_of_a_full_match(measured: MeasuredJob) -> None:
    raced = candidate_table(simulate_cell(_task(measured, 5000.0, 300.0)))
    full = candidate_table(simulate_cell(_task(measured, 5000.0, 300.0, races=False)))
    for name in ("time", "gpu_hours"):
        raced_best, full_best = (table[table[f"best_{name}"]] for table in (raced, full))
        assert raced_best["candidate"].tolist() == full_best["candidate"].tolist()
    # Replication takes twice the time, and is stopped before that.
    assert raced["ratio"].max() == inf
    assert full["ratio"].max() < inf


def test_no_scheme_goes_on_with_hardware_that_is_not_there(measured: MeasuredJob) -> None:
    rows = simulate_cell(_task(measured, 60.0, 10.0, ["mecefo", "bamboo"], 1))
    # 4,500 GPUs are broken, and 990 of 1,000 nodes with them.
    assert [row["ratio"] for row in rows] == [inf, inf]


def test_closed_forms_are_near_the_simulation_where_there_are_some(measured: MeasuredJob) -> None:
    table = candidate_table(simulate_cell(_task(measured, 900.0, 900.0, races=False)))
    known = table.dropna(subset=["closed_form_ratio"])
    # Spares take the places of replication's groups, of which its closed forms know nothing.
    assert set(known["scheme"]) == {"checkpoint"}
    assert (known["closed_form_ratio"] / known["ratio"]).between(0.9, 1.1).all()


def test_spares_that_are_paid_for_are_used(measured: MeasuredJob) -> None:
    """SPARe's groups are back after a restart's time: without that it is 2.05."""
    (row,) = simulate_cell(_task(measured, 5567.5, 908.0, ["spare/reft"], 1))
    assert row["spare_gpus"] > 0
    assert row["rejoined"] > 0.9 * row["hits"]
    assert row["ratio"] < 1.5


def test_state_in_memory_is_lost_by_the_failures_that_are_simulated(
    measured: MeasuredJob,
) -> None:
    """A domain takes four servers at once, each of which leaves a sharding group of 16 weakened.

    Beside failures of GPUs, 78 % of which take a server: four times as many groups to lose
    another in, and 4 / 0.78 times as many servers lost, by a failure that always is of hardware.
    """
    losses = []
    (candidate,) = all_candidates(["checkpoint/reft"])
    for share in (0.0, 1.0):
        prepared = prepare(candidate, Cell("domains", 0, share, 1e5, 908.0, 64, share), measured)
        assert isinstance(prepared, Prepared)
        job = prepared.resolved
        losses.append(loss_in_restart(job.protected.protection, job.scenario, job.failures, 1000.0))
    assert losses[1] / losses[0] == pytest.approx(4 * (4 / 0.78) / 0.78, rel=0.05)


def test_each_scheme_has_its_own_recovery_and_pays_for_what_stands_by(
    measured: MeasuredJob,
) -> None:
    """A restart on the remaining machines waits for no queue, nor does a standby in a role."""
    queue, standbys = (
        cell for cell in listed_cells("settings") if cell.mtbf_s == SETTINGS["today"]
    )
    rows = {}
    for cell in (queue, standbys):
        candidates = all_candidates(["warm-standby", "dp-drop", "checkpoint/reft"])
        task = CellTask(cell, tuple(candidates), (0,), measured, races=False)
        rows[cell.machines] = {row["scheme"]: row for row in simulate_cell(task)}
        (prepared,) = (
            prepare(one, cell, measured) for one in candidates if one.scheme == "dp-drop"
        )
        assert isinstance(prepared, Prepared)
        assert prepared.resolved.restart_s < 100.0
    for scheme, row in rows["queue"].items():
        assert row["spare_gpus"] == 0
        better = rows["standbys"][scheme]
        assert better["ratio"] < row["ratio"]
        assert better["spare_gpus"] > 400
        assert better["gpu_ratio"] > better["ratio"]
    assert rows["queue"]["warm-standby"]["ratio"] > 1.1
    assert rows["standbys"]["warm-standby"]["ratio"] < 1.06


def test_pipelines_of_fourteen_nodes_do_not_fit_a_gpu(measured: MeasuredJob) -> None:
    """4.03e12 parameters on 512 GPUs: 18 bytes each, and 34 s b h / t for 16 x 8 layers."""
    state = 18 * 12 * 51_200**2 * 128 / 512
    activations = 16 * 8 * 34 * 16_384 * 51_200 / 32
    assert measured.held_bytes(1.0) == pytest.approx(state + activations, rel=2e-3)
    assert measured.held_bytes(2.0) == pytest.approx(2 * state + activations, rel=2e-3)
    assert (
        measured.held_bytes(9 * 16 / 128)
        < measured.memory_bytes
        < measured.held_bytes(10 * 16 / 128)
    )


def test_closed_forms_give_nothing_where_they_do_not_hold(measured: MeasuredJob) -> None:
    """Just-in-time checkpoints had ratios up to 1.5e105: their interval was that to storage."""
    beneath = measure_job({"just-in-time"})
    (row,) = simulate_cell(_task(beneath, 900.0, 300.0, ["checkpoint/just-in-time"], 1))
    assert row["restarts"] > 10
    assert isnan(row["closed_form_ratio"])
    (row,) = simulate_cell(_task(measured, 1e9, 100.0, _NAMES[:1], 1))
    assert isnan(row["closed_form_ratio"])


def test_a_winner_is_sure_only_beyond_the_noise_of_the_seeds() -> None:
    def rows(cell: float, scheme: str, ratios: list[float]) -> list[dict[str, Any]]:
        return [_row(cell, scheme, seed, ratio) for seed, ratio in enumerate(ratios)]

    table = candidate_table(
        [
            *rows(1.0, "a", [1.0, 1.1, 1.2]),
            *rows(1.0, "b", [1.3, 1.4, 1.5]),
            *rows(2.0, "a", [1.0, 1.5, 1.2]),
            *rows(2.0, "b", [1.3, 1.1, 1.4]),
            *rows(3.0, "a", [inf]),
            *rows(3.0, "b", [2.0, 2.0, 2.1]),
            _row(3.0, "c", 0, inf) | {"absent": "too small"},
        ]
    )
    won = table[table["best_time"]].set_index("x")
    assert won["candidate"].to_dict() == {1.0: "a", 2.0: "a", 3.0: "b"}
    assert won["sure_time"].to_dict() == {1.0: True, 2.0: False, 3.0: True}
    assert table.loc[table["candidate"] == "c", "note"].item() == "too small"


def test_differences_to_the_best_are_paired() -> None:
    rows = [_row(0.0, "a", seed, 1.0 + seed) for seed in range(3)]
    rows += [_row(0.0, "b", seed, 1.5 + seed) for seed in range(3)]
    table = candidate_table(rows).set_index("candidate")
    assert table.loc["b", "above_best"] == pytest.approx(0.5)
    assert table.loc["b", "above_best_half"] == pytest.approx(0.0, abs=1e-12)


def _row(x: float, scheme: str, seed: int, ratio: float) -> dict[str, Any]:
    known = "mtbf_s restart_s gpus domain_share under_repair steps step_s token_us redundancy"
    numbers = dict.fromkeys([*known.split(), "availability"], 1.0)
    return {
        **numbers,
        "plane": "restart",
        "x": x,
        "y": 0.0,
        "candidate": scheme,
        "scheme": scheme,
        "protection": "storage",
        "seed": seed,
        "ratio": ratio,
        "gpu_ratio": ratio,
        "gpu_hours": ratio,
        "spare_gpus": 0,
        "restarts": 0,
        "rejoined": 0,
        "gpu_memory_bytes": 1.5e11,
        "fits_memory": True,
        "closed_form_ratio": 1.0,
        "simulated_ratio": 3.0,
        "absent": "",
    }


def test_the_command_writes_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--schemes", "checkpoint/reft", "replication/reft", "--workers", "1"]
    few = ["--only", "stalls", "--quick", "--seeds", "1", "-o", str(tmp_path)]
    assert main(["head-to-head", *few, *chosen]) == 0
    table = pd.read_csv(tmp_path / "head-to-head-stalls.csv")
    assert len(table) == 6
    assert table.groupby(["x", "y"])["best_time"].sum().eq(1).all()
    assert "stalls: time to train over" in capsys.readouterr().out
