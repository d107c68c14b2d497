"""Components of independent groups: which one fails depends on the seed alone, not on who looks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.single_run import run
from faultline.simulator.failures.clocks import RenewalClocks
from faultline.simulator.failures.distributions import Exponential
from faultline.simulator.failures.failure import Failure, JobLayout
from faultline.simulator.failures.victims import WHOLE_GROUPS, ComponentChoice, Victims

HOSTS = ComponentChoice(JobLayout(3, 64, 8, 8, 0), "host", 0.5)


def taken(*, looks_at: Callable[[int], bool]) -> list[Failure]:
    """Return 60 failures of three groups, of which some are looked at when they are taken."""
    clocks = RenewalClocks(Exponential(100.0), 3, 5, "renewal", HOSTS)
    failures = []
    for index in range(60):
        failures.append(clocks.take(index % 3))
        if looks_at(index):
            assert failures[-1].number // 8 == index % 3
    return failures


def test_looking_at_a_failure_changes_no_other() -> None:
    at_once = taken(looks_at=lambda _: True)
    assert at_once == taken(looks_at=lambda _: False)
    assert at_once == taken(looks_at=lambda index: index % 7 == 0)
    # In the opposite order the latest draws are not enough: streams begin anew.
    later = taken(looks_at=lambda _: False)
    assert [repr(one) for one in reversed(later)] == [repr(one) for one in reversed(at_once)]
    assert {one.kind for one in at_once} == {"hardware", "software"}
    assert len({one.number for one in at_once}) > 12


def test_a_failure_of_a_group_equals_the_failure_that_it_stands_for() -> None:
    clocks = RenewalClocks(Exponential(100.0), 2, 5, "renewal", WHOLE_GROUPS)
    at_s = clocks.next_failure_s[1]
    stated = Failure(at_s, "group", 1, "unstated", "hardware", None, range(1, 2))
    assert clocks.peek(1) == stated
    assert stated == clocks.peek(1)
    assert clocks.peek(1) in {stated}
    assert clocks.peek(1) != clocks.peek(0)
    assert clocks.peek(1)._replace(kind="software") == stated._replace(kind="software")


@pytest.mark.parametrize(
    ("protection", "draws"),
    [([], False), (["protection.name=reft", "times.snapshot_load_s=10"], True)],
)
def test_components_are_drawn_only_for_a_job_that_loses_hosts(
    monkeypatch: pytest.MonkeyPatch, protection: list[str], draws: bool
) -> None:
    drawn, of = [], Victims.of
    monkeypatch.setattr(Victims, "of", lambda *call: drawn.append(call) or of(*call))
    record = run(load_scenario("spare-study", ["job.steps=200", *protection]), 0)
    assert record["hits"] > 30
    assert bool(drawn) == draws
