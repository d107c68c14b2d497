"""Steps that nothing disturbs, played by all ranks: computations on GPUs, messages on every link.

SimGrid aborts where a host goes down that a task is on. When hosts go down is known ahead, so a
step is played like this only if no failure can fall into it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from faultline.platforms.outages import bandwidths_without
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.conditions import UNDISTURBED, Slowdown
from faultline.simulator.failures.failure import NETWORK, Failure, JobLayout
from faultline.simulator.pattern.activity_graph import Fold, Rank, passes_graph
from faultline.simulator.pattern.placed_step import PlacedStep
from faultline.simulator.pattern.step_shares import StepShares
from faultline.simulator.pattern.sync_graph import sync_graph
from faultline.simulator.pattern.teams import Team, Teams
from faultline.simulator.simgrid_engine.graph_player import GraphPlayer
from faultline.simulator.simgrid_engine.narrowing import narrowed, slow_links
from faultline.simulator.simgrid_engine.placed_job import domains_of_ranks, hosts_of_ranks
from faultline.strategies.step_shares import Pipeline, idle, reduced

_KEPT = 4
"""Steps of different shares whose graphs are kept; each is a task a GPU, or many."""

Built = TypeVar("Built")


class PlayedSteps:
    """The ranks of a job at their work.

    Parameters
    ----------
    step : PlacedStep
        What they do, and where.
    platform : Path
        The platform XML that is loaded.
    layout : JobLayout, optional
        Which GPUs share which components; needed where some are slow.
    """

    def __init__(self, step: PlacedStep, platform: Path, layout: JobLayout | None = None) -> None:
        self._layout = layout
        self._platform = platform
        self._narrower: dict[str, float] = {}
        self._without: Sequence[str] = ()
        self._step = step
        self._teams = lru_cache(maxsize=4 * _KEPT)(
            partial(Teams, step.pattern, domain_of=domains_of_ranks(step.hosts))
        )
        self._slow = UNDISTURBED
        self._factors: dict[Rank, float] = {}
        self._hosts = hosts_of_ranks(step.hosts)
        self._passes: OrderedDict[StepShares, dict[int, GraphPlayer]] = OrderedDict()
        self._players: WeakValueDictionary[object, GraphPlayer] = WeakValueDictionary()
        self._ranks: WeakKeyDictionary[GraphPlayer, dict[Rank, Rank]] = WeakKeyDictionary()
        self._syncs: OrderedDict[StepShares, GraphPlayer] = OrderedDict()
        # Built here, before there are actors: within one, each task costs switches of threads.
        everybody = StepShares(tuple(range(step.pattern.data // step.pattern.context)))
        self._of_groups(everybody)
        self._sync_of(everybody)
        self.activities = 0

    def meet(self, without: Sequence[str], slow: Slowdown) -> None:
        """Play what follows without parts of the network, and with slow GPUs and adapters."""
        if without != self._without or slow is not self._slow:
            shares = bandwidths_without(read_platform(self._platform), without)
            for link, share in slow_links(self._platform, slow.causes).items():
                shares[link] = min(share, shares.get(link, 1.0))
            self._narrower = shares
        if slow is not self._slow:
            self._factors = {}
            for failure in slow.causes:
                for rank in self._slow_ranks(failure):
                    self._factors[rank] = max(failure.factor, self._factors.get(rank, 1.0))
            for player in self._players.values():
                self._slow_down(player)
        self._without, self._slow = without, slow

    def _slow_down(self, player: GraphPlayer) -> None:
        """Let a team's slow ranks, which it numbers by itself, take longer."""
        ranks = self._ranks[player].items()
        player.slow_down({own: self._factors[rank] for own, rank in ranks if rank in self._factors})

    def _slow_ranks(self, failure: Failure) -> Iterator[Rank]:
        """Yield the ranks whose GPUs are slow; an adapter is none."""
        assert self._layout is not None
        pattern = self._step.pattern
        gpus = self._layout.gpus_of(failure.level, failure.number)
        for gpu in () if failure.level in NETWORK else gpus:
            place, position = divmod(gpu, pattern.tensor)
            yield Rank(*divmod(place, pattern.pipeline), position)

    def shares(
        self,
        members: tuple[int, ...],
        pipelines: tuple[Pipeline, ...],
        slow: Slowdown,
        stack_size: int = 1,
    ) -> StepShares:
        """Return what there is to play, with the micro-batches that groups have been dealt."""
        pattern = self._step.pattern
        dealt = (
            reduced(group, pattern.pipeline, share, pattern.tensor) if share else idle(group)
            for group, share in sorted(slow.deal.items())
        )
        return StepShares(members, (*pipelines, *dealt), stack_size)

    def within(self, shares: StepShares, groups: Collection[int]) -> set[int]:
        """Return the members whose passes touch GPUs of some groups only; those that idle, too.

        Who touches a group that is not among them computes by itself, on a GPU of its own: what
        others compute there would make both slower. So they are left out as well.
        """
        teams = self._teams(shares)
        beyond = {team.group for team in teams.teams if not teams.touched(team).issubset(groups)}
        on = {team.group: {group for group, _ in team.nodes} for team in teams.teams}
        within = set(groups).intersection(shares.members)
        while beyond:
            within -= beyond
            beyond = {group for group in within if not on.get(group, set()).issubset(within)}
        return within

    def passes(self, shares: StepShares, times: Mapping[int, int]) -> None:
        """Let groups compute shard types, by group how often; from within an actor."""
        most = max(times.values(), default=0)
        for round_ in range(most):
            teams = self._of_groups(shares.of_round(round_, most))
            players = [player for group, player in teams.items() if times.get(group, 0) > round_]
            with narrowed(self._narrower):
                for player in players:
                    player.start()
                for player in players:
                    player.wait()
            self.activities += sum(map(len, players))

    def sync(self, shares: StepShares) -> None:
        """Let groups exchange their gradients and step their optimizers; from within an actor."""
        player = self._sync_of(shares)
        with narrowed(self._narrower):
            player.start()
            player.wait()
        self.activities += len(player)

    def _of_groups(self, shares: StepShares) -> dict[int, GraphPlayer]:
        """Return the passes of each group that has any."""

        def build() -> dict[int, GraphPlayer]:
            teams = self._teams(shares)
            return {team.group: self._of_team(teams, team) for team in teams.teams}

        return _kept(self._passes, shares, build)

    def _of_team(self, teams: Teams, team: Team) -> GraphPlayer:
        """Return the passes of a team, once for as long as anybody keeps them."""
        hosts = teams.hosts(team, self._step.hosts)
        key = team.pattern, tuple(tuple(map(tuple, stages)) for stages in hosts)
        player = self._players.get(key)
        if player is None:
            fold = Fold(tuple(range(team.pattern.context)), tuple(range(team.pattern.tensor)))
            graph = passes_graph(team.pattern, fold)
            player = GraphPlayer(graph, hosts_of_ranks(hosts).__getitem__)
            self._players[key] = player
            own = {activity.rank for activity in graph.activities}
            self._ranks[player] = {rank: teams.rank_of((team, rank)) for rank in own}
            self._slow_down(player)
        return player

    def _sync_of(self, shares: StepShares) -> GraphPlayer:
        def build() -> GraphPlayer:
            graph = sync_graph(self._teams(shares), range(self._step.pattern.tensor))
            return GraphPlayer(graph, self._hosts.__getitem__)

        return _kept(self._syncs, shares, build)


def _kept(
    known: OrderedDict[StepShares, Built], shares: StepShares, build: Callable[[], Built]
) -> Built:
    """Return what was built before, or is built now; what was not asked for longest goes."""
    built = known.pop(shares, None) or build()
    known[shares] = built
    if len(known) > _KEPT:
        known.popitem(last=False)
    return built
