"""A job that is under way: it enters with the damage that earlier failures have left.

A run is a piece of a long training, short beside the time of repairs. Were it to start with
everything sound, a scheme that goes on with what is left would look better than it is in the long
run, and so would one that never meets its first restart. So each scheme is first told the failures
of the past, without a clock, and the piece is played from the state this leaves it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush

from experiments.head_to_head.failures import recent, still_broken
from simulator.failures.failure import Failure, JobLayout
from simulator.hit_list import HitList
from simulator.job import Job
from simulator.phases import Restart
from simulator.replay import ReplayEngine
from simulator.run import play
from simulator.training import Progress, Training
from strategies.base import Hit, Strategy, WipeOut

Damage = list[tuple[float, Hit]]
"""What is broken, with the time at which it is repaired, in seconds from the start."""


class NothingLeftError(Exception):
    """So much is broken that a scheme would have to wait for repairs before it could go on."""


class InheritingHitList(HitList):
    """A list that begins with damage which the scheme knows of.

    A scheme that is left with nothing to work with may take it that its hardware comes back, and
    begin anew as good as new. Here nobody gives it any before it is repaired, so that is its end.
    """

    nodes_per_group = 0
    """Nodes of a pipeline that works around whole nodes; 0 for all other schemes."""

    def inherit(self, damage: Damage) -> None:
        """Take over damage whose repairs are all in the future."""
        self._under_repair = list(damage)
        heapify(self._under_repair)
        self._look_ahead(0.0)
        self._check()

    def after_restart(self, now_s: float) -> None:
        super().after_restart(now_s)
        self._check()

    def strike(self, groups: Iterable[int], failures: Iterable[Failure], now_s: float) -> None:
        """As the list does; but first see that the scheme has not forgotten what is broken."""
        self._check()
        super().strike(groups, failures, now_s)

    def _check(self) -> None:
        """Refuse the pace of whole pipelines where half of their nodes are broken."""
        stages = self.nodes_per_group
        if not stages or 2 * len(self._under_repair) < stages * self._strategy.groups:
            return
        hit = {
            (hit.group, stage)
            for _, hit in self._under_repair
            for stage in range(
                hit.first_gpu * stages // hit.gpus_per_group,
                hit.last_gpu * stages // hit.gpus_per_group + 1,
            )
        }
        plan = self._strategy.plan()
        if 2 * len(hit) >= stages * self._strategy.groups and plan.batch_share / plan.pace > 0.9:
            raise NothingLeftError


class EnteredTraining(Training):
    """A training that finds its scheme as the past has left it."""

    def enter(self, past: Sequence[Failure], engine: ReplayEngine, nodes_per_group: int) -> float:
        """Tell the scheme its past, and start what is left; returns when that is done.

        Raises
        ------
        NothingLeftError
            If nothing is.
        """
        layout = self.work.layout
        assert layout is not None
        hits = InheritingHitList(self.strategy, self.work)
        hits.nodes_per_group = nodes_per_group
        hits.inherit(lived_through(self.strategy, past, layout))
        self._hits = hits
        members = set(self.strategy.plan().members)
        absent = tuple(group for group in range(self.work.groups) if group not in members)
        started = engine.execute(Restart(self.work.groups, absent))
        self.progress.now_s = started.now_s
        return started.now_s


def play_entered(
    job: Job, strategy: Strategy, past: Sequence[Failure], nodes_per_group: int = 0
) -> tuple[Progress, float]:
    """Play a job that is under way, until it is done or nothing is left to go on with.

    Parameters
    ----------
    job : Job
        The job.
    strategy : Strategy
        The scheme at its start.
    past : sequence of Failure
        Failures before the start, at negative times.
    nodes_per_group : int
        Nodes of a group, for schemes to which a node with a broken GPU is broken; else 0.

    Returns
    -------
    Progress, float
        What came of it, and the seconds of `Progress.now_s` that were over when it began.
    """
    training, engine = EnteredTraining(job.work, job.rules, strategy), ReplayEngine(job)
    begun_s = 0.0
    # A job that has nothing left keeps the steps it has done, and is not finished.
    with suppress(NothingLeftError):
        begun_s = training.enter(past, engine, nodes_per_group)
        play(training, engine)
    return training.progress, begun_s


def lived_through(strategy: Strategy, past: Sequence[Failure], layout: JobLayout) -> Damage:
    """Bring a scheme into the state that failures of the past leave it in.

    A scheme that restarts with what is left is in the state after a restart. Others go through
    their failures one by one; a restart that finds new hardware ends what was broken before.

    Returns
    -------
    list of (float, Hit)
        What is broken now, as far as the scheme keeps track of it.
    """
    if not strategy.restart_replaces:
        broken = [_damage(one, layout) for one in still_broken(past)]
        _restart(strategy, broken)
        return broken
    damage: Damage = []
    for failure in recent(past):
        _repair(strategy, damage, failure.time_s)
        _strike(strategy, damage, failure, layout)
    _repair(strategy, damage, 0.0)
    return damage


def _strike(strategy: Strategy, damage: Damage, failure: Failure, layout: JobLayout) -> None:
    members = set(strategy.plan().members)
    for group in failure.groups:
        if group not in members:
            continue
        if strategy.tracks_components:
            heappush(damage, _damage(failure, layout))
            strategy.on_hit(damage_hit(failure, layout))
        if isinstance(strategy.on_failures((group,)), WipeOut):
            damage.clear()
            strategy.restart()
            return


def _repair(strategy: Strategy, damage: Damage, until_s: float) -> None:
    while damage and damage[0][0] <= until_s:
        strategy.on_repair(heappop(damage)[1])


def _restart(strategy: Strategy, broken: Iterable[tuple[float, Hit]]) -> None:
    strategy.restart()
    for _, hit in broken:
        strategy.on_hit(hit)


def _damage(failure: Failure, layout: JobLayout) -> tuple[float, Hit]:
    return failure.time_s + (failure.repair_s or 0.0), damage_hit(failure, layout)


def damage_hit(failure: Failure, layout: JobLayout) -> Hit:
    """Return what a failure breaks of the group that it strikes."""
    gpus, group = layout.gpus_of(failure.level, failure.number), failure.groups[0]
    first = group * layout.gpus_per_group
    return Hit(group, gpus[0] - first, gpus[-1] - first, layout.gpus_per_group)
