"""How a snapshot in flight and steps slow each other: SimGrid simulates both at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.job.background import ALONE, ANOTHER_WRITE, Sharing, WriteBesideSteps
from faultline.simulator.pattern.activity_graph import ActivityGraph, Fold, passes_graph
from faultline.simulator.pattern.placed_step import PlacedStep
from faultline.simulator.pattern.step_shares import StepShares
from faultline.simulator.pattern.sync_graph import sync_graph
from faultline.simulator.pattern.teams import Teams
from faultline.simulator.simgrid.traffic import Traffic
from faultline.simulator.timing.kept_platform import cached_simulation
from faultline.simulator.timing.simulated_courses import courses_of

if TYPE_CHECKING:
    import simgrid
    from faultline.simulator.simgrid.graph_runner import HostOf

# Raise it when the same request would be simulated differently.
_VERSION = 2


def write_beside_steps(
    platform: Path, traffic: Traffic, layout: JobLayout | None = None
) -> WriteBesideSteps:
    """Return how a write and a job's steps slow each other.

    The write is `traffic.snapshot` to host memories, or else the first group's to storage. The
    `layout` has the GPUs of each component; it is needed if some components are slow.
    """
    times = cached_simulation(platform, list[Sequence[float]], _VERSION, simulate_beside, traffic)
    parts, sent = [Sharing.of(*part_s) for part_s in times], ANOTHER_WRITE
    if traffic.snapshot:
        sent = parts.pop()
    saved = sent if traffic.save else ALONE
    *passes, sync = parts
    simulated, courses = passes[0] if passes else ALONE, courses_of(platform, traffic, layout)
    return WriteBesideSteps(times[-1][1], simulated, sync, saved, sent, courses)


def simulate_beside(engine: simgrid.Engine, traffic: Traffic) -> list[Sequence[float]]:
    """Simulate parts of a step, and a checkpoint, alone and beside a write.

    Returns for the passes, the exchange of gradients and the checkpoint: seconds of the part alone,
    of the write alone, and until the part and the write have ended if both begin at once.
    """
    import simgrid
    from faultline.simulator.simgrid.graph_runner import GraphRunner
    from faultline.simulator.simgrid.group_all_reduce import all_reduce
    from faultline.simulator.simgrid.links import level_memory_doors
    from faultline.simulator.simgrid.loading import lasting_s, run_controller
    from faultline.simulator.simgrid.storage_traffic import transfer

    level_memory_doors(traffic)
    parts: list[Callable[[], object]] = []
    if traffic.step is None:
        parts.append(partial(all_reduce, traffic.hosts, traffic.bytes_per_rank))
    else:
        # Built before any actor starts: within an actor, each task costs thread switches.
        for graph, host_of in _graphs_of(traffic.step):
            parts.append(GraphRunner(graph, host_of).simulate)
    times: list[Sequence[float]] = []

    save = write = partial(transfer, traffic.write_of(0))
    if traffic.snapshot:
        write = partial(transfer, traffic.write_of(None))
        parts.append(save)

    def begin(act: Callable[[], object]) -> tuple[simgrid.Actor, list[float]]:
        lasted_s: list[float] = []
        actor = simgrid.this_actor.get_host().add_actor(
            "beside", lambda: lasted_s.append(lasting_s(act))
        )
        return actor, lasted_s

    def measure() -> None:
        for part in parts:
            alone_s, write_s = lasting_s(part), lasting_s(write)
            both = begin(part), begin(write)
            for actor, _ in both:
                actor.join()
            (_, (ended_s,)), (_, (written_s,)) = both
            times.append((alone_s, write_s, ended_s, written_s))

    run_controller(engine, "measure", measure)
    return times


def _graphs_of(step: PlacedStep) -> Iterator[tuple[ActivityGraph, HostOf]]:
    """Yield the passes of the group that writes, and the sync, in which the others wait for it."""
    from faultline.simulator.simgrid.placed_job import domains_of_ranks, hosts_of_ranks

    pattern = step.pattern
    all_groups = StepShares(tuple(range(pattern.data // pattern.context)))
    teams = Teams(pattern, all_groups, domains_of_ranks(step.hosts))
    writing = Fold(tuple(range(pattern.context)), tuple(range(pattern.tensor)))
    hosts = teams.hosts(teams.teams[0], step.hosts)
    yield passes_graph(teams.teams[0].pattern, writing), hosts_of_ranks(hosts).__getitem__
    yield sync_graph(teams, writing.positions), hosts_of_ranks(step.hosts).__getitem__
