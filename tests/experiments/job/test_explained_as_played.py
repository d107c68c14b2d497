"""What is explained of a recovery is what a run of it does."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.cli import main
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.recoveries import ExplainedRecovery, explained_recoveries
from faultline.experiments.runs.single_run import run

JOB = ["job.steps=4", "job.compute_jitter=0", "~times.restart_s"]


def explained(scheme: str, *changes: str) -> dict[str, float]:
    """Return the seconds of each phase after a GPU has failed."""
    told = explained_recoveries(load_scenario("llama3-70b-hgx", [*JOB, *changes]), [scheme])
    first = next(one for one in told if isinstance(one, ExplainedRecovery))
    assert first.event == "a GPU fails"
    return {phase.name: phase.duration_s for phase in first.phases}


@pytest.mark.parametrize("hardware", ["standby", "reschedule", "in-place"])
def test_a_role_is_taken_without_standbys(hardware: str, tmp_path: Path) -> None:
    """Processes start anew on the machine that is found."""
    trace = tmp_path / "trace.csv"
    trace.write_text("time,component,kind\n10,gpu-0,hardware\n", encoding="utf-8")
    keys = ["strategy.name=warm-standby", f"recovery.hardware={hardware}", "recovery.standbys=0"]
    failing = ["failures.model=trace", f'failures.trace="{trace}"', "~failures.mtbf_s"]
    record = run(load_scenario("llama3-70b-hgx", [*JOB, *keys, *failing]), 0)
    phases = explained("warm-standby", *keys)
    assert phases["launch"] > 0.0
    assert record["reconfigure_s"] == pytest.approx(sum(phases.values()), rel=1e-6)


def test_a_gpu_is_detected_as_one() -> None:
    keys = ["recovery.detected=by-kind", "recovery.detect_s=77"]
    assert explained("checkpoint", *keys)["detect"] == 10.0


def test_a_failure_that_needs_a_restart_needs_it_at_once() -> None:
    """Also where a neighbour would take the stage over, for which no process starts."""
    assert "launch" not in explained("mecefo")
    assert "launch" in explained("mecefo", "model.optimizer_backup=none")


def test_a_job_that_no_scheme_can_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--set", "model.pipeline=3", "--schemes", "spare", "checkpoint"]
    assert main(["explain-recovery", "llama3-70b-hgx", *wrong]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
