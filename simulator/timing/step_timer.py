"""Simulates steps on a loaded platform to measure their times; see `step_times`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

import simgrid
from faultline.simulator.job.durations import StepTime
from faultline.simulator.pattern.activity_graph import Fold, Rank, passes_graph
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.pattern.step_pattern import RingEdge, StepPattern, ring_edges
from faultline.simulator.pattern.sync_graph import sync_graph
from faultline.simulator.pattern.teams import Hosts, Team, Teams
from faultline.simulator.simgrid.graph_runner import GraphRunner, Span
from faultline.simulator.simgrid.placed_job import (
    MESSAGES,
    PlacedJob,
    domains_of_ranks,
    hosts_of_ranks,
)

_SIMULATED_ROUNDS = 2
"""Rounds of micro-batches, one per stage, that are simulated of a longer step, besides the
remainder. One round fills and drains a pipeline; the next shows how much each further round adds.
If a stage before the last is the slowest, one more is needed, because others run ahead of it at
first. If sends overlap, passes may take turns over several rounds: then a step is off by up to
1e-4."""


class StepTimer:
    """Measures steps on an engine's platform; times of simulated passes are kept.

    If it `folds`, equal ranks represent each other. `link_shares` are the remaining shares of the
    bandwidth of narrowed links, by name.
    """

    def __init__(
        self,
        engine: simgrid.Engine,
        folds: bool,
        link_shares: frozenset[tuple[str, float]] = frozenset(),
    ) -> None:
        self._engine, self._folds, self._link_shares = engine, folds, link_shares
        self._known: dict[tuple[object, ...], tuple[dict[str, float], int]] = {}

    def __call__(
        self,
        hosts: Hosts,
        pattern: StepPattern,
        shares: StepShares | None = None,
        slow: Mapping[Rank, float] = MappingProxyType({}),
    ) -> StepTime:
        """Simulate the passes of a step, or a part that determines them, and the rest of the step.

        If some ranks are `slow`, by these factors, all ranks are simulated.
        """
        context = pattern.context
        teams = _teams(hosts, pattern, shares)
        replicas = _replicas(teams)
        used = [replica // context for replica in replicas[::context]]
        cluster = self._cluster(hosts, teams)
        folds = self._folds and not slow and _folds_by_class(cluster, teams)
        all_positions = tuple(range(max(teams.degrees, default=pattern.tensor)))
        positions = cluster.positions() if folds else all_positions
        if folds:
            # Teams that are simulated separately, and teams that share links.
            apart, together = teams.kinds(_classes_of_groups(cluster, used, context))
            if any(team.hides for team in teams.teams) and not cluster.treats_replicas_alike:
                # A team's messages after its passes take longer for some than for others.
                apart, together = [], list(teams.teams)
            represent_all = not together
            if any(team.hides for team in apart):
                farthest = replicas[cluster.farthest()] // context
                apart, together = teams.beside_each_other(apart, together, farthest)
            if together and (len(teams.degrees) > 1 or any(team.hides for team in together)):
                positions = all_positions
            passes = [self._extrapolated(teams, team, hosts, positions, cluster) for team in apart]
            # Other groups may do all work of a group.
            groups = {
                group
                for team in together
                for group in (
                    [team.group] if team.group in used else [group for group, _ in team.nodes]
                )
            }
            places = tuple(
                used.index(group) * context + place for group in groups for place in range(context)
            )
            with cluster.narrowed(MESSAGES if together else (), Fold(places, positions)):
                if represent_all and len({team.kind for team in together}) == 1:
                    passes += self._together_extrapolated(teams, together, hosts, positions)
                else:
                    passes += self._together(teams, together, hosts, positions)
        else:
            passes = self._together(teams, teams.teams, hosts, positions, slow=slow)
        longest = max(passes, key=lambda team_passes: (team_passes.passes_s, team_passes.flop))
        end_s = max(team_passes.passes_s + team_passes.parts["gradient"] for team_passes in passes)
        parts = longest.parts
        if len(teams.degrees) > 1:
            positions = all_positions
        host_of = hosts_of_ranks(hosts).__getitem__
        all_replicas = Fold(tuple(range(len(replicas))), positions)
        with cluster.narrowed(("gradient",) if folds else (), all_replicas):
            graph = sync_graph(teams, positions)
            runner = GraphRunner(graph, host_of, teams.rank_of(longest.watched))
            sync_s = runner.simulate_alone(self._engine)
        optimizer_s = _total_s(runner.spans, "optimizer")
        runner.free()
        return StepTime(
            parts["compute"],
            parts["tensor"],
            parts["context"],
            parts["pipeline"],
            parts["bubble"],
            end_s - longest.passes_s + sync_s - optimizer_s,
            optimizer_s,
            len(runner) + sum(team_passes.activities for team_passes in passes),
            cluster.treats_pairs_alike,
            parts["unit"],
        )

    def look_up(self, hosts: Hosts, pattern: StepPattern, shares: StepShares | None = None) -> None:
        """Look up the platform's properties for timing a step, without simulating it."""
        cluster = self._cluster(hosts, _teams(hosts, pattern, shares))
        for kind in MESSAGES:
            cluster.load(kind)
        # Reading a cached property computes it.
        _ = cluster.treats_replicas_alike

    def _cluster(self, hosts: Hosts, teams: Teams) -> PlacedJob:
        """Return the ranks of the teams on their hosts."""
        replicas, domain_of = _replicas(teams), domains_of_ranks(hosts)
        rings = tuple(
            ring_edges([domain_of(Rank(replica, stage, 0)) for replica in replicas])
            for stage in range(teams.pattern.pipeline)
        )
        # Positions beyond the largest tensor-parallel degree send nothing.
        tensor = max(teams.degrees, default=teams.pattern.tensor)
        names = tuple(
            tuple(tuple(stage[:tensor]) for stage in hosts[replica]) for replica in replicas
        )
        return _placed(names, teams.pattern.context, rings, self._link_shares)

    def _extrapolated(
        self,
        teams: Teams,
        team: Team,
        hosts: Hosts,
        positions: tuple[int, ...],
        cluster: PlacedJob,
    ) -> _TimedPasses:
        """Return the passes of a team among others like it, from some micro-batches."""
        hosts = teams.hosts(team, hosts)
        if team.pattern.resharded:
            positions = tuple(range(team.pattern.tensor))
        placed = PlacedJob(hosts, team.pattern, cluster)
        own_replicas = tuple(range(team.pattern.context))
        fold = Fold(own_replicas, positions[: team.pattern.tensor], True)
        watched = placed.busiest(fold)
        counts = _simulated_micro_batches(team.pattern)
        results = []
        for micro_batches in counts:
            pattern = replace(
                team.pattern,
                micro_batches=micro_batches,
                optimizer_flop=(0.0,) * team.pattern.pipeline,
            )
            key = (pattern, fold, tuple(tuple(map(tuple, stages)) for stages in hosts))
            if key not in self._known:
                with placed.narrowed(MESSAGES, fold):
                    runner = GraphRunner(passes_graph(pattern, fold), placed.host, watched)
                    begun_s = self._engine.clock
                    runner.simulate_alone(self._engine)
                self._known[key] = _parts(begun_s, runner), len(runner)
                runner.free()
            results.append(self._known[key])
        parts = _extrapolated(team.pattern, counts, [simulated for simulated, _ in results])
        flop = team.pattern.stage_flop[watched.stage]
        return _TimedPasses(parts, (team, watched), flop, sum(number for _, number in results))

    def _together(
        self,
        teams: Teams,
        simulated: Sequence[Team],
        hosts: Hosts,
        positions: tuple[int, ...],
        micro_batches: int | None = None,
        slow: Mapping[Rank, float] = MappingProxyType({}),
    ) -> list[_TimedPasses]:
        """Return the passes of teams that run at once, of all or `micro_batches` micro-batches."""
        begun_s = self._engine.clock
        started = []
        for team in simulated:
            pattern = team.pattern
            if micro_batches is not None:
                pattern = replace(pattern, micro_batches=micro_batches)
            placed = PlacedJob(teams.hosts(team, hosts), pattern)
            fold = Fold(tuple(range(pattern.context)), positions[: pattern.tensor])
            watched = placed.busiest(fold)
            graph = passes_graph(pattern, fold)
            runner = GraphRunner(graph, placed.host, watched)
            if slow:
                ranks = {activity.rank for activity in graph.activities}
                runner.slow_down(
                    {rank: slow.get(teams.rank_of((team, rank)), 1.0) for rank in ranks}
                )
            started.append((team, watched, runner))
        for _, _, runner in started:
            runner.start()
        self._engine.run()
        passes = []
        for team, watched, runner in started:
            flop = team.pattern.stage_flop[watched.stage]
            parts = _parts(begun_s, runner)
            passes.append(_TimedPasses(parts, (team, watched), flop, len(runner)))
            runner.free()
        return passes

    def _together_extrapolated(
        self,
        teams: Teams,
        simulated: Sequence[Team],
        hosts: Hosts,
        positions: tuple[int, ...],
    ) -> list[_TimedPasses]:
        """Return the passes of alike teams that run at once, from some micro-batches."""
        pattern = simulated[0].pattern
        counts = _simulated_micro_batches(pattern)
        steps = [self._together(teams, simulated, hosts, positions, count) for count in counts]
        return [
            replace(
                by_count[-1],
                parts=_extrapolated(pattern, counts, [passes.parts for passes in by_count]),
                activities=sum(passes.activities for passes in by_count),
            )
            for by_count in zip(*steps, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _TimedPasses:
    """The passes of a team: their seconds by kind, their team, and the cost of simulating them."""

    parts: dict[str, float]
    watched: tuple[Team, Rank]
    flop: float
    activities: int

    @property
    def passes_s(self) -> float:
        return sum(part for kind, part in self.parts.items() if kind != "gradient")


def _teams(hosts: Hosts, pattern: StepPattern, shares: StepShares | None) -> Teams:
    """Return the teams of a step; by default, all groups compute equal shares."""
    all_groups = tuple(range(pattern.data // pattern.context))
    return Teams(pattern, shares or StepShares(all_groups), domains_of_ranks(hosts))


def _replicas(teams: Teams) -> list[int]:
    """Return the replicas whose GPUs the teams use."""
    context = teams.pattern.context
    used = sorted({group for team in teams.teams for group, _ in team.nodes})
    return [group * context + place for group in used for place in range(context)]


def _folds_by_class(cluster: PlacedJob, teams: Teams) -> bool:
    """Return whether one team of each kind and class may represent the others.

    With several classes, teams must not send to each other during their passes: as gradients that
    hide, or from one group to another.
    """
    if cluster.is_even or not cluster.classes:
        return cluster.is_even
    return all(
        not team.hides and all(group == team.group for group, _ in team.nodes)
        for team in teams.teams
    )


def _classes_of_groups(
    cluster: PlacedJob, used: Sequence[int], context: int
) -> dict[int, tuple[int, ...]]:
    """Return the classes of the replicas of each group that is used."""
    classes = cluster.classes
    return {
        group: classes[place * context : (place + 1) * context] for place, group in enumerate(used)
    }


@lru_cache(maxsize=16)
def _placed(
    names: tuple[tuple[tuple[str, ...], ...], ...],
    context: int,
    rings: tuple[tuple[RingEdge, ...], ...],
    _link_shares: frozenset[tuple[str, float]],
) -> PlacedJob:
    """Return ranks, without their computations, on hosts; the result remembers the links."""
    pipeline, tensor = len(names[0]), len(names[0][0])
    pattern = StepPattern(
        len(names), pipeline, tensor, context, 1, (), 0.0, 0.0, (), (), (), rings=rings
    )
    return PlacedJob(names, pattern)


def _parts(begun_s: float, runner: GraphRunner) -> dict[str, float]:
    """Return the seconds of the passes by kind; the rest is the bubble."""
    kinds = ("compute", "tensor", "context", "pipeline")
    parts = {kind: _total_s(runner.spans, kind) for kind in kinds}
    parts["unit"] = _alone_s(runner.spans, "unit", kinds)
    duration_s = runner.passed_s - begun_s
    bubble_s = duration_s - sum(parts.values())
    # A smaller difference is due to rounding.
    parts["bubble"] = bubble_s if abs(bubble_s) > 1e-12 * duration_s else 0.0
    # Gradients that should hide behind the passes but last longer.
    parts["gradient"] = max(0.0, runner.ended_s - runner.passed_s)
    return parts


def _total_s(spans: Iterable[Span], kind: str) -> float:
    return sum(span.ended_s - span.begun_s for span in spans if span.kind == kind)


def _alone_s(spans: Sequence[Span], kind: str, others: Collection[str]) -> float:
    """Return the time in which spans of a kind run, and none of the others."""
    changes = [
        change
        for span in spans
        if span.kind == kind or span.kind in others
        for change in ((span.begun_s, span.kind == kind, 1), (span.ended_s, span.kind == kind, -1))
    ]
    alone_s, before_s, running = 0.0, 0.0, [0, 0]
    for time_s, of_kind, change in sorted(changes):
        if running[True] and not running[False]:
            alone_s += time_s - before_s
        before_s = time_s
        running[of_kind] += change
    return alone_s


def _extrapolated(
    pattern: StepPattern, counts: Sequence[int], simulated: Sequence[dict[str, float]]
) -> dict[str, float]:
    """Return the seconds of a step's passes, given those of `counts` of its micro-batches."""
    rounds = (pattern.micro_batches - counts[-1]) / pattern.pipeline
    if not rounds:
        return simulated[-1]
    # Each further round of micro-batches adds as much as the last one.
    before, after = simulated
    return {kind: part + rounds * (part - before[kind]) for kind, part in after.items()}


def _simulated_micro_batches(pattern: StepPattern) -> tuple[int, ...]:
    """Return the numbers of micro-batches to simulate, from which the time of the step follows."""
    stages, flop = pattern.pipeline, pattern.stage_flop
    rounds = _SIMULATED_ROUNDS + (flop[-1] < max(flop))
    last = rounds * stages + pattern.micro_batches % stages
    if pattern.orders or pattern.micro_batches <= last:
        return (pattern.micro_batches,)
    return (last - stages, last)
