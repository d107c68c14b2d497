"""How a snapshot in flight and steps slow each other: SimGrid simulates both at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.simulator.job.background import ALONE, Sharing, WriteBesideSteps
from faultline.simulator.pattern.activity_graph import Fold, passes_graph
from faultline.simulator.pattern.placed_step import MOST_RANKS_APART
from faultline.simulator.pattern.step_shares import StepShares
from faultline.simulator.pattern.sync_graph import sync_graph
from faultline.simulator.pattern.teams import Teams
from faultline.simulator.simgrid.traffic import Traffic
from faultline.simulator.timing.kept_platform import cached_simulation

if TYPE_CHECKING:
    import simgrid

# Raise it when the same request would be simulated differently.
_VERSION = 5
_MOST_STEPS = 8
"""Steps beside which a long write is observed."""


def write_beside_steps(platform: Path, traffic: Traffic) -> WriteBesideSteps:
    """Return how a write and a job's steps slow each other.

    The write is `traffic.snapshot` to host memories, or else the first group's to storage.
    """
    times = cached_simulation(platform, list[Sequence[float]], _VERSION, simulate_beside, traffic)
    *passes, sync, sent = (Sharing.of(*part_s) for part_s in times)
    saved = sent if traffic.save else ALONE
    return WriteBesideSteps(times[0][1], passes[0] if passes else ALONE, sync, saved, sent)


def simulate_beside(engine: simgrid.Engine, traffic: Traffic) -> list[Sequence[float]]:
    """Simulate parts of a step, and a checkpoint, alone and beside a write.

    Returns the arguments of `Sharing.of` for the passes, if the step is simulated, the exchange of
    gradients, and the checkpoint.
    """
    from faultline.simulator.simgrid.links import level_memory_doors
    from faultline.simulator.simgrid.loading import lasting_s, run_controller
    from faultline.simulator.simgrid.storage_traffic import transfer
    from faultline.simulator.simgrid.write_in_flight import FlowsAlone

    level_memory_doors(traffic)
    # Built before any actor starts: within an actor, each task costs thread switches.
    parts, save = [*_parts_of(traffic)], partial(transfer, traffic.write_of(0))
    times: list[Sequence[float]] = []

    def measure() -> None:
        write = FlowsAlone(traffic.write_of(None if traffic.snapshot else 0))
        alone_s = [lasting_s(part) for part in parts]
        covered = write.beside_all(parts, _MOST_STEPS)
        for place, (part, part_s) in enumerate(zip(parts, alone_s, strict=True)):
            for before in parts[:place]:
                before()
            count, beside_s, written_s = covered[place]
            if count:
                written_s = write.alone_s + beside_s - written_s
                times.append((count * part_s, write.alone_s, beside_s, written_s))
            else:
                times.append(write.beside(part, part_s))
        times.append(write.beside(save, lasting_s(save)))

    run_controller(engine, "measure", measure)
    return times


def _parts_of(traffic: Traffic) -> Iterator[Callable[[], object]]:
    """Yield the passes, if the step is simulated, and the exchange of gradients.

    Hidden gradients may outlast the passes: the exchange then waits for them. In large jobs the
    first group's passes represent those of all.
    """
    from faultline.simulator.simgrid.graph_runner import GraphRunner
    from faultline.simulator.simgrid.group_all_reduce import all_reduce
    from faultline.simulator.simgrid.placed_job import domains_of_ranks, hosts_of_ranks

    if traffic.step is None:
        yield partial(all_reduce, traffic.hosts, traffic.bytes_per_rank)
        return
    step, pattern = traffic.step, traffic.step.pattern
    all_groups = StepShares(tuple(range(pattern.data // pattern.context)))
    teams = Teams(pattern, all_groups, domains_of_ranks(step.hosts))
    fold = Fold(tuple(range(pattern.context)), tuple(range(pattern.tensor)))
    most = len(teams.teams) if len(step.names) <= MOST_RANKS_APART else 1
    passes = [
        GraphRunner(
            passes_graph(team.pattern, fold),
            hosts_of_ranks(teams.hosts(team, step.hosts)).__getitem__,
        )
        for team in teams.teams[:most]
    ]
    sync = GraphRunner(sync_graph(teams, fold.positions), hosts_of_ranks(step.hosts).__getitem__)

    def pass_through() -> None:
        for runner in passes:
            runner.start()
        for runner in passes:
            runner.wait_for_passes()

    def exchange() -> None:
        for runner in passes:
            runner.wait()
        sync.simulate()

    yield pass_through
    yield exchange
