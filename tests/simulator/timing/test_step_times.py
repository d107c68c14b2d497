"""Steps that SimGrid runs: against longest paths, closed forms, and steps of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.job.durations import StepTime
from faultline.simulator.pattern.activity_graph import Activity, Fold, passes_graph
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.pattern.step_pattern import PartWork, PassWork, StepPattern
from faultline.simulator.pattern.sync_graph import sync_graph
from faultline.simulator.pattern.teams import Teams
from faultline.simulator.simgrid.errors import SimulationError
from faultline.simulator.timing.kept_platform import simulate_on
from faultline.simulator.timing.step_times import TimeStep, simulate_step, with_step_timer
from faultline.simulator.workload.layout import Layout, Placement, place_on_platform

from tests.simulator.helpers import edited

SPEED, NVLINK, NIC = 989e12, 450e9, 50e9
"""Of hgx-h100, in FLOP/s and bytes/s."""
NVLINK_LATENCY_S = 2 * 250e-9 + 100e-9
NIC_LATENCY_S = 2 * (250e-9 + 600e-9)
"""PCIe, then adapter, cable and half a switch: once each way."""
SPINE_LATENCY_S = 2 * 300e-9
"""A cable and a switch: up to the spine, and down again."""


def pattern_of(layout: Layout, micro_batches: int, **changes: Any) -> StepPattern:
    """Return a step of milliseconds with all kinds of activities."""
    parts = layout.pipeline * layout.virtual_stages
    usual = StepPattern(
        layout.data,
        layout.pipeline,
        layout.tensor,
        1,
        micro_batches,
        tuple(
            PartWork(
                PassWork(
                    (1.0 + 0.1 * (part == parts - 1)) * 1e-3 * SPEED,
                    0.2e-3 * NVLINK if layout.tensor > 1 else 0.0,
                ),
                PassWork(
                    (2.0 + 0.2 * (part == parts - 1)) * 1e-3 * SPEED,
                    0.3e-3 * NVLINK if layout.tensor > 1 else 0.0,
                ),
            )
            for part in range(parts)
        ),
        0.1e-3 * NIC,
        1.0,
        (0.0,) * layout.pipeline,
        (2e-3 * NIC,) * layout.pipeline,
        (0.5e-3 * SPEED,) * layout.pipeline,
    )
    return replace(usual, **changes)


def placed(tmp_path: Path, layout: Layout, **overrides: object) -> tuple[Path, Placement[str]]:
    """Write servers; return their file and the hosts of a layout's ranks."""
    path = tmp_path / "servers.xml"
    write_xml(load_preset("hgx-h100", **({"domains": 8, "domains_per_leaf": 8} | overrides)), path)
    return path, place_on_platform(layout, read_platform(path))


def each_of(steps: Sequence[tuple[Placement[str], StepPattern]], timer: TimeStep) -> list[StepTime]:
    return [timer(hosts, pattern) for hosts, pattern in steps]


def time_steps(
    platform: Path, steps: Sequence[tuple[Placement[str], StepPattern]], *, folds: bool = True
) -> list[StepTime]:
    """Time steps on one platform, one after the other in one process."""
    return with_step_timer(platform, partial(each_of, steps), folds=folds)


def seconds(activity: Activity) -> float:
    """Return how long an activity takes on idle links."""
    if activity.kind == "meeting":
        return 0.0
    if activity.ring:
        between_servers = activity.kind == "gradient"
        return activity.amount * (NIC_LATENCY_S if between_servers else NVLINK_LATENCY_S)
    if activity.peer is None:
        return activity.amount / SPEED
    if activity.kind == "tensor":
        return activity.amount / NVLINK + NVLINK_LATENCY_S
    return activity.amount / NIC + NIC_LATENCY_S


def longest_path_s(pattern: StepPattern) -> float:
    """Return how long a step takes if no messages share a link, by networkx."""
    total = 0.0
    whole = Fold.whole(pattern)
    teams = Teams(pattern, StepShares(whole.replicas), attrgetter("replica"))
    for graph in (passes_graph(pattern, whole), sync_graph(teams, whole.positions)):
        network = nx.DiGraph()
        for number, waits_for in enumerate(graph.waits_for):
            network.add_edge("begin", number, length=0.0)
            length = seconds(graph.activities[number])
            network.add_edge(number, (number, "ended"), length=length)
            network.add_edges_from(
                (((before, "ended"), number) for before in waits_for), length=0.0
            )
        total += nx.dag_longest_path_length(network, weight="length")
    return total


