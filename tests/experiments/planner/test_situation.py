"""The job of a plan: its size, failures, machines and times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from faultline.experiments.analysis.quantities import time_text
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.recoveries import ExplainedRecovery, explained_recoveries
from faultline.experiments.job.resolving import resolve
from faultline.experiments.job.step_times import step_time_of
from faultline.experiments.planner.situation import (
    choices_of,
    read_situation,
)
from faultline.experiments.runs.single_run import run
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml

from tests.experiments.planner.small_jobs import STATED, small


def test_days_count_the_simulated_step_time() -> None:
    """The scenario states no compute, so that days follow from the step that SimGrid simulates."""
    situation = read_situation("llama3-70b-stress")
    resolved = resolve(load_scenario("llama3-70b-stress"))
    assert resolved.step is not None
    assert situation.ideal_step_s == pytest.approx(resolved.ideal_step_s)
    assert situation.workload.compute_s == resolved.step.passes_s
    assert situation.ideal_s == pytest.approx(100 * resolved.ideal_step_s)


def test_recoveries_take_the_time_of_the_planned_gpus() -> None:
    stated = (*STATED, "~times.restart_s", "recovery.preset=stock")
    planned = read_situation("spare-sound", stated, gpus=2000).durations
    alone = read_situation("spare-sound", (*stated, "job.gpus=2000")).durations
    assert planned.recovery == alone.recovery
    assert planned.restart_s() == alone.restart_s()


def test_gpus_scale_the_failures_and_leave_the_groups() -> None:
    own = read_situation("spare-sound", STATED)
    scaled = read_situation("spare-sound", STATED, gpus=100_000)
    assert scaled.scenario.failures.mtbf_s == pytest.approx(6 * own.scenario.failures.mtbf_s)
    assert scaled.scenario.job.groups == own.scenario.job.groups
    assert scaled.scenario.job.gpus_of_group == 500
    # Recoveries depend on the number of GPUs; all other times stay.
    assert replace(scaled.durations, recovery=own.durations.recovery) == own.durations
    assert any("scaled with 1 / GPUs" in text for text in scaled.assumptions)


def test_a_note_says_why_failures_are_rarer_than_those_of_the_mix() -> None:
    """The cables of this cluster lead around each switch: 35 of Llama 3's 419 stops are none."""
    mix = ("failures.model=mix", "failures.mix=llama3")
    situation = read_situation("llama3-70b-stress", mix)
    whole_s = 54 * 86_400 / 419 * 16_384 / situation.scenario.job.all_gpus
    text = next(text for text in situation.assumptions if "switch-or-cable" in text)
    assert situation.mtbf_s == pytest.approx(whole_s * 419 / 384)
    assert time_text(whole_s) in text
    assert time_text(situation.mtbf_s) in text
    stated = read_situation("llama3-70b-stress", (*mix, "failures.gpus_per_switch=16"))
    assert stated.mtbf_s == pytest.approx(whole_s)
    assert not any("switch-or-cable" in text for text in stated.assumptions)


def test_a_note_says_what_was_hardly_meant() -> None:
    notes = "\n".join(
        read_situation("llama3-70b-stress", ("job.groups=1", "~job.steps")).assumptions
    )
    assert "uses 32 of the platform's 256 GPUs: 7 more groups would fit." in notes
    assert "100,000 steps are the default: state job.tokens or job.steps" in notes
    usual = read_situation("llama3-70b-stress", ("job.groups=8", "job.steps=300")).assumptions
    assert not any("would fit" in text or "the default: state" in text for text in usual)


def test_a_stated_mean_time_between_failures_is_kept() -> None:
    by_option = read_situation("spare-sound", STATED, gpus=100_000, mtbf_s=450.0)
    by_setting = read_situation("spare-sound", (*STATED, "failures.mtbf_s=450"), gpus=100_000)
    assert by_option.scenario.failures.mtbf_s == by_setting.scenario.failures.mtbf_s == 450.0


def test_a_named_model_is_planned_with_the_groups_that_the_gpus_make() -> None:
    """A group has as many GPUs as the model's layout: their number follows, and is measured."""
    model = ("model.micro_batches=4",)
    own = read_situation("llama3-70b-stress", model)
    situation = read_situation("llama3-70b-stress", model, gpus=130)
    alone = read_situation("llama3-70b-stress", ("job.groups=4", *model)).scenario
    assert situation.scenario.job.groups == 4
    assert situation.scenario.job.all_gpus == 128
    assert situation.mtbf_s == pytest.approx(own.mtbf_s * own.gpus / 128)
    step = step_time_of(alone)
    assert step is not None
    assert situation.workload.compute_s == pytest.approx(step.passes_s)
    assert "2 GPUs are left over: they do not fill a group." in situation.assumptions
    with pytest.raises(UserError, match=r"--gpus 30: cannot make a group; use 32 or more, or"):
        read_situation("llama3-70b-stress", model, gpus=30)


