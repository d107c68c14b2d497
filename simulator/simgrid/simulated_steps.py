"""Undisturbed steps simulated with all ranks: computations on GPUs, messages on every link.

SimGrid aborts if a host with a task fails. The times of failures are known ahead, so a step is
simulated with tasks only if no failure can fall into it. The failure injector checks that with
`SimulatedSteps.interrupted_by`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache, lru_cache, partial
from math import inf
from pathlib import Path
from types import MappingProxyType

import simgrid
from faultline.platforms.outages import bandwidths_left
from faultline.simulator.failures.failure import NETWORK, Failure, JobLayout
from faultline.simulator.job.conditions import UNDISTURBED, Slowdown
from faultline.simulator.pattern.activity_graph import ActivityGraph, Fold, Rank, passes_graph
from faultline.simulator.pattern.placed_step import MOST_RANKS_APART, PlacedStep
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.pattern.sync_graph import sync_graph
from faultline.simulator.pattern.teams import Team, Teams
from faultline.simulator.simgrid.breakable_graph import BreakableGraph
from faultline.simulator.simgrid.errors import SimulationError
from faultline.simulator.simgrid.graph_runner import GraphRunner
from faultline.simulator.simgrid.links import narrowed
from faultline.simulator.simgrid.placed_job import domains_of_ranks, hosts_of_ranks
from faultline.strategies.interface.step_shares import Pipeline

_KEPT = 4
"""Number of steps with different shares whose teams and runners are looked up only once."""


class SimulatedSteps:
    """Simulates the steps of a job's ranks, on the platform that is loaded.

    The `layout` has the GPUs of each component; it is needed if some components are slow.

    Attributes
    ----------
    passes_are_known : bool
        Whether undisturbed passes of this large job need no simulation here: the job's timer has
        simulated one group of each kind.
    """

    def __init__(self, step: PlacedStep, platform: Path, layout: JobLayout | None = None) -> None:
        self._layout = layout
        self._platform = platform
        self._link_shares: dict[str, float] = {}
        self._parts_down: tuple[str, ...] = ()
        self._step = step
        self._teams = lru_cache(maxsize=4 * _KEPT)(
            partial(Teams, step.pattern, domain_of=domains_of_ranks(step.hosts))
        )
        self._slow = UNDISTURBED
        self._factors: dict[Rank, float] = {}
        self._common_factor = 1.0
        self._hosts = hosts_of_ranks(step.hosts)
        # SimGrid refers to the callbacks of tasks, so each runner is kept until the process ends.
        self._sync_runner = cache(self._new_sync_runner)
        self._runners: dict[object, GraphRunner] = {}
        # The runners of passes by group, for the latest shares.
        self._runners_by_group = lru_cache(maxsize=_KEPT)(_no_runners)
        self._ranks: dict[GraphRunner, dict[Rank, Rank]] = {}
        self._started: list[GraphRunner] = []
        self._breakable: list[BreakableGraph] = []
        self.passes_are_known = len(step.names) > MOST_RANKS_APART and not step.pattern.hides
        # Built before any actor starts: within an actor, each task costs thread switches.
        all_groups = StepShares(tuple(range(step.groups)))
        if not self.passes_are_known:
            self._runners_of_groups(all_groups, all_groups.members)
        self._sync_runner(all_groups)
        self._groups_with_tasks: set[int] = set()
        self._interrupted = ""

    def set_conditions(self, parts_down: tuple[str, ...], slow: Slowdown) -> None:
        """Simulate from now on without parts of the network, and with slow GPUs and adapters."""
        if parts_down != self._parts_down or slow is not self._slow:
            left = bandwidths_left(self._platform, slow.step.links, parts_down)
            self._link_shares = dict(left)
        if slow is not self._slow:
            self._factors = {}
            for failure in slow.causes:
                for rank in self._slow_ranks(failure):
                    self._factors[rank] = max(failure.factor, self._factors.get(rank, 1.0))
            self._slow_down(*self._ranks)
        self._parts_down, self._slow = parts_down, slow

    def _slow_down(self, *runners: GraphRunner) -> None:
        for runner in runners:
            factors = self._factors_of(self._ranks[runner])
            runner.slow_down({rank: factor for rank, factor in factors.items() if factor != 1.0})

    def _factors_of(self, ranks: Mapping[Rank, Rank]) -> dict[Rank, float]:
        """Return how many times as long computations of a team's ranks take.

        `ranks` has the job's rank for each of the team's own ranks.
        """
        return {
            own: self._common_factor * self._factors.get(rank, 1.0) for own, rank in ranks.items()
        }

    def _slow_ranks(self, failure: Failure) -> Iterator[Rank]:
        """Return the ranks whose GPUs are slow: none if the network is."""
        assert self._layout is not None
        gpus = self._layout.gpus_of(failure.level, failure.number)
        return map(self._step.rank_on, () if failure.level in NETWORK else gpus)

    def shares(
        self,
        members: tuple[int, ...],
        pipelines: tuple[Pipeline, ...],
        slow: Slowdown,
        stack_size: int = 1,
        *,
        exposed: bool,
    ) -> StepShares:
        """Return the shares to simulate, with the micro-batches dealt to the groups.

        If they are `exposed`, no messages hide behind the passes.
        """
        pattern, shares = self._step.pattern, StepShares(members, pipelines, stack_size)
        shares = shares.dealt(slow.step.deal, pattern.pipeline, pattern.tensor)
        return shares.exposed() if exposed else shares

    def may_outlast_passes(self, shares: StepShares) -> bool:
        """Return whether messages of a group may last longer than its passes."""
        return any(team.hides or team.pattern.resharded for team in self._teams(shares).teams)

    def interrupted_by(self, group: int) -> bool:
        """Return whether tasks are on a group's hosts now; then their step raises an error."""
        if group not in self._groups_with_tasks:
            return False
        self._interrupted = (
            f"group {group} fails at {simgrid.Engine.clock:g} s while tasks of a step are on its "
            "hosts: the step takes longer here than its phase says"
        )
        return True

    def split_by_hosts(
        self, shares: StepShares, groups: Collection[int]
    ) -> tuple[set[int], set[int]]:
        """Return groups whose passes use only GPUs of `groups`, and those with stages elsewhere.

        The former include idle members. Neither has a group that sends to GPUs of other groups: its
        own GPUs simulate it separately, because sharing a GPU would slow both computations.
        """
        teams = self._teams(shares).teams
        hosts_of = {team.group: {group for group, _ in team.nodes} for team in teams}
        elsewhere = {group for group, hosts in hosts_of.items() if not hosts.issubset(groups)}
        sending = {
            team.group
            for team in teams
            if team.group not in elsewhere
            and not self._teams(shares).touched(team).issubset(groups)
        }
        within = hosts_of.keys() - elsewhere
        excluded = sending
        while excluded:
            within -= excluded
            sending |= excluded
            excluded = {group for group in within if not hosts_of[group].isdisjoint(sending)}
        return within | set(groups).intersection(shares.members) - hosts_of.keys(), elsewhere

    def passes(
        self,
        shares: StepShares,
        times: Mapping[int, int],
        factor: float = 1.0,
        at_risk: Collection[int] = (),
        off_s: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Simulate groups that compute shard types, each `times` times; from within an actor.

        Each computation takes `factor` times as long. If all members compute and none is at risk,
        gradients that should hide behind the passes may still be in flight: the next phase waits
        for them (`settle`). Otherwise this call waits, because a restart may turn their hosts off.
        Groups `at_risk` may lose hosts meanwhile, or depend on such groups: they stop once they
        cannot go on. `off_s` is when hosts go off, by their names, in simulated seconds.
        """
        if factor != self._common_factor:
            self._common_factor = factor
            self._slow_down(*self._ranks)
        rounds = max(times.values(), default=0)
        for number in range(rounds):
            round_shares = shares.of_round(number, rounds)
            teams = self._teams(round_shares)
            running = {group for group, count in times.items() if count > number}
            sound = running.difference(at_risk)
            runners = self._runners_of_groups(round_shares, sound)
            breakable = self._breakable_graphs(teams, running.intersection(at_risk), off_s)
            self.settle()
            for team in teams.teams:
                if team.group in sound:
                    self._groups_with_tasks |= teams.touched(team)
            with narrowed(self._link_shares):
                for runner in runners:
                    runner.start()
                for graph in breakable:
                    graph.start()
                self._started = runners
                for runner in runners:
                    runner.wait_for_passes()
                hides = any(runner.hides for runner in runners)
                if not hides or not sound >= set(shares.members):
                    self.settle()
                for graph in breakable:
                    graph.wait()
            self._breakable = breakable

    def _breakable_graphs(
        self, teams: Teams, groups: Collection[int], off_s: Mapping[str, float]
    ) -> list[BreakableGraph]:
        """Return the passes of groups whose hosts may fail."""
        graphs = []
        for team in teams.teams:
            if team.group in groups:
                graph, hosts = _passes_of(team), teams.hosts(team, self._step.hosts)
                factors = self._factors_of(_ranks_of(teams, team, graph))
                host_of = hosts_of_ranks(hosts).__getitem__
                graphs.append(BreakableGraph(graph, host_of, factors, off_s))
        return graphs

    def broken_sync(
        self,
        shares: StepShares,
        off_s: Mapping[str, float],
        shows_s: float,
        fails_s: float | None = None,
    ) -> None:
        """Simulate the work after the passes, on hosts that fail; from within an actor.

        Rings with a missing member send nothing. Rings that lose a member stop. All rings stop once
        the failure is noticed, at `shows_s`. If `fails_s` is given, the first member fails then,
        and the phase ends earlier if all work is done before. All times are simulated seconds;
        `off_s` is when hosts go off, by their names.
        """
        graph = sync_graph(self._teams(shares), range(self._step.pattern.tensor))
        sync = BreakableGraph(graph, self._hosts.__getitem__, {}, off_s)
        with narrowed(self._link_shares):
            self.settle()
            whole = fails_s is not None and all(
                graph.ends_before(fails_s) for graph in self._breakable
            )
            sync.start()
            if fails_s is not None:
                whole = whole and sync.ends_before(fails_s)
                shows_s = max(shows_s, fails_s)
            if not whole:
                simgrid.this_actor.sleep_until(shows_s)
            for breakable in (*self._breakable, sync):
                breakable.stop()
            sync.wait()
        self._breakable = []

    def sync(self, shares: StepShares) -> None:
        """Simulate the exchange of gradients and the optimizers' step; from within an actor."""
        runner = self._sync_runner(shares)
        with narrowed(self._link_shares):
            self.settle()
            for breakable in self._breakable:
                breakable.ends_before(inf)
            self._breakable = []
            for team in self._teams(shares).teams:
                self._groups_with_tasks.update(group for group, _ in team.nodes)
            self._started = [runner]
            runner.start()
            self.settle()

    def settle(self) -> None:
        """Wait for everything in flight; from within an actor."""
        for runner in self._started:
            runner.wait()
        self._started = []
        self._groups_with_tasks.clear()
        if self._interrupted:
            raise SimulationError(self._interrupted)

    def _runners_of_groups(self, shares: StepShares, groups: Collection[int]) -> list[GraphRunner]:
        """Return the passes of groups that have any."""
        teams, runners = self._teams(shares), self._runners_by_group(shares)
        simulated = [team for team in teams.teams if team.group in groups]
        for team in simulated:
            if team.group not in runners:
                runners[team.group] = self._runner_of(teams, team)
        return [runners[team.group] for team in simulated]

    def _runner_of(self, teams: Teams, team: Team) -> GraphRunner:
        """Return the passes of a team, built once."""
        hosts = teams.hosts(team, self._step.hosts)
        # Two groups may have all their stages on the same nodes, which compute both at once.
        key = team.group, team.pattern, tuple(tuple(map(tuple, stages)) for stages in hosts)
        runner = self._runners.get(key)
        if runner is None:
            graph = _passes_of(team)
            runner = GraphRunner(graph, hosts_of_ranks(hosts).__getitem__)
            self._runners[key] = runner
            self._ranks[runner] = _ranks_of(teams, team, graph)
            self._slow_down(runner)
        return runner

    def _new_sync_runner(self, shares: StepShares) -> GraphRunner:
        graph = sync_graph(self._teams(shares), range(self._step.pattern.tensor))
        return GraphRunner(graph, self._hosts.__getitem__)


def _passes_of(team: Team) -> ActivityGraph:
    fold = Fold(tuple(range(team.pattern.context)), tuple(range(team.pattern.tensor)))
    return passes_graph(team.pattern, fold)


def _ranks_of(teams: Teams, team: Team, graph: ActivityGraph) -> dict[Rank, Rank]:
    """Return the job's ranks by the team's own ranks."""
    own = {activity.rank for activity in graph.activities}
    return {rank: teams.rank_of((team, rank)) for rank in own}


def _no_runners(_shares: StepShares) -> dict[int, GraphRunner]:
    return {}