def _with_hops(part: PartWork) -> PartWork:
    """Return a part whose rings take 28 hops forward and 42 backward."""
    forward, backward = part.forward, part.backward
    return PartWork(forward._replace(tensor_hops=28.0), backward._replace(tensor_hops=42.0))


@pytest.mark.parametrize("folds", [True, False])
def test_rings_pay_a_latency_per_hop(tmp_path: Path, folds: bool) -> None:
    """By hand: 28 hops forward and 42 backward, of 600 ns and ten times that, 3 micro-batches.

    A ring's message pays one of them, as a ring does that counts no hops.
    """
    layout = Layout(2, 1, 8)
    plain = pattern_of(layout, 3)
    rings = replace(plain, parts=(_with_hops(plain.parts[0]),))
    assert NVLINK_LATENCY_S == 600e-9
    slow = {"scale_up.latency": "2500ns", "scale_up.switch_latency": "1000ns"}
    for changed, latency_s in (({}, 600e-9), (slow, 6e-6)):
        platform, hosts = placed(tmp_path, layout, **changed)
        before, after = time_steps(platform, [(hosts, plain), (hosts, rings)], folds=folds)
        longer_s = 3 * (27 + 41) * latency_s
        assert after.step_s - before.step_s == pytest.approx(longer_s, rel=1e-6)
        assert after.tensor_s - before.tensor_s == pytest.approx(longer_s, rel=1e-6)
        assert after.bubble_s == pytest.approx(0.0, abs=1e-9)
    parts = tuple(map(_with_hops, pattern_of(Layout(2, 2, 8), 5).parts))
    step = replace(pattern_of(Layout(2, 2, 8), 5), parts=parts)
    platform, hosts = placed(tmp_path, Layout(2, 2, 8))
    (time,) = time_steps(platform, [(hosts, step)], folds=folds)
    assert time.step_s == pytest.approx(longest_path_s(step), rel=1e-6)


@pytest.mark.parametrize("folds", [True, False])
@pytest.mark.parametrize(
    ("tensor", "share", "turn_s"),
    [
        # One replica per server, two servers per leaf: every other hop passes the spine.
        (8, 1.0, 4 * NIC_LATENCY_S + 2 * SPINE_LATENCY_S),
        # Two replicas per server: every other hop stays in it, and rings share its adapters.
        (4, 0.5, 2 * (NVLINK_LATENCY_S + NIC_LATENCY_S)),
    ],
)
def test_rings_of_gradients_pay_a_latency_per_hop(
    tmp_path: Path, tensor: int, share: float, turn_s: float, folds: bool
) -> None:
    """By hand: four replicas reduce and gather in 6 hops; the first is that of the last message."""
    layout = Layout(4, 1, tensor)
    platform, hosts = placed(tmp_path, layout, domains=4, domains_per_leaf=2)
    (time,) = time_steps(platform, [(hosts, pattern_of(layout, 1))], folds=folds)
    last_s = NIC_LATENCY_S + (SPINE_LATENCY_S if tensor == 8 else 0.0)
    expected_s = share * 2e-3 + last_s + 5 * turn_s / 4
    assert time.data_parallel_s == pytest.approx(expected_s, rel=1e-9)


@pytest.mark.parametrize("folds", [True, False])
def test_a_step_takes_as_long_as_its_longest_path(tmp_path: Path, folds: bool) -> None:
    """Where nobody shares a link: of two stages, each hears from one other at a time.

    With more, a stage may receive from both sides at once, so there a send is of one byte.
    """
    two, more = Layout(2, 2, 8), Layout(2, 4, 8)
    platform, _ = placed(tmp_path, more)
    steps = [
        (two, pattern_of(two, 2)),
        (two, pattern_of(two, 23)),
        (two, pattern_of(replace(two, virtual_stages=2), 24)),
        (more, pattern_of(more, 23, send_bytes=1.0)),
        (more, pattern_of(replace(more, virtual_stages=2), 24, send_bytes=1.0)),
    ]
    asked = [(place_on_platform(layout, read_platform(platform)), step) for layout, step in steps]
    for time, (_, step) in zip(time_steps(platform, asked, folds=folds), asked, strict=True):
        assert time.step_s == pytest.approx(longest_path_s(step), rel=1e-6)


