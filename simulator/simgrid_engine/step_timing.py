"""What SimGrid says a step takes, and of what parts its time is made.

Equal ranks need not all be played. Replicas and tensor-parallel positions fold into one where the
platform treats them alike: same speeds, and for each kind of message routes of the same latency and
the same share of their narrowest link while everybody sends; into two where something else is on
the links of their ring. A link that carries messages of several, of which fewer are played, is
narrowed by as much. On a platform that is uneven anywhere on the way, everybody plays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from faultline.simulator.durations import SyncTime
from faultline.simulator.pattern.activity_graph import (
    ActivityGraph,
    Fold,
    Rank,
    passes_graph,
    sync_graph,
)
from faultline.simulator.pattern.step_pattern import StepPattern
from faultline.simulator.simgrid_engine.process import in_own_process

if TYPE_CHECKING:
    import simgrid
    from faultline.simulator.simgrid_engine.graph_player import Span
    from faultline.simulator.simgrid_engine.placed_job import Hosts, PlacedJob

Result = TypeVar("Result")

_DRAWN_OUT_ROUNDS = 2
"""Rounds of micro-batches, one a stage each, that are played of a longer step, besides what is left
over: one fills and drains a pipeline, and the next shows what every further one adds. It takes one
more where a stage before the last is the slowest, as others run ahead of it at first. Where sends
overlap, passes may take turns over several rounds: then a step is off by up to 1e-4."""


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
    is_even: bool = True

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

    def sync_time(self, groups: int, context: int) -> SyncTime:
        """Return what follows the passes by the groups, of `context` replicas, that are left."""
        replicas = groups * context
        share = (replicas - 1) / replicas
        transfer_s = self.data_parallel_s / share if share else 0.0
        return SyncTime(context, transfer_s, self.optimizer_s)


Timer = Callable[["Hosts", StepPattern], StepTime]
"""Times a step that GPU hosts play; by replica, stage and position."""


def time_steps(
    platform: Path, steps: Sequence[tuple[Hosts, StepPattern]], *, folds: bool = True
) -> list[StepTime]:
    """Let SimGrid play several steps on one platform, one after the other in one process."""
    return with_timer(platform, partial(_each, steps), folds=folds)


def with_timer(platform: Path, plan: Callable[[Timer], Result], *, folds: bool = True) -> Result:
    """Return what a plan comes to that times steps, all on one platform in a process of its own.

    Parameters
    ----------
    platform : Path
        Platform XML.
    plan : callable
        Is given a `Timer`; of a module, so that another process finds it.
    folds : bool
        Whether equal ranks may stand for each other.
    """
    return in_own_process(_with_timer, platform, plan, folds)


def time_step(
    engine: simgrid.Engine, hosts: Hosts, pattern: StepPattern, shares: Mapping[str, float]
) -> StepTime:
    """Play a step on an engine's platform, with a share of the bandwidth of some links."""
    from faultline.simulator.simgrid_engine.narrowing import narrowed

    with narrowed(shares):
        return _StepTimer(engine, folds=True)(hosts, pattern)


def _each(steps: Sequence[tuple[Hosts, StepPattern]], timer: Timer) -> list[StepTime]:
    return [timer(hosts, pattern) for hosts, pattern in steps]


def _with_timer(platform: Path, plan: Callable[[Timer], Result], folds: bool) -> Result:
    from faultline.simulator.simgrid_engine.loading import load_engine

    engine = load_engine(platform)
    engine.netzone_root.seal()
    return plan(_StepTimer(engine, folds))


