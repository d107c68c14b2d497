"""When dropped groups return, by scheme."""

from __future__ import annotations

from math import inf

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.job.resolving import resolve
from faultline.strategies.interface.recovery import RESTART


def test_dropped_groups_return_as_the_source_of_the_scheme_has_it() -> None:
    """A stated rule holds for all schemes; otherwise replica drop alone takes groups back."""
    open_ = load_scenario("spare-sound", {"strategy.name": "replica-drop"})
    assert open_.rejoin.when == "at-checkpoint"
    assert "when" not in open_.stated().get("rejoin", {})
    assert open_.change({"strategy.name": "spare"}).rejoin.when == "at-restart"
    back = open_.change({"strategy.name": "spare"}).change({"strategy.name": "replica-drop"})
    assert back.rejoin.when == "at-checkpoint"
    for when in ("at-restart", "at-checkpoint"):
        stated = load_scenario("spare-sound", {"rejoin.when": when})
        for scheme in ("replica-drop", "spare"):
            assert stated.change({"strategy.name": scheme}).rejoin.when == when


JOB = {
    **{"model.name": "stated", "job.gpus": 32_768, "restart.readers": None},
    **{"times.compute_s": 50.0, "times.all_reduce_s": 1.0, "times.checkpoint_write_s": 9.0},
    **{"strategy.name": "replica-drop", "strategy.redundancy": 1},
}


def test_a_shared_cluster_fills_the_place_of_a_dropped_group_as_in_a_restart() -> None:
    """Repairs take 4 days there, and a restart on other machines a quarter of an hour."""
    resolved = resolve(load_scenario("head-to-head", JOB))
    restart, hardware = recovery_prices(resolved.scenario), resolved.hardware
    assert hardware.repair_s == 4 * 86_400.0
    assert hardware.replacement_s == pytest.approx(restart.duration_s(RESTART) - restart.detect_s)
    assert 600.0 < hardware.replacement_s < 1_200.0


def test_a_stated_restart_of_a_shared_cluster_replaces_a_dropped_group_in_its_time() -> None:
    hardware = resolve(load_scenario("head-to-head", {**JOB, "times.restart_s": 60.0})).hardware
    assert hardware.replacement_s == 60.0


def test_a_cluster_of_its_own_replaces_a_dropped_group_by_free_machines_alone() -> None:
    """The platform has none; a stated restart brings machines for restarts only."""
    own = {**JOB, "recovery.shortage": "wait"}
    assert resolve(load_scenario("head-to-head", own)).hardware.free_machines == 0
    stated = resolve(load_scenario("head-to-head", {**own, "times.restart_s": 60.0})).hardware
    assert (stated.free_machines, stated.replacement_s) == (None, inf)
