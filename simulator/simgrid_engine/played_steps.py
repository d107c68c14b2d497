"""Steps that nothing disturbs, played by all ranks: computations on GPUs, messages on every link.

SimGrid aborts where a host goes down that a task is on. When hosts go down is known ahead, so a
step is played like this only if no failure can fall into it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import simgrid
from faultline.platforms.outages import adapters_without
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.conditions import NETWORK, UNDISTURBED, Slowdown
from faultline.simulator.failures.failure import Failure, JobLayout
from faultline.simulator.pattern.activity_graph import Fold, Rank, passes_graph, sync_graph
from faultline.simulator.pattern.placed_step import PlacedStep
from faultline.simulator.simgrid_engine.graph_player import GraphPlayer
from faultline.simulator.simgrid_engine.narrowing import narrowed, slow_links
from faultline.simulator.simgrid_engine.placed_job import hosts_of_ranks

_KEPT = 4
"""Sets of members for which the exchange of gradients is kept; each is a task a GPU."""


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
        self._narrowing = ExitStack()
        self._without: Sequence[str] = ()
        self._slow = UNDISTURBED
        self._pattern = step.pattern
        self._hosts = hosts_of_ranks(step.hosts)
        # Built here, before there are actors: within one, each task costs switches of threads.
        groups = range(self._pattern.data // self._pattern.context)
        self._passes = {group: self._passes_of(group) for group in groups}
        everybody = tuple(groups)
        self._syncs = OrderedDict({everybody: self._sync_of(everybody)})
        self.activities = 0

    def meet(self, without: Sequence[str], slow: Slowdown) -> None:
        """Play what follows without parts of the network, and with slow GPUs and adapters."""
        if without != self._without or slow is not self._slow:
            shares = adapters_without(read_platform(self._platform), without)
            for link, share in slow_links(self._platform, slow.causes).items():
                shares[link] = min(share, shares.get(link, 1.0))
            self._narrowing.close()
            self._narrowing.enter_context(narrowed(shares))
        if slow is not self._slow:
            factors: dict[Rank, float] = {}
            for failure in slow.causes:
                for rank in self._slow_ranks(failure):
                    factors[rank] = max(failure.factor, factors.get(rank, 1.0))
            for player in self._passes.values():
                player.slow_down(factors)
        self._without, self._slow = without, slow

    def _slow_ranks(self, failure: Failure) -> Iterator[Rank]:
        """Yield the ranks whose GPUs are slow; an adapter is none."""
        assert self._layout is not None
        pattern = self._pattern
        gpus = self._layout.gpus_of(failure.level, failure.number)
        for gpu in () if failure.level in NETWORK else gpus:
            place, position = divmod(gpu, pattern.tensor)
            yield Rank(*divmod(place, pattern.pipeline), position)

    def passes(self, groups: Sequence[int], times: int) -> None:
        """Let groups take their micro-batches so many times; from within an actor."""
        for _ in range(times):
            players = [self._passes[group] for group in groups]
            for player in players:
                player.start()
            for player in players:
                player.wait()
            self.activities += sum(map(len, players))

    def sync(self, groups: Sequence[int]) -> None:
        """Let groups exchange their gradients and step their optimizers; from within an actor."""
        members = tuple(groups)
        player = self._syncs.pop(members, None) or self._sync_of(members)
        self._syncs[members] = player
        if len(self._syncs) > _KEPT:
            self._syncs.popitem(last=False)
        player.start()
        player.wait()
        self.activities += len(player)

    def _passes_of(self, group: int) -> GraphPlayer:
        context = self._pattern.context
        replicas = tuple(range(group * context, (group + 1) * context))
        fold = Fold(replicas, tuple(range(self._pattern.tensor)))
        return GraphPlayer(passes_graph(self._pattern, fold), self._hosts.__getitem__)

    def _sync_of(self, groups: tuple[int, ...]) -> GraphPlayer:
        """Return the exchange between the replicas of some groups, numbered anew among them."""
        context = self._pattern.context
        replicas = [group * context + place for group in groups for place in range(context)]
        pattern = self._pattern.of_replicas(len(replicas))

        def host_of(rank: Rank) -> simgrid.Host:
            return self._hosts[Rank(replicas[rank.replica], rank.stage, rank.position)]

        return GraphPlayer(sync_graph(pattern, Fold.whole(pattern)), host_of)
