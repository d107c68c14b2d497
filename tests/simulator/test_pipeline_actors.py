"""The pipeline's schedule against SimGrid, where stages are actors and messages are flows."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.platforms import load_preset, read_platform, write_xml
from faultline.strategies.takeover.node_costs import measured_costs
from faultline.strategies.takeover.pipeline_schedule import Order, Transfers, pipeline_timeline
from faultline.strategies.takeover.stage_work import proportional_work

from tests.simulator.pipeline_actors import PipelineTraffic, play_pipeline

MICRO_BATCHES = 8
ACTIVATION_BYTES = 67.1e6
"""8192 tokens of 4096 numbers of two bytes."""
GRADIENT_BYTES = 134.2e6
HEALTHY = [0.9] * 8
DOUBLED = [0.9, 0.9, 0.9, measured_costs().doubled * 0.9, 0.9, 0.9, 0.9]
NAIVE = [0.9, 1.8, 0.9, 0.9, 0.9, 0.9, 0.9]
UNEVEN = [0.4, 1.3, 0.2, 0.9, 1.1, 0.3, 0.7, 1.2]
SHORT = [4e-4 * cost for cost in UNEVEN]
"""As short as messages: they queue, and links are the bottleneck."""

LATENCY_S, BANDWIDTH_BYTES_PER_S = 5e-6, 300e9


def chain(tmp_path: Path, nodes: int) -> tuple[Path, list[str], tuple[float, float]]:
    """Return a platform of nodes with a link of its own between neighbours, and its link."""
    hosts = "".join(f'<host id="node-{n}" speed="1Gf"/>' for n in range(nodes))
    links = "".join(
        f'<link id="link-{n}" bandwidth="{BANDWIDTH_BYTES_PER_S:g}Bps" latency="{LATENCY_S:g}s" '
        'sharing_policy="SPLITDUPLEX"/>'
        for n in range(nodes - 1)
    )
    routes = "".join(
        f'<route src="node-{n}" dst="node-{n + 1}"><link_ctn id="link-{n}" direction="UP"/></route>'
        for n in range(nodes - 1)
    )
    path = tmp_path / "chain.xml"
    path.write_text(
        '<?xml version="1.0"?>\n'
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        '<platform version="4.1"><zone id="chain" routing="Floyd">'
        f"{hosts}{links}{routes}</zone></platform>"
    )
    return path, [f"node-{n}" for n in range(nodes)], (LATENCY_S, BANDWIDTH_BYTES_PER_S)


def server(tmp_path: Path, nodes: int) -> tuple[Path, list[str], tuple[float, float]]:
    """Return a server of eight GPUs behind NVSwitches, and the route between two of them."""
    path = tmp_path / "server.xml"
    write_xml(load_preset("hgx-h100", **{"scale_up.domains": 1}), path)
    platform = read_platform(path)
    hosts = list(platform.gpu_names[:nodes])
    route = platform.route(hosts[0], hosts[1])
    return path, hosts, (route.latency_s, route.bandwidth_bytes_per_s)


def both(
    place: tuple[Path, list[str], tuple[float, float]],
    costs: list[float],
    *,
    overlapped: bool,
    order: Order = "1f1b",
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return when each stage is through: as SimGrid plays it, and as the schedule has it."""
    path, hosts, (latency_s, bandwidth) = place
    stages = [proportional_work(cost) for cost in costs]
    traffic = PipelineTraffic(ACTIVATION_BYTES, GRADIENT_BYTES, overlapped=overlapped)
    played = play_pipeline(path, hosts, stages, MICRO_BATCHES, traffic, order)
    assert played.messages == 2 * MICRO_BATCHES * (len(costs) - 1)
    transfers = Transfers(
        latency_s + ACTIVATION_BYTES / bandwidth,
        latency_s + GRADIENT_BYTES / bandwidth,
        overlapped=overlapped,
    )
    timeline = pipeline_timeline(stages, MICRO_BATCHES, transfers, order)
    assert max(played.stage_ends_s) == played.iteration_s
    return played.stage_ends_s, tuple(spans[-1].end_s for spans in timeline.stages)


@pytest.mark.parametrize(("costs", "overlapped"), [(DOUBLED, True), (SHORT, True), (SHORT, False)])
def test_the_schedule_is_what_simgrid_plays(
    tmp_path: Path, costs: list[float], overlapped: bool
) -> None:
    played, scheduled = both(chain(tmp_path, len(costs)), costs, overlapped=overlapped)
    assert played == pytest.approx(scheduled, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["1f1b", "all-forward-first"])
@pytest.mark.parametrize("overlapped", [True, False])
@pytest.mark.parametrize("costs", [HEALTHY, DOUBLED, NAIVE, UNEVEN, SHORT])
def test_every_pipeline_is_what_simgrid_plays(
    tmp_path: Path, costs: list[float], overlapped: bool, order: Order
) -> None:
    place = chain(tmp_path, len(costs))
    played, scheduled = both(place, costs, overlapped=overlapped, order=order)
    assert played == pytest.approx(scheduled, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("overlapped", [True, False])
@pytest.mark.parametrize("costs", [HEALTHY, DOUBLED, NAIVE, UNEVEN])
def test_a_server_s_shared_ports_change_nothing_where_passes_are_long(
    tmp_path: Path, costs: list[float], overlapped: bool
) -> None:
    played, scheduled = both(server(tmp_path, len(costs)), costs, overlapped=overlapped)
    assert played == pytest.approx(scheduled, rel=1e-2)


@pytest.mark.slow
def test_shared_ports_slow_down_where_messages_are_as_long_as_passes(tmp_path: Path) -> None:
    """A GPU sends activations and gradients through one port, which the schedule leaves out."""
    played, scheduled = both(server(tmp_path, len(SHORT)), SHORT, overlapped=True)
    assert 1.05 * max(scheduled) < max(played) < 1.3 * max(scheduled)


def test_a_stage_without_a_host_is_refused(tmp_path: Path) -> None:
    stages = [proportional_work(1.0)] * 2
    with pytest.raises(ValueError, match="2 stages need as many hosts"):
        play_pipeline(tmp_path, ["gpu-000000"], stages, 1, PipelineTraffic(1.0, 1.0))
