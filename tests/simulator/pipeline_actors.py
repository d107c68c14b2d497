"""Plays an iteration of a pipeline: one actor a stage, messages through SimGrid's network.

A check of `strategies.takeover.pipeline_schedule` that shares nothing with it but the order of the
passes: here a stage goes on when a message has come, and how long messages take is up to the
network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from faultline.simulator.simgrid_engine.process import in_own_process
from faultline.strategies.takeover.pipeline_schedule import Order, Step, stage_order
from faultline.strategies.takeover.stage_work import StageWork


@dataclass(frozen=True, slots=True)
class PipelineTraffic:
    """Messages between neighbours, for each micro-batch.

    Attributes
    ----------
    activation_bytes, gradient_bytes : float
        To the next stage, and to the one before.
    overlapped : bool
        Whether a stage computes on while it sends; else it waits until the message has arrived.
    """

    activation_bytes: float
    gradient_bytes: float
    overlapped: bool = True


@dataclass(frozen=True, slots=True)
class PlayedIteration:
    """What came of it.

    Attributes
    ----------
    stage_ends_s : tuple of float
        When each stage was through.
    messages : int
        Messages that were received.
    """

    stage_ends_s: tuple[float, ...]
    messages: int

    @property
    def iteration_s(self) -> float:
        """When the last stage was through."""
        return max(self.stage_ends_s)


def play_pipeline(
    platform_xml: Path,
    hosts: Sequence[str],
    stages: Sequence[StageWork],
    micro_batches: int,
    traffic: PipelineTraffic,
    order: Order = "1f1b",
) -> PlayedIteration:
    """Play an iteration on an idle platform, in a process of its own.

    Parameters
    ----------
    platform_xml : Path
        Platform XML.
    hosts : sequence of str
        Host of each stage.
    stages : sequence of StageWork
        Seconds of a micro-batch on each.
    micro_batches : int
        Micro-batches of the iteration.
    traffic : PipelineTraffic
        Messages between neighbours.
    order : {"1f1b", "all-forward-first"}
        The order of passes on each stage.

    Raises
    ------
    SimulationError
        SimGrid aborts.
    ValueError
        There are not as many hosts as stages.
    """
    if len(hosts) != len(stages):
        raise ValueError(f"{len(stages)} stages need as many hosts, not {len(hosts)}")
    return in_own_process(_play, platform_xml, hosts, stages, micro_batches, traffic, order)


def _play(
    platform_xml: Path,
    hosts: Sequence[str],
    stages: Sequence[StageWork],
    micro_batches: int,
    traffic: PipelineTraffic,
    order: Order,
) -> PlayedIteration:
    import simgrid
    from faultline.simulator.simgrid_engine.channel import Channel
    from faultline.simulator.simgrid_engine.loading import load_engine, run_to_the_end

    engine = load_engine(platform_xml)
    ends_s = [0.0] * len(stages)
    received = [0] * len(stages)
    size_bytes = {
        "forward": max(1, round(traffic.activation_bytes)),
        "backward": max(1, round(traffic.gradient_bytes)),
    }

    def mailbox(sender: int, receiver: int) -> simgrid.Mailbox:
        return simgrid.Mailbox.by_name(f"pipeline:{sender}>{receiver}")

    def port(place: int, queue: Channel[Step | None], peer: int) -> Callable[[], None]:
        """Send what is queued, one message after the other, until nothing comes any more."""

        def body() -> None:
            while (step := queue.get()) is not None:
                mailbox(place, peer).put(step, size_bytes[step[0]])

        return body

    def stage(place: int, queues: dict[str, Channel[Step | None]]) -> Callable[[], None]:
        source = {"forward": place - 1, "backward": place + 1}
        target = {"forward": place + 1, "backward": place - 1}
        spent_s = {"forward": stages[place].forward.total, "backward": stages[place].backward}

        def there(position: int) -> bool:
            return 0 <= position < len(stages)

        def body() -> None:
            steps = stage_order(place, len(stages), micro_batches, order)
            # Receives are posted at once, so that messages set off as soon as they are sent.
            coming = {
                step: mailbox(source[step[0]], place).get_async()
                for step in sorted(steps, key=lambda step: step[1])
                if there(source[step[0]])
            }
            for step in steps:
                if step in coming:
                    coming[step].wait()
                    if coming[step].get_payload() != step:
                        raise RuntimeError(f"stage {place} got another message than {step}")
                    received[place] += 1
                simgrid.this_actor.sleep_for(spent_s[step[0]])
                if not there(target[step[0]]):
                    continue
                if traffic.overlapped:
                    queues[step[0]].put(step)
                else:
                    mailbox(place, target[step[0]]).put(step, size_bytes[step[0]])
            ends_s[place] = simgrid.Engine.clock
            for queue in queues.values():
                queue.put(None)

        return body

    for place, host in enumerate(hosts):
        here = simgrid.Host.by_name(host)
        queues: dict[str, Channel[Step | None]] = {"forward": Channel(), "backward": Channel()}
        here.add_actor(f"stage-{place}", stage(place, queues))
        for direction, peer in (("forward", place + 1), ("backward", place - 1)):
            here.add_actor(f"port-{direction}-{place}", port(place, queues[direction], peer))
    run_to_the_end(engine)
    return PlayedIteration(tuple(ends_s), sum(received))
