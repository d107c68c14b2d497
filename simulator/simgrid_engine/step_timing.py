"""What SimGrid says a step takes, and of what parts its time is made.

Equal ranks need not all be played. Replicas and tensor-parallel positions fold into one where the
platform treats them alike: same speeds, and for each kind of message routes of the same latency and
the same share of their narrowest link while everybody sends. A link that carries messages of
several, of which fewer are played, is narrowed by as much. On a platform that is uneven anywhere
on the way, everybody plays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.simulator.durations import SyncTime
from faultline.simulator.pattern.activity_graph import (
    Fold,
    passes_graph,
    sync_graph,
)
from faultline.simulator.pattern.step_pattern import StepPattern
from faultline.simulator.simgrid_engine.process import in_own_process

if TYPE_CHECKING:
    from faultline.simulator.simgrid_engine.graph_player import Span
    from faultline.simulator.simgrid_engine.placed_job import Hosts

_DRAWN_OUT_ROUNDS = 4
"""Rounds of micro-batches, one a stage each, that are played of a longer step: two more rounds than
fill and drain a pipeline show what every further one adds."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of an undisturbed step, by what the busiest stage spends them on.

    Attributes
    ----------
    compute_s, tensor_s, context_s, pipeline_s, bubble_s : float
        Of the forward and backward passes: computing, sending in tensor-parallel groups, between
        ranks that share sequences, to neighbouring stages, and waiting for these.
    data_parallel_s : float
        Gradients and weights between replicas, as far as they do not hide behind the passes.
    optimizer_s : float
        The optimizer's step.
    activities : int
        Computations and messages that were played to find out.
    is_even : bool
        Whether the platform treats all replicas alike, so that it does not matter which take part.
    """

    compute_s: float
    tensor_s: float
    context_s: float
    pipeline_s: float
    bubble_s: float
    data_parallel_s: float
    optimizer_s: float
    activities: int
    is_even: bool

    @property
    def passes_s(self) -> float:
        """Forward and backward passes."""
        return self.compute_s + self.tensor_s + self.context_s + self.pipeline_s + self.bubble_s

    @property
    def sync_s(self) -> float:
        """What follows them, in which replicas wait for each other."""
        return self.data_parallel_s + self.optimizer_s

    @property
    def step_s(self) -> float:
        """The whole step."""
        return self.passes_s + self.sync_s

    def sync_time(self, replicas: int) -> SyncTime:
        """Return what follows the passes by the replicas that are left of so many."""
        share = (replicas - 1) / replicas
        return SyncTime(self.data_parallel_s / share if share else 0.0, self.optimizer_s)


def time_step(
    platform: Path, hosts: Hosts, pattern: StepPattern, *, folds: bool = True
) -> StepTime:
    """Let SimGrid play a step, in a process of its own.

    Parameters
    ----------
    platform : Path
        Platform XML.
    hosts : sequence
        GPU hosts by replica, stage and position.
    pattern : StepPattern
        What is played.
    folds : bool
        Whether equal ranks may stand for each other.
    """
    return in_own_process(_time_step, platform, hosts, pattern, folds)


def _time_step(platform: Path, hosts: Hosts, pattern: StepPattern, folds: bool) -> StepTime:
    import simgrid
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.graph_player import GraphPlayer
    from faultline.simulator.simgrid_engine.loading import actor_on, load_engine, run_to_the_end
    from faultline.simulator.simgrid_engine.placed_job import PlacedJob

    engine = load_engine(platform)
    engine.netzone_root.seal()
    cluster = PlacedJob(hosts, pattern)
    whole = Fold.whole(pattern)
    fold = cluster.fold() if folds else whole
    watched = cluster.busiest(fold)
    is_even = cluster.treats_replicas_alike()
    synced = Fold(whole.replicas, fold.positions)
    if fold != whole:
        cluster.narrow(fold, synced)
    played = _played_micro_batches(pattern) if fold != whole else (pattern.micro_batches,)
    seconds: list[tuple[float, list[Span]]] = []
    activities = 0

    def play() -> None:
        nonlocal activities
        graphs = [passes_graph(replace(pattern, micro_batches=each), fold) for each in played]
        for graph in (*graphs, sync_graph(pattern, synced)):
            player = GraphPlayer(graph, cluster.host, watched)
            begun_s = simgrid.Engine.clock
            player.start()
            player.wait()
            seconds.append((simgrid.Engine.clock - begun_s, player.spans))
            activities += len(player)

    actor_on(CONTROLLER_HOST, "timer", play)
    run_to_the_end(engine)
    *passes, (sync_s, sync_spans) = seconds
    parts = [_parts(duration_s, spans) for duration_s, spans in passes]
    # Every further round of micro-batches adds what the last one has added.
    rounds = (pattern.micro_batches - played[-1]) / pattern.pipeline
    kinds = parts[-1]
    if rounds:
        kinds = {kind: part + rounds * (part - parts[0][kind]) for kind, part in kinds.items()}
    optimizer_s = _total(sync_spans, "optimizer")
    return StepTime(
        kinds["compute"],
        kinds["tensor"],
        kinds["context"],
        kinds["pipeline"],
        kinds["bubble"],
        sync_s - optimizer_s,
        optimizer_s,
        activities,
        is_even,
    )


def _parts(duration_s: float, spans: Iterable[Span]) -> dict[str, float]:
    """Return the seconds of the passes by kind; what is left over is the bubble."""
    kept = list(spans)
    parts = {kind: _total(kept, kind) for kind in ("compute", "tensor", "context", "pipeline")}
    parts["bubble"] = duration_s - sum(parts.values())
    return parts


def _total(spans: Iterable[Span], kind: str) -> float:
    return sum(span.ended_s - span.begun_s for span in spans if span.kind == kind)


def _played_micro_batches(pattern: StepPattern) -> tuple[int, ...]:
    """Return of which steps, by micro-batches, the time of the step follows."""
    stages = pattern.pipeline
    if pattern.micro_batches <= _DRAWN_OUT_ROUNDS * stages:
        return (pattern.micro_batches,)
    rest = pattern.micro_batches % stages
    last = (_DRAWN_OUT_ROUNDS - (rest > 0)) * stages + rest
    return (last - stages, last)
