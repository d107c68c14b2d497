"""What dies in the middle of a collective leaves the others hanging until their watchdog fires.

Four HGX servers of eight GPUs, two servers below a leaf switch of each rail. 1 GB along a ring of
four GPUs of one rail takes 2 * 3/4 * 1 GB / 50 GB/s = 30 ms, so what happens after 10 ms is in the
middle of it; 1 GB among eight GPUs of one server takes 3.9 ms, and 2 ms are in its middle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from faultline.simulator.collectives.catalogue import Setting, schedule_of
from faultline.simulator.collectives.hierarchical import HierarchicalAllReduce
from faultline.simulator.collectives.ring import RingAllReduce
from faultline.simulator.collectives.schedule import Fidelity, Hop, Schedule

from tests.simulator.collectives.stage_hand import Exit, Simulate, Victim, all_at_once, gpu

WATCHDOG_S = 5.0
HUNG = Exit(False, WATCHDOG_S)

both_fidelities = pytest.mark.parametrize("fidelity", ["flow", "chunk"])

RAIL = [gpu(8 * domain) for domain in range(4)]
HOP = Hop(2e-6, 50e9)
RING = RingAllReduce(4, 1e9)
SERVER = [gpu(index) for index in range(8)]
ALL = [gpu(index) for index in range(32)]


def on_rail(algorithm: str) -> Schedule:
    return schedule_of("all-reduce", algorithm, Setting(4, 1e9, [[0], [1], [2], [3]], HOP))


@pytest.fixture(scope="module")
def servers(servers_of: Callable[..., Path]) -> Path:
    return servers_of(domains=4, domains_per_leaf=2)


@both_fidelities
@pytest.mark.parametrize("victims", [[], [Victim(0.04, host=RAIL[2])]], ids=["none", "afterwards"])
def test_without_a_failure_all_get_through(
    victims: list[Victim], fidelity: Fidelity, servers: Path
) -> None:
    (exits,) = all_at_once(servers, [Simulate(RING, RAIL, fidelity)], WATCHDOG_S, victims)
    assert len(exits) == 4
    for left in exits.values():
        assert left.through
        assert left.time_s == pytest.approx(0.03, 0.01)


@both_fidelities
@pytest.mark.parametrize(
    ("schedule", "hosts", "victims", "left"),
    [
        *(
            pytest.param(on_rail(name), RAIL, [Victim(0.01, host=RAIL[2])], (0, 1, 3), id=name)
            for name in ("ring", "hierarchical")
        ),
        pytest.param(RING, RAIL, [Victim(0.01, links="nic-000008")], range(4), id="adapter"),
        pytest.param(
            *(RingAllReduce(8, 1e9), SERVER, [Victim(0.002, links="nvlink-000003")], range(8)),
            id="NVLink",
        ),
        # All eight GPUs go, in the first stage, as with a failure of their power supply.
        pytest.param(
            HierarchicalAllReduce(32, 1e9, [range(8 * n, 8 * n + 8) for n in range(4)]),
            *(ALL, [Victim(0.001, host=gpu(n)) for n in range(8, 16)], [*range(8), *range(16, 32)]),
            id="server",
        ),
        pytest.param(RING, RAIL, [Victim(0.0, host=RAIL[0])], (1, 2, 3), id="from the start"),
    ],
)
def test_who_dies_leaves_all_others_hanging_until_the_watchdog(
    schedule: Schedule,
    hosts: Sequence[str],
    victims: list[Victim],
    left: Iterable[int],
    fidelity: Fidelity,
    servers: Path,
) -> None:
    (exits,) = all_at_once(servers, [Simulate(schedule, hosts, fidelity)], WATCHDOG_S, victims)
    assert exits == dict.fromkeys(left, HUNG)


@both_fidelities
def test_a_switch_that_dies_hangs_those_who_talk_across_it_but_no_other_rail(
    fidelity: Fidelity, servers: Path
) -> None:
    """The uplinks of one leaf switch of rail 0; rail 1 has leaf switches of its own."""
    other_rail = [gpu(8 * domain + 1) for domain in range(4)]
    simulates = [Simulate(RING, hosts, fidelity) for hosts in (RAIL, other_rail)]
    victim = Victim(0.01, links="up_leaf-00000-00")
    struck, spared = all_at_once(servers, simulates, WATCHDOG_S, [victim])
    assert struck == dict.fromkeys(range(4), HUNG)
    assert len(spared) == 4
    assert all(left.through for left in spared.values())


@pytest.mark.parametrize(
    ("size_bytes", "fidelity", "watchdog_s"),
    [
        # The ring takes 30 ms, of which latencies are 8 us.
        (1e9, "flow", 0.02),
        (1e9, "chunk", 0.02),
        # Six rounds of 1.7 or 2.3 us, of which the flow itself has one.
        (1e3, "flow", 5e-6),
    ],
)
def test_a_watchdog_that_is_too_impatient_fires_without_any_failure(
    size_bytes: float, fidelity: Fidelity, watchdog_s: float, servers: Path
) -> None:
    simulate = Simulate(RingAllReduce(4, size_bytes), RAIL, fidelity)
    (exits,) = all_at_once(servers, [simulate], watchdog_s)
    assert exits == dict.fromkeys(range(4), Exit(False, watchdog_s))