def test_a_timer_is_used_repeatedly(tmp_path: Path) -> None:
    """Links that carry less for one step carry all of the next."""
    layout = Layout(2, 2, 8)
    platform, hosts = placed(tmp_path, layout)
    pattern = pattern_of(layout, 2)
    halves = {f"nic-{gpu:06d}": 0.5 for gpu in range(32)}
    first, slowed, again = (
        simulate_on(platform, simulate_step, hosts, pattern, shares) for shares in ({}, halves, {})
    )
    assert [first] == [again] == time_steps(platform, [(hosts, pattern)], folds=False)
    assert slowed.data_parallel_s == pytest.approx(2 * first.data_parallel_s, rel=1e-3)
    assert slowed.compute_s == pytest.approx(first.compute_s)


def test_a_platform_that_simgrid_refuses_is_reported(tmp_path: Path) -> None:
    layout = Layout(1, 1, 8)
    platform, hosts = placed(tmp_path, layout)
    platform.write_text(platform.read_text().replace("<link_ctn", "<no_such_tag", 1))
    with pytest.raises(SimulationError, match="SimGrid refused to go on: Parse error"):
        simulate_on(platform, simulate_step, hosts, pattern_of(layout, 2), {})


def test_the_bubble_is_that_of_the_closed_form(tmp_path: Path) -> None:
    """It is (p - 1)/(v m) of the rest if stages are equal and sends take no time."""
    layout = Layout(1, 4, 1, 2)
    platform, hosts = placed(tmp_path, layout)
    equal = pattern_of(
        layout,
        40,
        parts=(PartWork(PassWork(1e-3 * SPEED), PassWork(2e-3 * SPEED)),) * 8,
        send_bytes=0.0,
    )
    plain = replace(equal, parts=equal.parts[:4])
    for time, parts in zip(
        time_steps(platform, [(hosts, equal), (hosts, plain)]), (2, 1), strict=True
    ):
        assert time.compute_s == pytest.approx(40 * parts * 3e-3)
        assert time.bubble_s == pytest.approx(time.compute_s * 3 / (parts * 40), rel=1e-6)


def both_ways(
    platform: Path, hosts: Placement[str], pattern: StepPattern
) -> tuple[StepTime, StepTime]:
    (folded,) = time_steps(platform, [(hosts, pattern)])
    (whole,) = time_steps(platform, [(hosts, pattern)], folds=False)
    return folded, whole


@pytest.mark.parametrize(
    ("layout", "overrides"),
    [
        pytest.param(Layout(2, 4, 8), {}, id="a server a stage"),
        pytest.param(Layout(4, 4, 4, 2), {}, id="two replicas in a server"),
        pytest.param(
            Layout(2, 4, 8),
            {"domains_per_leaf": 2, "oversubscription": [4]},
            id="an oversubscribed core",
        ),
        pytest.param(
            Layout(2, 2, 8),
            {"domains": 4, "domains_per_leaf": 1, "gpus_per_nic": 2, "oversubscription": [2]},
            id="shared adapters",
        ),
    ],
)
def test_some_ranks_represent_all(
    tmp_path: Path, layout: Layout, overrides: dict[str, object]
) -> None:
    platform, hosts = placed(tmp_path, layout, **overrides)
    folded, whole = both_ways(platform, hosts, pattern_of(layout, 8))
    assert folded.activities <= whole.activities
    assert folded.step_s == pytest.approx(whole.step_s, rel=1e-6)
    for part in ("compute_s", "tensor_s", "data_parallel_s", "optimizer_s"):
        assert getattr(folded, part) == pytest.approx(getattr(whole, part), rel=1e-6)


def test_a_longer_step_is_extrapolated(tmp_path: Path) -> None:
    """Folded, three rounds are simulated of ten; the whole runs all. Also with one slow stage."""
    layout = Layout(2, 4, 8)
    platform, hosts = placed(tmp_path, layout)
    even = pattern_of(layout, 42)
    slow = tuple(
        part.slower(1.2) if number == 2 else part for number, part in enumerate(even.parts)
    )
    for pattern in (even, replace(even, parts=slow)):
        folded, whole = both_ways(platform, hosts, pattern)
        assert folded.activities < whole.activities / 16
        assert folded.step_s == pytest.approx(whole.step_s, rel=1e-6)