def test_a_stated_mean_scales_all_rates_of_a_mix() -> None:
    mix = (*STATED, "failures.model=mix", "~failures.mtbf_s")
    own = read_situation("spare-sound", mix)
    scaled = read_situation("spare-sound", mix, mtbf_s=7200.0)
    assert scaled.mtbf_s == pytest.approx(7200.0)
    assert own.mtbf_s < 7200.0 / 10
    (text,) = [text for text in scaled.assumptions if "scaled by one factor" in text]
    assert text.startswith("A failure every 2.00 hours, as stated: all rates of the mix llama3")


@pytest.mark.parametrize(
    ("settings", "mtbf_s", "printed"),
    [
        (["failures.model=trace", "failures.trace=t.csv"], 60.0, "--mtbf: has no effect with fail"),
        (["failures.model=mix", "failures.mtbf_s=60"], None, "60: has no effect with failures.rat"),
        (["protection.name=reft"], None, "compare by --protections"),
        (["strategy.name=spare"], None, "compare by --schemes"),
    ],
)
def test_a_setting_without_effect_on_a_plan_is_refused(
    settings: list[str], mtbf_s: float | None, printed: str
) -> None:
    with pytest.raises(UserError, match=printed):
        read_situation("spare-sound", settings, mtbf_s=mtbf_s)


def test_spare_groups_are_paid_for() -> None:
    parts_down = small(gpus=3000)
    paid = small("rejoin.when=at-checkpoint", "rejoin.spare_groups=3", gpus=3000)
    assert (parts_down.gpus, paid.gpus) == (3000, 3300)
    assert paid.gpu_hours(7200.0) == pytest.approx(1.1 * parts_down.gpu_hours(7200.0))


@pytest.mark.parametrize(
    ("settings", "text", "more_gpus"),
    [
        ((), "replaced within the restart", 0),
        (("~times.restart_s",), "none is free: a restart waits for repairs (3.00 hours", 0),
        (("~times.restart_s", "recovery.free_machines=3"), "3 free machines of 8 GPUs", 0),
        (("~times.restart_s", "recovery.shortage=requeue"), "shared cluster", 0),
        (
            ("recovery.hardware=standby", "recovery.standbys=5"),
            "5 machines of 8 GPUs on standby, paid",
            40,
        ),
    ],
)
def test_a_plan_prints_the_source_of_machines_and_charges_standbys(
    settings: tuple[str, ...], text: str, more_gpus: int
) -> None:
    situation = small(*settings)
    assert text in situation.machines
    job = situation.scenario.job
    assert situation.gpus == job.all_gpus + more_gpus
    assert situation.gpu_hours(7200.0) == pytest.approx(2 * (job.all_gpus + more_gpus))


def test_a_plan_prints_the_restart_time_of_the_closed_forms() -> None:
    """A job without other machines had a queue's 408 s there, and waited 3.4 days for a repair."""
    mixed = ("~times.restart_s", "failures.model=mix", "~failures.mtbf_s")
    filled, shared = small(*mixed), small(*mixed, "recovery.shortage=requeue")
    for situation in (filled, shared):
        resolved = choices_of(situation, "checkpoint", "storage")[0].resolved
        expected_s = resolved.restart_s + situation.durations.load_s
        assert situation.restart_s == pytest.approx(expected_s)
    (explained,) = explained_recoveries(filled.scenario_of("checkpoint", "storage"), ["checkpoint"])
    assert isinstance(explained, ExplainedRecovery)
    assert explained.duration_s == pytest.approx(filled.restart_s)
    assert filled.restart_s - shared.restart_s > filled.scenario.rejoin.repair_s


def test_a_platform_file_smaller_than_the_job_is_refused(tmp_path: Path) -> None:
    """Also where the scenario fits, and only --gpus is too large."""
    write_xml(load_preset("hgx-h100", domains=4, domains_per_leaf=4), tmp_path / "four.xml")
    settings = (*STATED, "job.groups=4", f'platform.file="{tmp_path / "four.xml"}"')
    fits = read_situation("spare-sound", (*settings, "job.gpus=32"), gpus=16)
    assert fits.scenario.job.all_gpus == 16
    for stated, gpus in (("job.gpus=32", 64), ("job.gpus=64", None)):
        with pytest.raises(UserError, match=r"has 32 GPUs, the job has 64; generate one"):
            read_situation("spare-sound", (*settings, stated), gpus=gpus)


def test_a_job_without_free_machines_is_slower_than_one_with_a_queue() -> None:
    """By closed forms as by simulation: nothing comes from nowhere."""
    settings = ("~times.restart_s", "rejoin.repair_s=86400")
    filled, shared = (
        resolve(
            small(*settings, *more, "failures.mtbf_s=1e6", "job.steps=100000").scenario_of(
                "checkpoint", "storage"
            )
        )
        for more in ((), ("recovery.shortage=requeue",))
    )
    waited_s = filled.restart_s - shared.restart_s
    queue_s = 408.0 * (600_000 / 2048) ** 0.255
    assert waited_s == pytest.approx(86_400.0 - queue_s, rel=1e-3)
    ratios = [
        [run(each, seed)["time_to_train_ratio"] for seed in (0, 1)] for each in (filled, shared)
    ]
    assert min(ratios[0]) > max(ratios[1]) > 1.0
