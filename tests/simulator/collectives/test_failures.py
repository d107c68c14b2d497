"""What dies in the middle of a collective leaves the others hanging until their watchdog fires.

Four HGX servers of eight GPUs, two servers below a leaf switch of each rail. 1 GB along a ring of
four GPUs of one rail takes 2 * 3/4 * 1 GB / 50 GB/s = 30 ms, so what happens after 10 ms is in the
middle of it; 1 GB among eight GPUs of one server takes 3.9 ms, and 2 ms are in its middle.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.platforms import load_preset, write_xml
from faultline.simulator.collectives.catalogue import Setting, schedule_of
from faultline.simulator.collectives.hierarchical import HierarchicalAllReduce
from faultline.simulator.collectives.ring import RingAllReduce
from faultline.simulator.collectives.schedule import Fidelity, Hop

from tests.simulator.collectives.stage_hand import Exit, Play, Victim, all_at_once

WATCHDOG_S = 5.0
HUNG = Exit(False, WATCHDOG_S)

both_fidelities = pytest.mark.parametrize("fidelity", ["flow", "chunk"])


def gpu(index: int) -> str:
    return f"gpu-{index:06d}"


RAIL = [gpu(8 * domain) for domain in range(4)]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("platform") / "hgx.xml"
    write_xml(load_preset("hgx-h100", domains=4, domains_per_leaf=2), path)
    return path


def test_without_a_failure_all_get_through(servers: Path) -> None:
    plays = [Play(RingAllReduce(4, 1e9), RAIL, "flow"), Play(RingAllReduce(4, 1e9), RAIL, "chunk")]
    for play in plays:
        (exits,) = all_at_once(servers, [play], WATCHDOG_S)
        assert len(exits) == 4
        assert all(
            left.through and left.time_s == pytest.approx(0.03, 0.01) for left in exits.values()
        )


@both_fidelities
@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "double-tree", "hierarchical"])
def test_a_gpu_that_dies_leaves_all_others_hanging_until_the_watchdog(
    algorithm: str, fidelity: Fidelity, servers: Path
) -> None:
    setting = Setting(4, 1e9, [[0], [1], [2], [3]], Hop(2e-6, 50e9))
    play = Play(schedule_of("all-reduce", algorithm, setting), RAIL, fidelity)
    (exits,) = all_at_once(servers, [play], WATCHDOG_S, [Victim(0.01, host=RAIL[2])])
    assert exits == {0: HUNG, 1: HUNG, 3: HUNG}


@both_fidelities
def test_a_gpu_that_dies_after_the_collective_harms_nobody(
    fidelity: Fidelity, servers: Path
) -> None:
    play = Play(RingAllReduce(4, 1e9), RAIL, fidelity)
    (exits,) = all_at_once(servers, [play], WATCHDOG_S, [Victim(0.04, host=RAIL[2])])
    assert all(left.through for left in exits.values())
    assert len(exits) == 4


@both_fidelities
def test_a_link_that_dies_hangs_both_of_its_ends_and_all_others(
    fidelity: Fidelity, servers: Path
) -> None:
    play = Play(RingAllReduce(4, 1e9), RAIL, fidelity)
    (exits,) = all_at_once(servers, [play], WATCHDOG_S, [Victim(0.01, links="nic-000008")])
    assert exits == dict.fromkeys(range(4), HUNG)


@both_fidelities
def test_an_nvlink_that_dies_hangs_its_scale_up_domain(fidelity: Fidelity, servers: Path) -> None:
    play = Play(RingAllReduce(8, 1e9), [gpu(index) for index in range(8)], fidelity)
    (exits,) = all_at_once(servers, [play], WATCHDOG_S, [Victim(0.002, links="nvlink-000003")])
    assert exits == dict.fromkeys(range(8), HUNG)


@both_fidelities
def test_a_switch_that_dies_hangs_those_who_talk_across_it_but_no_other_rail(
    fidelity: Fidelity, servers: Path
) -> None:
    """The uplinks of one leaf switch of rail 0; rail 1 has leaf switches of its own."""
    other_rail = [gpu(8 * domain + 1) for domain in range(4)]
    plays = [Play(RingAllReduce(4, 1e9), hosts, fidelity) for hosts in (RAIL, other_rail)]
    victim = Victim(0.01, links="up_leaf-00000-00")
    struck, spared = all_at_once(servers, plays, WATCHDOG_S, [victim])
    assert struck == dict.fromkeys(range(4), HUNG)
    assert len(spared) == 4
    assert all(left.through for left in spared.values())


@both_fidelities
def test_a_server_that_dies_hangs_a_hierarchical_all_reduce_everywhere(
    fidelity: Fidelity, servers: Path
) -> None:
    """All eight GPUs of a server go, in the first stage, as with a failure of its power supply."""
    schedule = HierarchicalAllReduce(32, 1e9, [range(8 * n, 8 * n + 8) for n in range(4)])
    play = Play(schedule, [gpu(index) for index in range(32)], fidelity)
    victims = [Victim(0.001, host=gpu(index)) for index in range(8, 16)]
    (exits,) = all_at_once(servers, [play], WATCHDOG_S, victims)
    assert exits == dict.fromkeys([*range(8), *range(16, 32)], HUNG)


@both_fidelities
def test_a_gpu_that_is_missing_from_the_start_is_waited_for(
    fidelity: Fidelity, servers: Path
) -> None:
    play = Play(RingAllReduce(4, 1e9), RAIL, fidelity)
    (exits,) = all_at_once(servers, [play], WATCHDOG_S, [Victim(0.0, host=RAIL[0])])
    assert exits == {1: HUNG, 2: HUNG, 3: HUNG}


@both_fidelities
def test_a_watchdog_that_is_too_impatient_fires_without_any_failure(
    fidelity: Fidelity, servers: Path
) -> None:
    """The ring takes 30 ms, of which latencies are 8 us; the watchdog waits 20 ms."""
    play = Play(RingAllReduce(4, 1e9), RAIL, fidelity)
    (exits,) = all_at_once(servers, [play], 0.02)
    assert exits == dict.fromkeys(range(4), Exit(False, 0.02))


def test_a_watchdog_that_fires_among_the_latencies_of_a_flow_counts(servers: Path) -> None:
    """1 kB around a ring of four: six rounds of 1.7 or 2.3 us, of which the flow itself has one."""
    play = Play(RingAllReduce(4, 1e3), RAIL, "flow")
    (exits,) = all_at_once(servers, [play], 5e-6)
    assert exits == dict.fromkeys(range(4), Exit(False, 5e-6))