class _StepTimer:
    """Times steps on an engine's platform; passes that were played before are remembered."""

    def __init__(self, engine: simgrid.Engine, folds: bool) -> None:
        self._engine, self._folds = engine, folds
        self._known: dict[tuple[object, ...], tuple[dict[str, float], int]] = {}

    def __call__(self, hosts: Hosts, pattern: StepPattern) -> StepTime:
        """Play the passes of a step, or what they follow from, and what comes behind them."""
        from faultline.simulator.simgrid_engine.placed_job import PlacedJob

        cluster = PlacedJob(hosts, pattern)
        whole = Fold.whole(pattern)
        fold = cluster.fold() if self._folds else whole
        watched = cluster.busiest(fold)
        is_even = cluster.treats_replicas_alike()
        synced = Fold(whole.replicas, fold.positions)
        if fold != whole:
            cluster.narrow(fold, synced)
        played = _played_micro_batches(pattern) if fold != whole else (pattern.micro_batches,)
        nothing = (0.0,) * pattern.pipeline
        passes = []
        for micro_batches in played:
            alone = replace(
                pattern,
                micro_batches=micro_batches,
                gradient_bytes=nothing,
                optimizer_flop=nothing,
            )
            key = (alone, fold, tuple(tuple(map(tuple, stages)) for stages in hosts))
            if key not in self._known:
                seconds, spans, number = self._play(passes_graph(alone, fold), cluster, watched)
                self._known[key] = _parts(seconds, spans), number
            passes.append(self._known[key])
        sync_s, sync_spans, activities = self._play(sync_graph(pattern, synced), cluster, watched)
        cluster.widen()
        *_, (kinds, _) = passes
        # Every further round of micro-batches adds what the last one has added.
        rounds = (pattern.micro_batches - played[-1]) / pattern.pipeline
        if rounds:
            (before, _), (after, _) = passes
            kinds = {kind: part + rounds * (part - before[kind]) for kind, part in after.items()}
        optimizer_s = _total(sync_spans, "optimizer")
        return StepTime(
            kinds["compute"],
            kinds["tensor"],
            kinds["context"],
            kinds["pipeline"],
            kinds["bubble"],
            kinds["gradient"] + sync_s - optimizer_s,
            optimizer_s,
            activities + sum(number for _, number in passes),
            is_even,
        )

    def _play(
        self, graph: ActivityGraph, cluster: PlacedJob, watched: Rank
    ) -> tuple[float, list[Span], int]:
        """Return the seconds a graph takes, what the watched rank did, and its activities."""
        from faultline.simulator.simgrid_engine.graph_player import GraphPlayer

        player = GraphPlayer(graph, cluster.host, watched)
        return player.play_alone(self._engine), player.spans, len(player)


def _parts(duration_s: float, spans: Iterable[Span]) -> dict[str, float]:
    """Return the seconds of the passes by kind; what is left over is the bubble."""
    kept = list(spans)
    parts = {kind: _total(kept, kind) for kind in ("compute", "tensor", "context", "pipeline")}
    # What was to hide behind the passes, and lasts longer than they do.
    ends_s = {span.kind: span.ended_s for span in sorted(kept, key=lambda span: span.ended_s)}
    last_s = max(ended_s for kind, ended_s in ends_s.items() if kind != "gradient")
    parts["gradient"] = max(0.0, ends_s.get("gradient", 0.0) - last_s)
    bubble_s = duration_s - sum(parts.values())
    # What is left of sums that ought to be equal is no time.
    parts["bubble"] = bubble_s if abs(bubble_s) > 1e-12 * duration_s else 0.0
    return parts


def _total(spans: Iterable[Span], kind: str) -> float:
    return sum(span.ended_s - span.begun_s for span in spans if span.kind == kind)


def _played_micro_batches(pattern: StepPattern) -> tuple[int, ...]:
    """Return of which steps, by micro-batches, the time of the step follows."""
    stages, flop = pattern.pipeline, pattern.stage_flop
    rounds = _DRAWN_OUT_ROUNDS + (flop[-1] < max(flop))
    last = rounds * stages + pattern.micro_batches % stages
    if pattern.micro_batches <= last:
        return (pattern.micro_batches,)
    return (last - stages, last)
