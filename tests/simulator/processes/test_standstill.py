"""Jobs that would never end are refused."""

from __future__ import annotations

import pytest
from faultline.experiments.config.scenario_file import load_scenario

from tests.experiments.command_line import Cli

pytestmark = pytest.mark.system


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.mark.parametrize(
    "setting", ["times.shrink_s=1e9", "times.shrink_s=1e8", "times.compute_s=1e9"]
)
def test_a_job_that_fails_for_ever_is_refused(setting: str, ask: Cli) -> None:
    printed = ask.refused("run", "spare-study", "--set", "job.steps=5", "--set", setting)
    assert "would never end" in printed or "more than a million failures" in printed


def test_the_default_time_limit_is_one_that_no_job_meets() -> None:
    limit_s = load_scenario("spare-study").job.time_limit_s
    assert limit_s == pytest.approx(100 * 365.25 * 86_400)


def test_a_job_with_many_failures_that_gets_on_is_simulated_to_its_end(ask: Cli) -> None:
    words = ("run", "spare-study", "--set", "job.steps=50", "--set", "failures.mtbf_s=100")
    assert ask.json(*words)["completed_steps"] == 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "redundancy", "mtbf_s"), [("checkpoint", 1, 30_000), ("spare", 9, 300)]
)
def test_a_hundred_thousand_groups_are_simulated(
    scheme: str, redundancy: int, mtbf_s: float, ask: Cli
) -> None:
    # A step of 100,000 groups takes 1,064 s: without redundancy none ends between two failures
    # that are 300 s apart.
    settings = ["job.groups=100000", "job.steps=300", f"strategy.name={scheme}"]
    settings += [f"strategy.redundancy={redundancy}", f"failures.mtbf_s={mtbf_s}"]
    words = [word for setting in settings for word in ("--set", setting)]
    assert ask.json("run", "spare-study", *words)["completed_steps"] == 300
