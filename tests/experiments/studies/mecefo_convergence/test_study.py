"""The study as people call it; the load of each group in the loop, and what a charge makes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import fmean

import pandas as pd
import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies.mecefo_convergence import study
from faultline.experiments.studies.mecefo_convergence.study import LOSSES, TrainingCell, plans_of
from faultline.simulator.accounting.timeline import Event, EventKind

from tests.experiments.command_line import Cli

COMMAND = ("reproduce", "mecefo-convergence")


def test_without_jax_one_line_names_what_to_install(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    printed = cli.refused("-o", str(tmp_path))
    assert "JAX is not installed" in printed
    assert "pip install 'faultline-sim[numerics]'" in printed


@pytest.mark.slow
@pytest.mark.paper("MeCeFO", "convergence under take-overs", "reproduce-mecefo-convergence")
def test_the_quick_study(cli: Cli, tmp_path: Path) -> None:
    """More approximate gradients, more steps, and a loss between those of exact and none."""
    pytest.importorskip("jax")
    status, out, _ = cli.all("--seeds", "2", "-o", str(tmp_path), "--json")
    assert status == 0
    rows = pd.DataFrame(json.loads(out))
    changed = rows[(rows.quantity == "change of the held-out loss")].set_index(
        ["scheme", "setting"]
    )
    assert changed.loc[("steady", "2"), "simulated"] > 0
    (loss,) = rows[rows.setting == "and under steady take-overs"].simulated
    assert 0 < loss < 1
    assert (tmp_path / "convergence.png").stat().st_size > 50_000


@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_shows_in_the_plans(loss: str) -> None:
    parts_down, none_lost = plans_of(TrainingCell(loss, "none", 1, 50, small=False))
    assert none_lost == 0
    assert {(plan.batch_share, plan.approximate) for plan in parts_down} == {(1.0, ())}
    found, lost = plans_of(TrainingCell(loss, "high", 1, 200, small=False))
    assert (len(found), lost > 5) == (200, True)
    assert any(plan.approximate for plan in found) == (loss == "mecefo")
    assert (min(plan.batch_share for plan in found) < 1.0) == (loss != "mecefo")
    assert any(plan.idle for plan in found) == (loss == "idle")
    for plan in found:
        working = (len(plan.members) - len(plan.idle)) / 4
        # NTP cuts the batches of members, replicas that are gone train nothing.
        assert plan.batch_share <= working + 1e-9
        assert loss == "ntp" or plan.batch_share == working


def test_the_share_is_that_of_gpus_that_are_down() -> None:
    """Uniform over 32 GPUs, memoryless, back after 3 h: 3 of 32 down on average (published).

    A node that stands in for one does two stages: twice as many gradients are approximate, less
    where one node does three, or the pipeline's failed nodes are neighbours.
    """
    shares = [
        fmean(plan.approximate_share for plan in plans_of(cell)[0])
        for cell in (TrainingCell("mecefo", "mid", seed, 100, small=False) for seed in range(24))
    ]
    assert 1.4 * 3 / 32 < fmean(shares) < 2 * 3 / 32


def test_an_approximate_gradient_counts_less_by_the_stated_share() -> None:
    """The samples beyond the batches that count are the loss times the shares of all steps."""
    changes = {"job.steps": 3000, "strategy.approximation_loss": 0.4}
    steps: list[int] = []

    def note(event: Event) -> None:
        if event.kind is EventKind.STEP:
            steps.append(event.step)

    scenario = load_scenario("mecefo-7b", changes)
    record = run(scenario, 3, record_event=note)
    samples, counted = record["same_tokens.completed_steps"], record["completed_steps"]
    assert len(steps) == samples > 1.02 * counted
    assert counted >= 3000
    ratio = record["time_to_train_ratio"] / record["same_tokens.time_to_train_ratio"]
    assert ratio == pytest.approx(samples / counted)
    # As many steps without the charge have the same failures, and take as long.
    plain = run(
        scenario.change({"job.steps": int(samples), "strategy.approximation_loss": None}), 3
    )
    assert not [name for name in plain if name.startswith("same_tokens")]
    assert plain["time_s"] == pytest.approx(record["time_s"], rel=1e-9)
    assert plain["time_to_train_ratio"] == pytest.approx(
        record["same_tokens.time_to_train_ratio"], rel=1e-9
    )
    # Useful time is what counts: the ledger has the same as the batches.
    useful_s = record["compute_s"] + record["all_reduce_s"]
    assert useful_s / record["time_s"] == pytest.approx(record["goodput"], rel=1e-9)


def test_steps_to_a_loss_and_what_is_taken() -> None:
    """A run that is always 20 % slower than the exact one, by hand."""
    steps = [0, 10, 20, 30, 40]
    exact = pd.DataFrame({"steps": steps, "held_out": [5.0, 4.0, 3.0, 2.0, 1.0]})
    slow = exact.assign(held_out=[5.0, 4.2, 3.4, 2.6, 1.8], rate="mid", approximate=0.25)
    both = pd.concat([exact.assign(rate="none", approximate=0.0), slow]).assign(
        loss="mecefo", seed=0, missing=0.0, failures=3
    )
    table = study.run_table(both).set_index("rate")
    # 3.0 after half of 40 steps; the slow one has it after 25.
    assert table.loc["mid", "inflation"] == pytest.approx(1.25)
    assert table.loc["mid", "taken"] == pytest.approx(0.2)
    assert table.loc["mid", "change"] == pytest.approx(0.8)
    losses = study.loss_table(table.reset_index())
    assert losses.value.tolist() == pytest.approx([0.8, 0.8])
    assert losses.setting.tolist() == ["under the loop's plans", "and under steady take-overs"]
    assert pd.isna(study.steps_to(0.5, steps, slow.held_out))
