"""Published step times: what is compared with what, and that predictions hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments.config.model_numbers import parallel_job
from faultline.experiments.config.tables.job import ModelTable
from faultline.experiments.studies.base import listed_rows
from faultline.experiments.studies.step_time import study
from faultline.experiments.studies.step_time.predicting import (
    GPUS,
    Group,
    Window,
    bus_bandwidths,
    expected_step,
    fit,
    simulate,
    simulated_choices,
    slowest_gpu,
)
from faultline.experiments.studies.step_time.published import PublishedChoice, Unit, cases
from faultline.simulator.job.durations import StepTime
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.parallel_job import ParallelJob

from tests.experiments.command_line import Cli

CASES = {case.label: case for case in cases()}
SMALL = ("A1 1.7B", "A1 3.6B", "A1 7.5B", "A1 18.4B")


@pytest.fixture(scope="module")
def small() -> pd.DataFrame:
    """The rows of one table that have no pipeline."""
    mine = tuple(CASES[label] for label in SMALL)
    return study.predictions(mine, simulate(Group(mine, CASES["A1 7.5B"])).rows)


@pytest.mark.parametrize("label", CASES)
def test_jobs_use_the_gpus_that_are_published(label: str) -> None:
    """The first number of most labels, or of their study."""
    case = CASES[label]
    job = case.job(0.8)
    assert job.micro_batches >= 1
    sequences = job.micro_batches * job.micro_batch_sequences * job.layout.data
    assert sequences == case.batch * case.context
    for word in label.split()[1:]:
        if word.isdigit() and case.section in {"A3", "A4", "A6", "A7"}:
            assert case.gpus == int(word)


def test_a_scenario_can_state_the_job_of_a_row() -> None:
    case = CASES["A8 torchtitan 405B interleaved"]
    overlaps = ("tensor_overlap", "pipeline_overlap", "gradient_overlap")
    model = {name: getattr(case.software, name) for name in overlaps} | {
        "name": "llama3-405b",
        "pipeline": 8,
        "virtual_stages": 2,
        "micro_batches": 8,
        "kernels": "h100-500w",
        "matmul_precision": "fp8",
        "compute_efficiency": 0.7,
        "recompute": "early-stop",
        "balanced_context": False,
    }
    table = ModelTable.model_validate(model)
    stated = parallel_job(table, case.layout.data // case.context)
    assert stated == replace(case.job(0.7), domain_replicas=None)


@pytest.mark.parametrize(
    ("label", "value", "unit", "step_s", "within"),
    [
        ("A1 1.7B", 137.0, "TFLOP/s", 3.53, 5e-3),
        ("A1 1008B", 163.0, "TFLOP/s", 102.6, 5e-3),
        ("A3 8192 8K", 430.0, "TFLOP/s", 12.0, 5e-3),
        ("A2 1T selective", 56.3, "%", 71.49, 6e-3),
        ("A4 3072 Megatron-LM", 48.7, "%", 29.02, 6e-3),
    ],
)
def test_rates_and_seconds_belong_together(
    label: str, value: float, unit: Unit, step_s: float, within: float
) -> None:
    """As their authors have computed them."""
    case = CASES[label]
    assert case.in_unit(value, unit) == pytest.approx(step_s, rel=within)
    assert case.in_unit(case.in_unit(value, unit), unit) == pytest.approx(value)


@pytest.mark.parametrize(
    ("layout", "window", "domains"),
    [
        (Layout(64, 1, 1), Layout(16, 1, 1), 2),
        (Layout(64, 8, 4), Layout(4, 8, 4), 16),
        (Layout(3, 8, 4), Layout(3, 8, 4), 16),
        (Layout(1, 8, 8), Layout(1, 8, 8), 8),
    ],
)
def test_a_window_holds_the_replicas_of_two_servers(
    layout: Layout, window: Layout, domains: int
) -> None:
    found = Window.of(layout, 8)
    assert (found.layout, found.domains) == (window, domains)


def made_up_time(job: ParallelJob, slowdown: float) -> StepTime:
    """Return a step of 2 s for messages and 6 s for computing at full efficiency."""
    compute_s = 6.0 * (1.0 + slowdown) / job.compute_efficiency
    return StepTime(compute_s, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1)


def test_a_fit_meets_what_is_published() -> None:
    """2 + 6/e = 14 s at e = 0.5."""
    case = replace(CASES["A6 512"], outputs=(("s", 14.0),))
    assert fit(case, PublishedChoice(12, 1, "flash-2"), made_up_time) == pytest.approx(0.5)


def test_all_wait_for_a_slow_host_if_there_is_one() -> None:
    """32 hosts of which 0.5 % are slow: none is with a probability of 0.995^32."""
    case = CASES["A4 256 Megatron-LM"]
    job = case.job(1.0)
    sound = 0.995**32
    expected = 2.0 + 6.0 * (sound + 1.1 * (1.0 - sound))
    assert expected_step(case, job, made_up_time).step_s == pytest.approx(expected)
    alone = CASES["A6 512"]
    assert expected_step(alone, alone.job(1.0), made_up_time).step_s == pytest.approx(8.0)


def test_the_slowest_gpu_is_slower_in_larger_jobs() -> None:
    """Eight GPUs of a host span 5 %, half of it on either side."""
    assert slowest_gpu(8) == pytest.approx(0.025)
    assert slowest_gpu(1) == pytest.approx(0.0)
    assert slowest_gpu(8) < slowest_gpu(256) < slowest_gpu(12_288) < 0.075


@pytest.mark.parametrize(
    ("label", "virtual_stages", "micro_batches", "attention"),
    [
        ("A5 119B", {1, 23}, {1, 2, 4}, {"flash-2"}),
        ("A3 16384 131K", {2, 4, 8}, {1}, {"flash-2", "flash-3"}),
        ("A1b 1B 1 replica", {1}, {8, 16}, {"unfused"}),
        ("A7 175B 128", {12}, {1}, {"flash-3"}),
    ],
)
def test_what_is_not_stated_takes_every_legal_value(
    label: str, virtual_stages: set[int], micro_batches: set[int], attention: set[str]
) -> None:
    choices = CASES[label].choices
    assert {one.virtual_stages for one in choices} == virtual_stages
    assert {one.micro_batch for one in choices} <= micro_batches
    assert {one.attention for one in choices} == attention
    for choice in choices:
        assert CASES[label].job(0.7, choice).attention == choice.attention


def test_the_ends_of_each_open_decision_are_simulated_alone() -> None:
    assert simulated_choices(CASES["A3 16384 131K"]) == (
        PublishedChoice(8, 1, "flash-2"),
        PublishedChoice(2, 1, "flash-2"),
        PublishedChoice(8, 1, "flash-3"),
    )


def test_rows_without_a_pipeline_are_predicted(small: pd.DataFrame) -> None:
    known = small[small.published.notna()].set_index("case")
    assert known.error.abs().max() < 0.07
    assert abs(known.error["A1 7.5B"]) < 1e-4
    assert known.fitted.to_dict() == {label: label == "A1 7.5B" for label in known.index}
    assert 0.5 < known.efficiency.unique().item() < 1.0


def test_long_context_and_larger_models_follow_from_8b_at_8k() -> None:
    """In 8 bits: attention, logits and conversions have other rates than products of layers."""
    fitted = CASES["A8 torchtitan FP8 8B 8"]
    labels = [label for label in CASES if label.startswith(("A9 ", "A8 torchtitan FP8 "))]
    mine = tuple(CASES[label] for label in labels)
    rows = study.predictions(mine, simulate(Group(mine, fitted)).rows)
    error = rows[~rows.fitted].set_index("case").error.abs()
    assert error[["A8 torchtitan FP8 8B 128", "A8 torchtitan FP8 70B 256"]].max() < 0.06
    long = error[[label for label in error.index if label.startswith("A9 ")]]
    assert len(long) == 4
    assert long.mean() < 0.12
    # The last rank attends to all others without masked blocks. Even ranks would be 1.6 times as
    # fast.
    assert error[["A9 8B 128K", "A9 8B 256K"]].max() < 0.06


def test_rows_name_what_they_were_fitted_on(small: pd.DataFrame) -> None:
    named = {"predictions": small.assign(quantity=small.unit.map(study.QUANTITIES), kind="")}
    rows = list(listed_rows("step_time", named))
    assert [row.setting for row in rows] == list(SMALL)
    assert {row.scheme for row in rows} == {"Megatron-LM 2021, A100, fitted on A1 7.5B"}
    assert [row.published is None for row in rows] == [False, True, False, False]
    json.dumps([row.as_dict() for row in rows], allow_nan=False)


def test_errors_leave_out_the_fitted_row(small: pd.DataFrame) -> None:
    (row,) = study.errors(small).to_dict("records")
    assert row["rows"] == 2
    errors = small.set_index("case").error.abs()[["A1 1.7B", "A1 18.4B"]]
    assert row["mean"] == pytest.approx(100 * errors.mean())
    assert row["worst"] == pytest.approx(100 * errors.max())


@pytest.mark.parametrize("gpu", GPUS)
def test_collectives_are_simulated_at_the_speed_they_are_given(gpu: str) -> None:
    table = bus_bandwidths(gpu)
    assert (table.simulated / table.published - 1.0).abs().max() < 0.03


@pytest.mark.paper("Megatron-LM and others", "57 published steps", "reproduce-step-time")
@pytest.mark.slow
def test_the_whole_study_from_the_command_line(cli: Cli, tmp_path: Path) -> None:
    rows = cli.reproduced("step-time", tmp_path)
    settings = {row["setting"] for row in rows}
    assert set(CASES) <= settings
    errors = {row["scheme"]: row["simulated"] for row in rows if row["quantity"] == "mean error"}
    worst = {row["scheme"]: row["simulated"] for row in rows if row["quantity"] == "worst error"}
    assert errors["A1"] < 3.0
    assert worst["A1"] < 7.0
    assert worst["A2"] < 8.0
    assert errors["A4"] < 9.0
    assert errors["A5"] < 9.0
    assert max(worst[section] for section in ("A6", "A7", "A8")) < 15.0
    assert errors["A8"] < 5.0
    assert max(errors.values()) < 12.0
    seconds = {row["setting"]: row["simulated"] for row in rows if row["quantity"] == "step time"}
    for size, published in (("175B", 18.13 / 13.75), ("1T", 94.42 / 71.49)):
        ratio = seconds[f"A2 {size} full"] / seconds[f"A2 {size} selective"]
        assert ratio == pytest.approx(published, rel=0.05)
    found = sorted((row["setting"], row["unit"]) for row in rows if row["setting"] in CASES)
    assert found == sorted((case.label, unit) for case in cases() for unit, _ in case.outputs)