def test_with_a_slow_gpu_all_ranks_are_simulated_and_wait(tmp_path: Path) -> None:
    layout = Layout(2, 2, 8)
    platform, hosts = placed(tmp_path, layout, domains=4)
    (sound,) = time_steps(platform, [(hosts, pattern_of(layout, 16))])
    slow = rf'(id="{hosts[1][1][3]}"[^>]* speed=)"[^"]+"'
    half = edited(platform, tmp_path / "slow.xml", slow, rf'\1"{SPEED / 2}f"')
    (hit,) = time_steps(half, [(hosts, pattern_of(layout, 16))])
    assert hit.activities > 4 * sound.activities
    # The last stage computes 3.3 ms per micro-batch, and now 6.6.
    assert hit.passes_s - sound.passes_s == pytest.approx(16 * 3.3e-3, rel=0.1)


@pytest.mark.parametrize("folds", [True, False])
def test_a_slow_link_of_a_ring_is_no_bubble(tmp_path: Path, folds: bool) -> None:
    """All members wait for the message over the slow link: that is time of the ring."""
    layout = Layout(2, 1, 8)
    platform, hosts = placed(tmp_path, layout, domains=2)
    (sound,) = time_steps(platform, [(hosts, pattern_of(layout, 3))], folds=folds)
    one = rf'(id="nvlink-{hosts[0][0][3].removeprefix("gpu-")}"[^>]* bandwidth=)"[^"]+"'
    half = edited(platform, tmp_path / "slow.xml", one, rf'\1"{NVLINK / 2}Bps"')
    (hit,) = time_steps(half, [(hosts, pattern_of(layout, 3))], folds=folds)
    longer_s = sound.tensor_s - 2 * 3 * NVLINK_LATENCY_S
    assert hit.step_s - sound.step_s == pytest.approx(longer_s, rel=1e-6)
    assert hit.tensor_s - sound.tensor_s == pytest.approx(longer_s, rel=1e-6)
    assert hit.bubble_s == pytest.approx(0.0, abs=1e-9)


def test_messages_behind_the_passes_are_separate_from_the_bubble(tmp_path: Path) -> None:
    """Gradients that outlast the last backward pass count as data-parallel time."""
    layout = Layout(2, 1, 8)
    platform, hosts = placed(tmp_path, layout, domains=2)
    last_pass_s = 2.2e-3
    hidden = pattern_of(layout, 2, gradient_bytes=(0.0,), hidden_gradient_bytes=(1e-3 * NIC,))
    longer = replace(hidden, hidden_gradient_bytes=(6e-3 * NIC,))
    short, long = time_steps(platform, [(hosts, hidden), (hosts, longer)])
    assert short.data_parallel_s == pytest.approx(0.0, abs=1e-9)
    outlast_s = 6e-3 + NIC_LATENCY_S - last_pass_s - 0.3e-3 - NVLINK_LATENCY_S
    assert long.data_parallel_s == pytest.approx(outlast_s, rel=1e-3)
    assert long.step_s - short.step_s == pytest.approx(long.data_parallel_s, rel=1e-6)


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_hidden_gradients_of_replicas_in_one_server_use_the_adapters(
    tmp_path: Path, tensor: int
) -> None:
    """With 8/t replicas per server, each adapter carries t/8 of a ring's bytes, as in NCCL's rings.

    Bytes of 2 ms of an adapter a GPU of eight: they hide behind a last pass of 2.2 ms, and at half
    the bandwidth outlast it by as much as they are longer.
    """
    layout, last_pass_s = Layout(16 // tensor, 1, tensor), 2.2e-3
    sound, hosts = placed(tmp_path, layout, domains=2)
    nics = r'(id="nic-\d+"[^>]* bandwidth=)"[^"]+"'
    half = edited(sound, tmp_path / "half.xml", nics, rf'\1"{NIC / 2}Bps"', 16)
    hidden = pattern_of(
        layout, 2, gradient_bytes=(0.0,), hidden_gradient_bytes=(8 // tensor * 2e-3 * NIC,)
    )
    short, whole = both_ways(sound, hosts, hidden)
    assert short.step_s == pytest.approx(whole.step_s, rel=1e-9)
    assert short.data_parallel_s == pytest.approx(0.0, abs=1e-9)
    long, whole = both_ways(half, hosts, hidden)
    assert long.step_s == pytest.approx(whole.step_s, rel=1e-9)
    ring_s = 0.3e-3 + NVLINK_LATENCY_S if tensor > 1 else 0.0
    outlast_s = 4e-3 + NIC_LATENCY_S - last_pass_s - ring_s
    assert long.data_parallel_s == pytest.approx(outlast_s, rel=1e-3)
