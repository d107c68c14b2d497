"""How a snapshot in flight and steps slow each other: SimGrid simulates both at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.simulator.job.background import ALONE, Sharing, WriteBesideSteps
from faultline.simulator.pattern.activity_graph import Fold, passes_graph
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.pattern.step_pattern import StepPattern
from faultline.simulator.pattern.sync_graph import sync_graph
from faultline.simulator.pattern.teams import Teams
from faultline.simulator.simgrid.traffic import Traffic
from faultline.simulator.timing.probe_cache import cached_simulation

if TYPE_CHECKING:
    import simgrid

# Raise it when the same request would be simulated differently.
_VERSION = 13
_MOST_GPUS_CHANGED = 64
"""Largest job whose writes are observed beside each step that a scheme changes. In larger jobs one
group changes less, and each failure would take seconds to simulate."""
_MOST_STEPS = 8
"""Steps beside which a long write is observed."""


def write_beside_steps(platform: Path, traffic: Traffic) -> WriteBesideSteps:
    """Return how a write and a job's steps slow each other.

    The write is `traffic.snapshot` to host memories, or else the first group's to storage.
    """
    groups = len(traffic.hosts) if traffic.step is None else traffic.step.groups
    times = _SimulatedWrites(platform, traffic)
    sound = times(StepShares(tuple(range(groups))), None if traffic.snapshot else 0)
    is_small = traffic.step is not None and len(traffic.step.names) <= _MOST_GPUS_CHANGED
    return replace(sound, in_step=times) if is_small else sound


@dataclass(frozen=True, slots=True)
class _SimulatedWrites:
    """Times of writes beside steps with any shares, each simulated once."""

    platform: Path
    traffic: Traffic
    _known: dict[tuple[StepShares, int | None], WriteBesideSteps] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __call__(self, shares: StepShares, writer: int | None) -> WriteBesideSteps:
        """Return the times of a group's write, or of all copies to memories (None)."""
        if (shares, writer) not in self._known:
            measured = cached_simulation(
                self.platform,
                list[Sequence[float]],
                _VERSION,
                simulate_beside,
                self.traffic,
                shares,
                writer,
            )
            (alone_s,), *times = measured
            *passes, sync, saved, sent = (Sharing.of(*part_s) for part_s in times)
            passes, saved = passes or [ALONE], saved if self.traffic.save else ALONE
            found = WriteBesideSteps(alone_s, passes[0], sync, saved, sent)
            self._known[shares, writer] = found
        return self._known[shares, writer]


def simulate_beside(
    engine: simgrid.Engine, traffic: Traffic, shares: StepShares, writer: int | None
) -> list[Sequence[float]]:
    """Simulate parts of a step with some shares, and other flows, alone and beside a write.

    Returns the time of the write alone, and the arguments of `Sharing.of` for the passes, if the
    step is simulated, the exchange of gradients, a checkpoint, and a group's state that is sent to
    the group before it.
    """
    from faultline.simulator.simgrid.links import level_memory_doors, storage_shared_equally
    from faultline.simulator.simgrid.loading import lasting_s, run_controller
    from faultline.simulator.simgrid.storage_traffic import transfer
    from faultline.simulator.simgrid.write_in_flight import FlowsAlone

    level_memory_doors(traffic)
    # Built before any actor starts: within an actor, each task costs thread switches.
    parts = [*_parts_of(traffic, shares)]
    sender = shares.members[0] if writer is None else writer
    ends = zip(traffic.hosts[sender], traffic.hosts[sender - 1], strict=True)
    size_bytes = traffic.checkpoint_bytes_per_rank
    sent = [(near, far, size_bytes) for near, far in ends if near != far]
    others = [partial(transfer, flows) for flows in (traffic.write_of(sender), sent)]
    absent = set(range(len(traffic.hosts))).difference(shares.members)
    off = {host for group in absent for host in traffic.hosts[group]}
    flows = [flow for flow in traffic.write_of(writer) if off.isdisjoint(flow[:2])]
    times: list[Sequence[float]] = []

    def measure() -> None:
        write = FlowsAlone(flows)
        times.append([write.alone_s])
        alone_s = [lasting_s(part) for part in parts]
        found = write.beside_all(parts, alone_s, _MOST_STEPS)
        for place, (part, part_s) in enumerate(zip(parts, alone_s, strict=True)):
            for before in parts[:place]:
                before()
            met_s = found[place][0]
            times.append(found[place] if met_s else write.beside(part, part_s))
        times.extend(write.beside(other, lasting_s(other)) for other in others)

    with storage_shared_equally(traffic):
        run_controller(engine, "measure", measure)
    return times


def _parts_of(traffic: Traffic, shares: StepShares) -> Iterator[Callable[[], object]]:
    """Yield the passes, if the step is simulated, and the exchange of gradients.

    Hidden gradients may outlast the passes: the exchange then waits for them. In large jobs the
    first group's passes represent those of all.
    """
    from faultline.simulator.simgrid.graph_runner import GraphRunner
    from faultline.simulator.simgrid.group_all_reduce import all_reduce
    from faultline.simulator.simgrid.placed_job import domains_of_ranks, hosts_of_ranks

    if traffic.step is None:
        hosts = [traffic.hosts[group] for group in shares.members]
        yield partial(all_reduce, hosts, traffic.bytes_per_rank)
        return
    step, pattern = traffic.step, traffic.step.pattern
    teams = Teams(pattern, shares, domains_of_ranks(step.hosts))
    most = len(teams.teams) if step.keeps_ranks_apart else 1
    passes = [
        GraphRunner(
            passes_graph(team.pattern, _all_ranks(team.pattern)),
            hosts_of_ranks(teams.hosts(team, step.hosts)).__getitem__,
        )
        for team in teams.teams[:most]
    ]
    sync = GraphRunner(
        sync_graph(teams, range(pattern.tensor)), hosts_of_ranks(step.hosts).__getitem__
    )

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


def _all_ranks(pattern: StepPattern) -> Fold:
    return Fold(tuple(range(pattern.context)), tuple(range(pattern.tensor)))
