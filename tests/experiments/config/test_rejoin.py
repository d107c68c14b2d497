"""When dropped groups return, by scheme."""

from __future__ import annotations

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.job.resolved_job import resolve
from faultline.strategies.recovery import RESTART


def test_dropped_groups_return_as_the_source_of_the_scheme_has_it() -> None:
    """A stated rule holds for all schemes; otherwise replica drop alone takes groups back."""
    open_ = load_scenario("spare-sound", {"strategy.name": "replica-drop"})
    assert open_.rejoin.when == "at-checkpoint"
    assert "when" not in open_.stated().get("rejoin", {})
    assert open_.with_({"strategy.name": "spare"}).rejoin.when == "at-restart"
    assert open_.under("spare", "storage").rejoin.when == "at-restart"
    back = open_.under("spare", "storage").under("replica-drop", "gemini")
    assert (back.rejoin.when, back.protection.name) == ("at-checkpoint", "gemini")
    for when in ("at-restart", "at-checkpoint"):
        stated = load_scenario("spare-sound", {"rejoin.when": when})
        assert stated.under("replica-drop", "storage").rejoin.when == when
        assert stated.under("spare", "storage").rejoin.when == when


@pytest.mark.parametrize(
    ("scheme", "keys", "is_repaired"),
    [
        ("replica-drop", {}, False),
        ("replica-drop", {"recovery.shortage": "wait"}, True),
        ("replica-drop", {"times.restart_s": 60.0}, True),
        ("replica-drop", {"rejoin.when": "at-restart"}, True),
        ("spare", {}, False),
        ("spare", {"rejoin.when": "at-restart"}, True),
        ("ntp", {"rejoin.when": "at-checkpoint"}, True),
    ],
)
def test_a_shared_cluster_fills_the_place_of_a_dropped_group_as_in_a_restart(
    scheme: str, keys: dict[str, object], is_repaired: bool
) -> None:
    """Repairs take 4 days there, and a restart on other machines a quarter of an hour."""
    times = {"times.compute_s": 50.0, "times.all_reduce_s": 1.0, "times.checkpoint_write_s": 9.0}
    job = {"model.name": "stated", "job.gpus": 32_768, "restart.readers": None, **times}
    settings = {"strategy.name": scheme, "strategy.redundancy": 1, **job, **keys}
    question = resolve(load_scenario("head-to-head", settings))
    restart = recovery_prices(question.scenario)
    elsewhere_s = restart.duration_s(RESTART) - restart.detect_s
    assert 600.0 < elsewhere_s < 1_200.0 or is_repaired
    expected_s = question.scenario.rejoin.repair_s if is_repaired else elsewhere_s
    assert question.job(0).work.repair_s == pytest.approx(expected_s)
