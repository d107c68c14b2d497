"""Simulates steps on a loaded platform to measure their times; see `step_timing`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

import simgrid
from faultline.simulator.durations import StepTime
from faultline.simulator.pattern.activity_graph import Fold, Rank, passes_graph
from faultline.simulator.pattern.step_pattern import RingEdge, StepPattern, ring_edges
from faultline.simulator.pattern.step_shares import StepShares
from faultline.simulator.pattern.sync_graph import sync_graph
from faultline.simulator.pattern.teams import Hosts, Team, Teams
from faultline.simulator.simgrid_engine.graph_runner import GraphRunner, Span
from faultline.simulator.simgrid_engine.placed_job import (
    MESSAGES,
    PlacedJob,
    domains_of_ranks,
    hosts_of_ranks,
)

_DRAWN_OUT_ROUNDS = 2
"""Rounds of micro-batches, one per stage, that are simulated of a longer step, besides the
remainder. One round fills and drains a pipeline; the next shows what each further round adds. If a
stage before the last is the slowest, one more is needed, as others run ahead of it at first. If
sends overlap, passes may take turns over several rounds: then a step is off by up to 1e-4."""


class StepTimer:
    """Measures steps on an engine's platform; passes that were simulated before are kept.

    If it `folds`, equal ranks represent each other. `left` is the remaining share of the bandwidth
    of reduced links.
    """

    def __init__(
        self, engine: simgrid.Engine, folds: bool, left: frozenset[tuple[str, float]] = frozenset()
    ) -> None:
        self._engine, self._folds, self._left = engine, folds, left
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
        tensor = _most_positions(teams)
        folds = self._folds and not slow and _folds_by_class(cluster, teams)
        everyone = tuple(range(tensor))
        positions = cluster.positions() if folds else everyone
        if folds:
            apart, near = teams.kinds(_classes_of_groups(cluster, used, context))
            if any(team.hides for team in teams.teams) and not cluster.treats_replicas_alike:
                # A team's messages after its passes take longer for some than for others.
                apart, near = [], list(teams.teams)
            stand_for_all = not near
            if any(team.hides for team in apart):
                far = replicas[cluster.farthest()] // context
                apart, near = teams.beside_each_other(apart, near, far)
            if near and (len(teams.degrees) > 1 or any(team.hides for team in near)):
                positions = everyone
            passes = [self._drawn_out(teams, team, hosts, positions, cluster) for team in apart]
            # Other groups may do all of a group's work.
            homes = {
                home
                for team in near
                for home in (
                    [team.group] if team.group in used else [group for group, _ in team.nodes]
                )
            }
            places = tuple(
                used.index(home) * context + place for home in homes for place in range(context)
            )
            with cluster.narrowed(MESSAGES if near else (), Fold(places, positions)):
                if stand_for_all and len({team.kind for team in near}) == 1:
                    passes += self._together_drawn_out(teams, near, hosts, positions)
                else:
                    passes += self._together(teams, near, hosts, positions)
        else:
            passes = self._together(teams, teams.teams, hosts, positions, slow=slow)
        longest = max(passes, key=lambda one: (one.passes_s, one.flop))
        ends_s = max(one.passes_s + one.parts["gradient"] for one in passes)
        kinds = longest.parts
        if len(teams.degrees) > 1:
            positions = everyone
        known = hosts_of_ranks(hosts)
        every_replica = Fold(tuple(range(len(replicas))), positions)
        with cluster.narrowed(("gradient",) if folds else (), every_replica):
            graph = sync_graph(teams, positions)
            runner = GraphRunner(graph, known.__getitem__, teams.rank_of(longest.watched))
            sync_s = runner.simulate_alone(self._engine)
        optimizer_s = _total(runner.spans, "optimizer")
        runner.free()
        return StepTime(
            kinds["compute"],
            kinds["tensor"],
            kinds["context"],
            kinds["pipeline"],
            kinds["bubble"],
            ends_s - longest.passes_s + sync_s - optimizer_s,
            optimizer_s,
            len(runner) + sum(one.activities for one in passes),
            cluster.treats_pairs_alike,
        )

    def look_up(self, hosts: Hosts, pattern: StepPattern, shares: StepShares | None = None) -> None:
        """Look up the platform's properties for timing a step, without simulating it."""
        cluster = self._cluster(hosts, _teams(hosts, pattern, shares))
        for kind in MESSAGES:
            cluster.load(kind)
        # A cached property: looking at it is enough.
        _ = cluster.treats_replicas_alike

    def _cluster(self, hosts: Hosts, teams: Teams) -> PlacedJob:
        """Return the ranks of the teams on their hosts; results for a step are kept."""
        replicas, domain_of = _replicas(teams), domains_of_ranks(hosts)
        rings = tuple(
            ring_edges([domain_of(Rank(replica, stage, 0)) for replica in replicas])
            for stage in range(teams.pattern.pipeline)
        )
        tensor = _most_positions(teams)
        names = tuple(tuple(tuple(stage[:tensor]) for stage in hosts[one]) for one in replicas)
        return _placed(names, teams.pattern.context, rings, self._left)

    def _drawn_out(
        self,
        teams: Teams,
        team: Team,
        hosts: Hosts,
        positions: tuple[int, ...],
        cluster: PlacedJob,
    ) -> _Passes:
        """Return the passes of a team among others like it, from some micro-batches."""
        hosts = teams.hosts(team, hosts)
        if team.pattern.resharded:
            positions = tuple(range(team.pattern.tensor))
        here = PlacedJob(hosts, team.pattern, cluster)
        own = tuple(range(team.pattern.context))
        fold = Fold(own, positions[: team.pattern.tensor], True)
        watched = here.busiest(fold)
        counts = _simulated_micro_batches(team.pattern)
        results = []
        for micro_batches in counts:
            alone = replace(
                team.pattern,
                micro_batches=micro_batches,
                optimizer_flop=(0.0,) * team.pattern.pipeline,
            )
            key = (alone, fold, tuple(tuple(map(tuple, stages)) for stages in hosts))
            if key not in self._known:
                with here.narrowed(MESSAGES, fold):
                    runner = GraphRunner(passes_graph(alone, fold), here.host, watched)
                    begun_s = self._engine.clock
                    runner.simulate_alone(self._engine)
                self._known[key] = _parts(begun_s, runner), len(runner)
                runner.free()
            results.append(self._known[key])
        kinds = _drawn_out(team.pattern, counts, [simulated for simulated, _ in results])
        flop = team.pattern.stage_flop[watched.stage]
        return _Passes(kinds, (team, watched), flop, sum(number for _, number in results))

    def _together(
        self,
        teams: Teams,
        which: Sequence[Team],
        hosts: Hosts,
        positions: tuple[int, ...],
        micro_batches: int | None = None,
        slow: Mapping[Rank, float] = MappingProxyType({}),
    ) -> list[_Passes]:
        """Return the passes of teams that run at once, of all or `micro_batches` micro-batches."""
        begun_s = self._engine.clock
        simulating = []
        for team in which:
            pattern = team.pattern
            if micro_batches is not None:
                pattern = replace(pattern, micro_batches=micro_batches)
            here = PlacedJob(teams.hosts(team, hosts), pattern)
            fold = Fold(tuple(range(pattern.context)), positions[: pattern.tensor])
            watched = here.busiest(fold)
            graph = passes_graph(pattern, fold)
            runner = GraphRunner(graph, here.host, watched)
            if slow:
                own = {activity.rank for activity in graph.activities}
                factors = {rank: slow.get(teams.rank_of((team, rank)), 1.0) for rank in own}
                runner.slow_down(factors)
            simulating.append((team, watched, runner))
        for _, _, runner in simulating:
            runner.start()
        self._engine.run()
        passes = [
            _Passes(
                _parts(begun_s, runner),
                (team, watched),
                team.pattern.stage_flop[watched.stage],
                len(runner),
            )
            for team, watched, runner in simulating
        ]
        for _, _, runner in simulating:
            runner.free()
        return passes

    def _together_drawn_out(
        self,
        teams: Teams,
        which: Sequence[Team],
        hosts: Hosts,
        positions: tuple[int, ...],
    ) -> list[_Passes]:
        """Return the passes of alike teams that run at once, from some micro-batches."""
        pattern = which[0].pattern
        counts = _simulated_micro_batches(pattern)
        simulates = [self._together(teams, which, hosts, positions, count) for count in counts]
        return [
            replace(
                passes[-1],
                parts=_drawn_out(pattern, counts, [one.parts for one in passes]),
                activities=sum(one.activities for one in passes),
            )
            for passes in zip(*simulates, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Passes:
    """The passes of a team: their seconds by kind, their team, and the cost of simulating them."""

    parts: dict[str, float]
    watched: tuple[Team, Rank]
    flop: float
    activities: int

    @property
    def passes_s(self) -> float:
        return sum(part for kind, part in self.parts.items() if kind != "gradient")


def _teams(hosts: Hosts, pattern: StepPattern, shares: StepShares | None) -> Teams:
    """Return the teams of a step of some groups; of all, doing all alike, by default."""
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


def _most_positions(teams: Teams) -> int:
    """Return the largest number of tensor-parallel positions; any others send nothing."""
    return max(teams.degrees, default=teams.pattern.tensor)


@lru_cache(maxsize=16)
def _placed(
    names: tuple[tuple[tuple[str, ...], ...], ...],
    context: int,
    rings: tuple[tuple[RingEdge, ...], ...],
    _left: frozenset[tuple[str, float]],
) -> PlacedJob:
    """Return ranks on hosts whose links have reduced bandwidth; their computation is ignored."""
    pipeline, tensor = len(names[0]), len(names[0][0])
    pattern = StepPattern(
        len(names), pipeline, tensor, context, 1, (), 0.0, 0.0, (), (), (), rings=rings
    )
    return PlacedJob(names, pattern)


def _parts(begun_s: float, runner: GraphRunner) -> dict[str, float]:
    """Return the seconds of the passes by kind; the rest is the bubble."""
    kinds = ("compute", "tensor", "context", "pipeline")
    parts = {kind: _total(runner.spans, kind) for kind in kinds}
    duration_s = runner.passed_s - begun_s
    bubble_s = duration_s - sum(parts.values())
    # The difference of sums that should be equal is rounding.
    parts["bubble"] = bubble_s if abs(bubble_s) > 1e-12 * duration_s else 0.0
    # Gradients that should hide behind the passes and last longer.
    parts["gradient"] = max(0.0, runner.ended_s - runner.passed_s)
    return parts


def _total(spans: Iterable[Span], kind: str) -> float:
    return sum(span.ended_s - span.begun_s for span in spans if span.kind == kind)


def _drawn_out(
    pattern: StepPattern, counts: Sequence[int], simulated: Sequence[dict[str, float]]
) -> dict[str, float]:
    """Return the seconds of a step's passes, given those of `counts` of its micro-batches."""
    rounds = (pattern.micro_batches - counts[-1]) / pattern.pipeline
    if not rounds:
        return simulated[-1]
    # Every further round of micro-batches adds what the last one has added.
    before, after = simulated
    return {kind: part + rounds * (part - before[kind]) for kind, part in after.items()}


def _simulated_micro_batches(pattern: StepPattern) -> tuple[int, ...]:
    """Return of which steps, by micro-batches, the time of the step follows."""
    stages, flop = pattern.pipeline, pattern.stage_flop
    rounds = _DRAWN_OUT_ROUNDS + (flop[-1] < max(flop))
    last = rounds * stages + pattern.micro_batches % stages
    if pattern.orders or pattern.micro_batches <= last:
        return (pattern.micro_batches,)
    return (last - stages, last)
