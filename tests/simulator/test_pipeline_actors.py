"""The pipeline's schedule against SimGrid, where stages are actors and messages are flows.

The actors share nothing with `strategies.takeover.pipeline_schedule` but the order of the passes:
here a stage goes on when a message has come, and how long messages take is up to the network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
from faultline.platforms import read_platform
from faultline.simulator.simgrid_engine.process import in_own_process
from faultline.strategies.takeover.node_costs import measured_costs
from faultline.strategies.takeover.pipeline_schedule import (
    Order,
    Step,
    Transfers,
    pipeline_timeline,
    stage_order,
)
from faultline.strategies.takeover.stage_work import StageWork, proportional_work

MICRO_BATCHES = 8
MESSAGE_BYTES = {"forward": 67.1e6, "backward": 134.2e6}
"""Activations to the next stage: 8192 tokens of 4096 numbers of two bytes; gradients back."""
HEALTHY = [0.9] * 8
DOUBLED = [0.9, 0.9, 0.9, measured_costs().doubled * 0.9, 0.9, 0.9, 0.9]
NAIVE = [0.9, 1.8, 0.9, 0.9, 0.9, 0.9, 0.9]
UNEVEN = [0.4, 1.3, 0.2, 0.9, 1.1, 0.3, 0.7, 1.2]
SHORT = [4e-4 * cost for cost in UNEVEN]
"""As short as messages: they queue, and links are the bottleneck."""
PIPELINES = (HEALTHY, DOUBLED, NAIVE, UNEVEN, SHORT)

LATENCY_S, BANDWIDTH_BYTES_PER_S = 5e-6, 300e9


class Place(NamedTuple):
    """A platform, the host of each stage, and the route between two of them."""

    xml: Path
    hosts: Sequence[str]
    latency_s: float
    bandwidth_bytes_per_s: float


def play(
    place: Place, stages: Sequence[StageWork], order: Order, overlapped: bool
) -> tuple[tuple[float, ...], int]:
    """Play an iteration on an idle platform; return when each stage was through, and messages.

    A stage that is `overlapped` computes on while it sends; else it waits until the message has
    arrived.
    """
    import simgrid
    from faultline.simulator.simgrid_engine.channel import Channel
    from faultline.simulator.simgrid_engine.loading import load_engine, run_to_the_end

    engine = load_engine(place.xml)
    ends_s = [0.0] * len(stages)
    received = [0] * len(stages)

    def mailbox(sender: int, receiver: int) -> simgrid.Mailbox:
        return simgrid.Mailbox.by_name(f"pipeline:{sender}>{receiver}")

    def port(number: int, queue: Channel[Step | None], peer: int) -> Callable[[], None]:
        """Send what is queued, one message after the other, until nothing comes any more."""

        def body() -> None:
            while (step := queue.get()) is not None:
                mailbox(number, peer).put(step, round(MESSAGE_BYTES[step[0]]))

        return body

    def stage(number: int, queues: dict[str, Channel[Step | None]]) -> Callable[[], None]:
        source = {"forward": number - 1, "backward": number + 1}
        target = {"forward": number + 1, "backward": number - 1}
        spent_s = {"forward": stages[number].forward.total, "backward": stages[number].backward}
        there = range(len(stages))

        def body() -> None:
            steps = stage_order(number, len(stages), MICRO_BATCHES, order)
            # Receives are posted at once, so that messages set off as soon as they are sent.
            coming = {
                step: mailbox(source[step[0]], number).get_async()
                for step in sorted(steps, key=lambda step: step[1])
                if source[step[0]] in there
            }
            for step in steps:
                if step in coming:
                    coming[step].wait()
                    assert coming[step].get_payload() == step
                    received[number] += 1
                simgrid.this_actor.sleep_for(spent_s[step[0]])
                if target[step[0]] not in there:
                    continue
                if overlapped:
                    queues[step[0]].put(step)
                else:
                    mailbox(number, target[step[0]]).put(step, round(MESSAGE_BYTES[step[0]]))
            ends_s[number] = simgrid.Engine.clock
            for queue in queues.values():
                queue.put(None)

        return body

    for number, name in enumerate(place.hosts):
        host = simgrid.Host.by_name(name)
        queues: dict[str, Channel[Step | None]] = {"forward": Channel(), "backward": Channel()}
        host.add_actor(f"stage-{number}", stage(number, queues))
        for direction, peer in (("forward", number + 1), ("backward", number - 1)):
            host.add_actor(f"port-{direction}-{number}", port(number, queues[direction], peer))
    run_to_the_end(engine)
    return tuple(ends_s), sum(received)


def chain(tmp_path: Path, nodes: int) -> Place:
    """Return nodes with a link of its own between neighbours."""
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
    hosts = [f"node-{n}" for n in range(nodes)]
    return Place(path, hosts, LATENCY_S, BANDWIDTH_BYTES_PER_S)


def server(servers_of: Callable[..., Path], nodes: int) -> Place:
    """Return GPUs of a server behind NVSwitches."""
    path = servers_of(**{"scale_up.domains": 1})
    platform = read_platform(path)
    hosts = platform.gpu_names[:nodes]
    route = platform.route(hosts[0], hosts[1])
    return Place(path, hosts, route.latency_s, route.bandwidth_bytes_per_s)


def both(
    place: Place, costs: list[float], *, overlapped: bool, order: Order = "1f1b"
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return when each stage is through: as SimGrid plays it, and as the schedule has it."""
    stages = [proportional_work(cost) for cost in costs]
    played, messages = in_own_process(play, place, stages, order, overlapped)
    assert messages == 2 * MICRO_BATCHES * (len(costs) - 1)
    message_s = {
        kind: place.latency_s + size / place.bandwidth_bytes_per_s
        for kind, size in MESSAGE_BYTES.items()
    }
    transfers = Transfers(message_s["forward"], message_s["backward"], overlapped=overlapped)
    timeline = pipeline_timeline(stages, MICRO_BATCHES, transfers, order)
    return played, tuple(spans[-1].end_s for spans in timeline.stages)


@pytest.mark.parametrize(
    ("costs", "overlapped", "order"),
    [
        *((DOUBLED, True, "1f1b"), (SHORT, True, "1f1b"), (SHORT, False, "1f1b")),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in product(PIPELINES, (True, False), get_args(Order))
        ),
    ],
)
def test_the_schedule_is_what_simgrid_plays(
    tmp_path: Path, costs: list[float], overlapped: bool, order: Order
) -> None:
    place = chain(tmp_path, len(costs))
    played, scheduled = both(place, costs, overlapped=overlapped, order=order)
    assert played == pytest.approx(scheduled, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("overlapped", [True, False])
@pytest.mark.parametrize("costs", [HEALTHY, DOUBLED, NAIVE, UNEVEN])
def test_a_server_s_shared_ports_change_nothing_where_passes_are_long(
    servers_of: Callable[..., Path], costs: list[float], overlapped: bool
) -> None:
    played, scheduled = both(server(servers_of, len(costs)), costs, overlapped=overlapped)
    assert played == pytest.approx(scheduled, rel=1e-2)


@pytest.mark.slow
def test_shared_ports_slow_down_where_messages_are_as_long_as_passes(
    servers_of: Callable[..., Path],
) -> None:
    """A GPU sends activations and gradients through one port, which the schedule leaves out."""
    played, scheduled = both(server(servers_of, len(SHORT)), SHORT, overlapped=True)
    assert 1.05 * max(scheduled) < max(played) < 1.3 * max(scheduled)
