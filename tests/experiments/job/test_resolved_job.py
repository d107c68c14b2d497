"""From a scenario to the times of its phases: what is modelled, explained, and refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.cli import main
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.choices import predict_job
from faultline.experiments.job.durations import durations_of, recovery_prices
from faultline.experiments.job.recoveries import ExplainedRecovery, explained_recoveries
from faultline.experiments.job.resolving import resolve
from faultline.experiments.job.sources import Number
from faultline.experiments.job.stated_job import filled_in
from faultline.experiments.runs.single_run import run, scenario_hash
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.job.job import Rules
from faultline.strategies.interface.recovery import RESTART


@pytest.mark.parametrize(
    ("gpus", "measured_s"), [(2048, 454), (4096, 545), (8192, 635), (16384, 768)]
)
def test_a_modelled_restart_follows_the_measured_ones(gpus: int, measured_s: float) -> None:
    """ByteRobust (arXiv 2509.16293) measured restarts by requeue; the phases are within 2 %."""
    stock = ["recovery.preset=stock", "recovery.detect_s=0"]
    scenario = load_scenario(
        "spare-sound", ["~times.restart_s", f"job.gpus={gpus}", "job.groups=16", *stock]
    )
    assert recovery_prices(scenario).duration_s(RESTART) == pytest.approx(measured_s, rel=0.02)


def test_loading_at_once_takes_as_many_times_as_long_as_there_are_groups() -> None:
    """The file system is shared by all; a group that passes the checkpoint on reads it once."""
    alone, all_at_once = (
        durations_of(
            load_scenario("spare-sound", ["job.groups=8", f"restart.readers={readers}"])
        ).load_s
        for readers in ("one-group", "every-group")
    )
    # 2e13 bytes at 340 GB/s a group; passing it on takes the fabric's half a second on top.
    assert all_at_once == pytest.approx(8 * 58.82, rel=1e-3)
    assert 58.82 < alone < 60


def test_a_restart_that_no_group_survives_is_refused() -> None:
    with pytest.raises(UserError, match="failure_during"):
        resolve(load_scenario("spare-study", ["failures.mtbf_s=0.01"]))


def test_a_watchdog_that_fires_in_a_sound_all_reduce_is_refused() -> None:
    settings = ["detection.mode=watchdog", "detection.watchdog_s=1"]
    with pytest.raises(UserError, match="watchdog_s"):
        resolve(load_scenario("spare-study", settings))


def test_an_edited_platform_is_another_scenario(tmp_path: Path) -> None:
    path = tmp_path / "platform.xml"
    write_xml(load_preset("spare-600k", groups=8), path)
    scenario = load_scenario("spare-study", [f'platform.file="{path}"'])
    before = scenario_hash(resolve(scenario))
    path.write_text(path.read_text(encoding="utf-8") + "<!-- edited -->", encoding="utf-8")
    assert scenario_hash(resolve(scenario)) != before


def test_a_platform_needs_no_host_for_the_controller(tmp_path: Path) -> None:
    path = tmp_path / "headless.xml"
    write_xml(load_preset("spare-600k", groups=8), path)
    stated = ["job.groups=8", f'platform.file="{path}"']
    expected = resolve(load_scenario("spare-sound", stated)).durations.save_s
    text = path.read_text(encoding="utf-8").replace('"controller"', '"kontroller"')
    path.write_text(text, encoding="utf-8")
    assert resolve(load_scenario("spare-sound", stated)).durations.save_s == expected


def test_failures_are_read_once(tmp_path: Path) -> None:
    """Whatever is computed from a job later, it has the failures that it was resolved with."""
    path = tmp_path / "failures.csv"
    path.write_text("time,component\n100,group-0\n7000,group-3\n", encoding="utf-8")
    model = {"failures.model": "trace", "failures.trace": str(path), "failures.trace_span_s": 9e3}
    model["failures.clock"] = "renewal"
    scenario = load_scenario("spare-study", {"job.groups": 8, "strategy.name": "spare", **model})
    resolved = resolve(scenario)
    predicted = predict_job(resolved)
    path.unlink()
    assert resolved.job(0).failures is resolved.failures
    assert resolved.costs().mtbf_s == resolved.failures.mtbf_s == 4500.0
    assert predict_job(resolved) == predicted
    assert filled_in(resolved).failures.trace_span_s == 9e3


def test_a_shorter_job_is_the_same_but_for_its_length() -> None:
    resolved = resolve(load_scenario("spare-study", {"strategy.name": "spare"}))
    short = resolved.shortened(50, 1e6)
    assert (short.job(0).work.steps, short.job(0).work.time_limit_s) == (50, 1e6)
    assert short.shortened(resolved.scenario.job.steps) == resolved


def test_every_rule_of_the_engines_is_a_key_of_a_scenario() -> None:
    study = load_scenario("spare-study", {"detection.mode": "watchdog", "detection.watchdog_s": 7})
    assert resolve(study).rules == Rules(
        clock="from-detection",
        detection="watchdog",
        failed_all_reduce_fraction=0.5,
        watchdog_s=7.0,
        failure_in_all_reduce="next-step",
        fixed_step="commits",
        failure_in_restart="begins-anew",
        failure_while_waiting="surfaces",
        resume="redo",
        failed_writer="skips",
        rejoin="at-restart",
    )


def test_what_is_left_out_of_the_stated_times_is_derived() -> None:
    study = resolve(load_scenario("spare-study"))
    phases = ("compute", "all_reduce", "checkpoint", "load", "restart")
    assert {study.sources[phase] for phase in phases} == {"stated"}
    left_out = resolve(load_scenario("spare-study", ["~times.compute_s", "~times.restart_s"]))
    assert {phase for phase in phases if left_out.sources[phase] == "derived"} == {
        "compute",
        "restart",
    }
    assert left_out.ideal_step_s == 10.0 + 2.0


def test_each_choice_and_rate_has_its_source() -> None:
    numbers: tuple[Number, ...] = ("failures", "redundancy", "checkpoint_interval", "standbys")
    keys = ("failures.mtbf_s", "strategy.redundancy", "checkpoint.interval_steps")
    left_open = resolve(load_scenario("spare-study", [f"~{key}" for key in keys]))
    assert {left_open.sources[number] for number in numbers} == {"derived"}
    stated = {**dict(zip(keys, (300.0, 3, 17), strict=True)), "recovery.standbys": 2}
    assert {resolve(load_scenario("spare-study", stated)).sources[one] for one in numbers} == {
        "stated"
    }


JOB = ["job.steps=4", "job.compute_jitter=0", "~times.restart_s"]


def explained(scheme: str, *changes: str) -> dict[str, float]:
    """Return the seconds of each phase after a GPU has failed."""
    recoveries = explained_recoveries(
        load_scenario("llama3-70b-stress", [*JOB, *changes]), [scheme]
    )
    first = next(one for one in recoveries if isinstance(one, ExplainedRecovery))
    assert first.event == "a GPU fails"
    return {phase.name: phase.duration_s for phase in first.phases}


@pytest.mark.parametrize("hardware", ["standby", "reschedule", "in-place"])
def test_a_role_is_taken_without_standbys(hardware: str, tmp_path: Path) -> None:
    """Processes start anew on the machine that is found."""
    trace = tmp_path / "trace.csv"
    trace.write_text("time,component,kind\n10,gpu-0,hardware\n", encoding="utf-8")
    keys = ["strategy.name=warm-standby", f"recovery.hardware={hardware}", "recovery.standbys=0"]
    failing = ["failures.model=trace", f'failures.trace="{trace}"', "~failures.mtbf_s"]
    record = run(load_scenario("llama3-70b-stress", [*JOB, *keys, *failing]), 0)
    phases = explained("warm-standby", *keys)
    assert phases["launch"] > 0.0
    # A repair begins with the failure, which is noticed at the end of the step.
    assert record["reconfigure_s"] == pytest.approx(sum(phases.values()), abs=record["step_s"])


def test_a_gpu_is_detected_as_one() -> None:
    keys = ["recovery.detected=by-kind", "recovery.detect_s=77"]
    assert explained("checkpoint", *keys)["detect"] == 10.0


def test_a_failure_that_needs_a_restart_needs_it_at_once() -> None:
    """Also where a neighbour would take the stage over, for which no process starts."""
    assert "launch" not in explained("mecefo")
    assert "launch" in explained("mecefo", "model.optimizer_backup=none")


def test_a_job_that_no_scheme_can_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--set", "model.pipeline=100", "--schemes", "spare,checkpoint"]
    assert main(["explain-recovery", "llama3-70b-stress", *wrong]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.parametrize("scheme", ["checkpoint", "replica-drop"])
def test_storage_beside_memory_is_written_as_often_as_corruption_needs(
    scheme: str, tmp_path: Path
) -> None:
    """After corruption only a state on storage is known to be sound, whatever the scheme masks."""
    mix = tmp_path / "mix.toml"
    corrupt = '[[cause]]\nname = "{}"\nlevel = "gpu"\nkind = "corrupt"\nlasts = "2h"\n'
    crash = '[[cause]]\nname = "crash"\nlevel = "gpu"\nkind = "software"\n'
    rate = "per_1000_node_days = {}\n"

    def interval_s(per_1000_node_days: float) -> float:
        causes = (
            crash + rate.format(5.0) + corrupt.format("silent") + rate.format(per_1000_node_days)
        )
        mix.write_text(f'source = "chosen"\n{causes}', encoding="utf-8")
        keys = [f"strategy.name={scheme}", "strategy.redundancy=1"]
        keys += ["protection.name=just-in-time", "failures.model=mix", f'failures.mix="{mix}"']
        keys += ["failures.clock=renewal", "~failures.mtbf_s", "times.checkpoint_write_s=60"]
        resolved = resolve(load_scenario("spare-sound", keys))
        return resolved.interval_steps * resolved.ideal_step_s

    # Four times as much corruption: half the period, by Young's formula.
    assert interval_s(0.01) == pytest.approx(interval_s(0.04) * 2, rel=0.1)
