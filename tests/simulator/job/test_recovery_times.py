"""What recoveries take: phases by hand, moves over a platform, standbys, tails."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import durations_of
from faultline.experiments.runs.single_run import run
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.job.recovery_times import (
    CommunicatorTime,
    RecoveryPrices,
    RecoveryTimes,
    sent_moves,
)
from faultline.strategies.interface.recovery import (
    RESTART,
    RESTART_AS_IS,
    SHRINK,
    Communicators,
    Move,
    Recovery,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.simulator.helpers import edited, state_in, traced

PRICES = RecoveryPrices(
    gpus=1024,
    detect_s=10.0,
    diagnose_s=5.0,
    hardware_s=100.0,
    launch_s=40.0,
    warm_up_s=7.0,
    communicator=CommunicatorTime(1.0, 2.0),
)


def test_a_restart_has_all_phases_and_a_shrinking_few() -> None:
    durations_s = {phase.name: phase.duration_s for phase in PRICES.phases(RESTART)}
    assert durations_s == {
        "detect": 10.0,
        "diagnose": 5.0,
        "hardware": 100.0,
        "launch": 40.0,
        "communicators": pytest.approx(1.0 + 2.0 * 1.024),
        "warm-up": 7.0,
    }
    assert PRICES.duration_s(RESTART_AS_IS) == pytest.approx(sum(durations_s.values()) - 100.0)
    assert [phase.name for phase in PRICES.phases(SHRINK)] == [
        "detect",
        "diagnose",
        "communicators",
    ]


def test_communicators_cost_by_the_ranks_that_each_connects() -> None:
    """Of few ranks each takes 1.3 s and 0.0875 s a rank, as NCCL was measured; one has no peer."""
    made = Recovery("re-form", (Communicators(32, 4 / 1024), Communicators(1, 1 / 1024)))
    prices = RecoveryPrices(gpus=1024, communicator=CommunicatorTime(5.3, 1.01, 1.0, 0.0177))
    assert prices.duration_s(made) == pytest.approx(32 * (1.3 + 0.0875 * 4))
    stock = prices.communicator
    assert [round(stock(ranks), 1) for ranks in (8000, 32_000, 96_000)] == [14.5, 55.7, 265.4]


def test_what_is_expected_is_not_detected_and_a_stated_time_is_all_of_it() -> None:
    back = Recovery("hand-back", is_expected=True)
    assert "detect" not in {phase.name for phase in PRICES.phases(back)}
    assert RecoveryPrices(stated_s={"shrink": 2.0}).duration_s(SHRINK) == 2.0


@given(
    groups=st.integers(2, 40),
    receiving=st.sets(st.integers(0, 39), min_size=1, max_size=6),
    down=st.sets(st.integers(0, 39), max_size=20),
)
def test_the_sender_is_up_and_another_group(
    groups: int, receiving: set[int], down: set[int]
) -> None:
    moves = [Move(group, 0, 1, 4) for group in sorted({one % groups for one in receiving})]
    able = set(range(groups)) - down
    for move, sender in sent_moves(moves, able):
        others = able - {move.group}
        spared = others - {one.group for one in moves}
        if sender is None:
            # No rank, or only receivers of which the only other is this one.
            assert not spared
        else:
            chosen = spared or others
            assert sender == min(chosen, key=lambda group: (group - move.group) % groups)


def test_senders_of_twenty_thousand_moves() -> None:
    moves = [Move(group, 0, 1, 4) for group in range(20_000)]
    sent = sent_moves(moves, range(20_000))
    assert [sender for _, sender in sent] == [*range(1, 20_000), 0]


def test_bytes_of_a_stage_are_those_of_its_gpus() -> None:
    hosts = [[f"gpu-{8 * group + place}" for place in range(8)] for group in range(4)]
    state = state_in(hosts, 100.0, 8)
    (move,) = sent_moves([Move(1, 0, 2, 4, 0.5)], range(4))
    # Two GPUs a stage: those of stage 2 of the next group send, those of stage 0 receive.
    assert state.state_flows([move]) == [("gpu-20", "gpu-8", 50), ("gpu-21", "gpu-9", 50)]
    assert state.state_bytes_of([move.move]) == 100.0
    # More stages than GPUs: a GPU has two of sixteen, and receives half of what it holds.
    (small,) = sent_moves([Move(1, 5, 5, 16)], range(4))
    assert state.state_flows([small]) == [("gpu-18", "gpu-10", 50)]


def test_a_stage_takes_its_bytes_over_the_adapter_and_a_slow_one_longer(tmp_path: Path) -> None:
    """Groups are the servers of hgx-a800, a GPU a stage; then one adapter has a tenth."""
    path = tmp_path / "servers.xml"
    write_xml(load_preset("hgx-a800"), path)
    changes = {"platform.file": str(path)}
    scenario = load_scenario("mecefo-7b", changes)
    moves = durations_of(scenario).moves
    assert moves is not None
    (usual,) = sent_moves([Move(1, 0, 0, 8)], range(4))
    usual_s = moves.duration_s([usual])
    assert usual_s == pytest.approx(9.07e10 / 8 / 25e9, rel=0.1)
    edited(path, path, r'("nic-000016" bandwidth=)"25GBps"', r'\1"2.5GBps"')
    slow = durations_of(load_scenario("mecefo-7b", changes)).moves
    assert slow is not None
    assert slow.duration_s([usual]) == pytest.approx(10 * usual_s, rel=0.1)
    (spared,) = sent_moves([Move(1, 1, 1, 8)], range(4))
    assert slow.duration_s([spared]) == pytest.approx(usual_s, rel=0.01)


def test_factors_of_a_tail_have_mean_one_and_are_the_seed_s_alone() -> None:
    prices = RecoveryPrices(spread=1.0, stated_s={"shrink": 10.0, "restart": 500.0})
    shrinks, restarts = (RecoveryTimes(prices, 3) for _ in range(2))
    drawn = [shrinks.duration_s(SHRINK) / 10.0 for _ in range(4000)]
    assert drawn == pytest.approx([restarts.duration_s(RESTART) / 500.0 for _ in range(4000)])
    # A lognormal of sigma 1: four standard errors of the mean of 4,000 are 8 %.
    assert fmean(drawn) == pytest.approx(1.0, abs=0.09)
    assert fmean(map(log, drawn)) == pytest.approx(-0.5, abs=0.07)
    assert sorted(drawn)[2000] == pytest.approx(exp(-0.5), rel=0.08)


@pytest.mark.parametrize(
    ("scenario", "changes"),
    [
        ("mecefo-7b", {"job.steps": 20_000}),
        ("spare-sound", {"job.steps": 300, "rejoin.when": "at-checkpoint"}),
    ],
)
def test_any_scheme_may_have_standbys(scenario: str, changes: dict[str, Any]) -> None:
    """It is done sooner with three than with none, and sooner still with more than ever fail."""
    loaded = load_scenario(scenario, changes | {"rejoin.repair_s": 7200.0})
    shared = {"recovery.hardware": "standby", "recovery.shortage": "reschedule"}
    records = [
        run(loaded.change({**shared, "recovery.standbys": standbys}), 1) for standbys in (0, 3, 50)
    ]
    none, few, enough = (record["time_s"] for record in records)
    assert none > few > enough
    if scenario == "mecefo-7b":
        # Four servers, one of which fails every 1,800 s: one of 50 that stand by every 144 s.
        expected = 50 * enough / (7200.0 + 7200.0)
        assert records[-1]["standby_failures"] == pytest.approx(expected, rel=0.25)


def test_a_host_that_stands_for_a_whole_group_simulates_its_fullest_gpu() -> None:
    """Stages are on different GPUs, each with its own adapter: only what one receives adds up."""
    state = state_in([["gpu-0"], ["gpu-1"], ["gpu-2"]], 100.0, 32)
    moves = sent_moves([Move(0, 0, 1, 4), Move(0, 0, 2, 4), Move(0, 3, 3, 4)], range(3))
    assert state.state_flows(moves) == [("gpu-1", "gpu-0", 100)] * 2


@pytest.mark.parametrize("scheme", ["checkpoint", "replica-drop"])
@pytest.mark.parametrize(
    ("component", "kind", "detected_s"),
    [
        ("gpu-3", "hardware", 10.0),
        ("gpu-3", "software", 2.0),
        ("gpu-3", "preemption", 5.6),
        ("adapter-3", "network", 30.0),
        ("switch-0", "network", 60.0),
    ],
)
def test_what_has_failed_is_detected_sooner_or_later(
    tmp_path: Path, scheme: str, component: str, kind: str, detected_s: float
) -> None:
    """One failure: with `by-kind` the run takes longer by the difference, in both engines."""
    settings = [
        *traced(tmp_path, f"40,{component},{kind},,,60s"),
        *("failures.clock=renewal", "~failures.distribution", "~failures.mtbf_s"),
        *("~failures.shape", f"strategy.name={scheme}", "job.steps=20", "~times.restart_s"),
        *("recovery.detect_s=7", "failures.gpus_per_switch=8"),
    ]
    scenario = load_scenario("mecefo-7b", settings)
    by_kind = scenario.change({"recovery.detected": "by-kind"})
    for engine in ("replay", "simgrid"):
        alike, kinds = run(scenario, 1, engine), run(by_kind, 1, engine)
        assert alike["events"] > 0
        assert kinds["time_s"] - alike["time_s"] == pytest.approx(detected_s - 7.0, abs=1e-6)


def test_a_group_without_a_standby_waits_for_other_hardware() -> None:
    """In the phase of hardware, with its share of the tail; and on top of a time that is stated."""
    prices = RecoveryPrices(hardware_s=10.0, without_standby_s=80.0, launch_s=5.0)
    usual, lacking = RESTART, RESTART.without_standbys()
    assert [phase[:2] for phase in prices.phases(usual)] == [("hardware", 10), ("launch", 5)]
    assert [phase[:2] for phase in prices.phases(lacking)] == [("hardware", 90), ("launch", 5)]
    stated = replace(prices, stated_s={"restart": 30.0})
    assert (stated.duration_s(usual), stated.duration_s(lacking)) == (30.0, 110.0)
