"""Warm standbys: which group moves what, and hot restarts in place."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.runs.single_run import run
from faultline.strategies.interface.recovery import RESTART, RESTART_AS_IS, Move
from faultline.strategies.interface.scheme import Continue, Hit, WipeOut
from faultline.strategies.plugins.registry import build_strategy, strategy_class
from faultline.strategies.schemes.warm_standby import TAKEN_ROLE
from faultline.testing import check_scheme


def test_the_state_of_what_failed_moves_and_nothing_else_changes() -> None:
    scheme = build_strategy("warm-standby", 3, 1)
    plan = scheme.plan()
    for hit in (Hit(1, 8, 15, 32), Hit(2, 5, 6, 32)):
        scheme.on_hit(hit)
    verdict = scheme.on_failures([1, 2])
    assert isinstance(verdict, Continue)
    assert (verdict.dropped, verdict.carried_on, scheme.plan()) == ((), (1, 2), plan)
    assert verdict.patch == {0: 1, 1: 1, 2: 1}
    assert verdict.recovery is not None
    assert verdict.recovery.moves == (Move(1, 1, 1, 4), Move(2, 5, 5, 32), Move(2, 6, 6, 32))
    assert verdict.recovery.replaces_hardware
    assert not verdict.recovery.starts_processes


def test_a_part_that_no_replica_has_is_a_restart() -> None:
    for last, verdict in ((3, WipeOut), (4, Continue)):
        scheme = build_strategy("warm-standby", 2, 1)
        scheme.on_hit(Hit(0, 0, 3, 8))
        scheme.on_hit(Hit(1, last, last, 8))
        assert isinstance(scheme.on_failures([0, 1]), verdict)


def test_it_keeps_the_contract() -> None:
    check_scheme(strategy_class("warm-standby"), groups=6)


JOB = {
    "job.groups": 8,
    "job.gpus": 256,
    "job.steps": 2000,
    "times.compute_s": 20.0,
    "times.all_reduce_s": 1.0,
    "times.checkpoint_write_s": 1.0,
    "checkpoint.interval_steps": 10,
    "failures.mtbf_s": 6000.0,
    "failures.component": "gpu",
    "recovery.preset": "hot-swap",
    "recovery.reschedule_s": 600.0,
    "recovery.shortage": "reschedule",
    "times.restart_s": None,
    "platform.file": "hgx-h100",
}


def job_with(tmp_path: Path, **changes: object):  # type: ignore[no-untyped-def]
    path = tmp_path / "own.toml"
    path.write_text("version = 2\n", encoding="utf-8")
    stated = {key.replace("__", "."): value for key, value in changes.items()}
    return load_scenario(str(path), JOB | stated)


def test_standbys_run_out_and_then_processes_start_on_what_is_found(tmp_path: Path) -> None:
    """Two standbys without replacement, then 600 s more each; with a quick replacement, none."""
    scenario = job_with(tmp_path, strategy__name="warm-standby", recovery__standbys=2)
    prices = recovery_prices(scenario)
    short_s = prices.duration_s(TAKEN_ROLE.without_standbys())
    each_s = prices.duration_s(TAKEN_ROLE)
    assert short_s == pytest.approx(each_s + 600.0 + prices.launch_s)
    quick, never = (run(scenario.change({"recovery.replenish_s": s}), 1) for s in (1.0, 1e9))
    for record in (quick, never):
        assert record["restarts"] == 0
        assert record["reorderings"] > 4
    moved_s = quick["reconfigure_s"] / quick["reorderings"] - each_s
    # State moves as flows: less than a second.
    assert 0 <= moved_s < 1
    late = never["reorderings"] - 2
    stalls_s = 2 * each_s + late * short_s + never["reorderings"] * moved_s
    assert never["reconfigure_s"] == pytest.approx(stalls_s, rel=0.01)


@pytest.mark.parametrize("engine", ["replay", "simgrid"])
def test_failures_of_software_restart_in_place_and_again_they_evict(
    engine: str, tmp_path: Path
) -> None:
    scenario = job_with(
        tmp_path,
        strategy__name="checkpoint",
        recovery__preset="stock",
        recovery__transient="in-place",
        job__steps=80,
        job__gpus=64,
        failures__mtbf_s=500.0,
        checkpoint__interval_steps=1,
    )
    prices = recovery_prices(scenario)
    found_s, in_place_s = (prices.duration_s(one) for one in (RESTART, RESTART_AS_IS))
    assert found_s - in_place_s == pytest.approx(prices.hardware_s)
    soft = run(scenario.change({"failures.hardware_share": 0.0}), 1, engine)  # type: ignore[arg-type]
    hard = run(scenario.change({"failures.hardware_share": 1.0}), 1, engine)  # type: ignore[arg-type]
    assert soft["restarts"] > 1
    # Once the job fails again in the very step that would have been saved.
    evicted_s = soft["restart_s"] - soft["restarts"] * in_place_s
    assert evicted_s == pytest.approx(prices.hardware_s)
    assert hard["restart_s"] == pytest.approx(hard["restarts"] * found_s)
    # Nothing is saved between failures: each but the first evicts.
    again = scenario.change(
        {"failures.hardware_share": 0.0, "checkpoint.interval_steps": 10**6, "job.steps": 40}
    )
    record = run(again, 1, engine)  # type: ignore[arg-type]
    late = record["restarts"] - 1
    assert late >= 1
    assert record["restart_s"] == pytest.approx(in_place_s + late * found_s)
