"""Orders to the ranks of groups, and the reports and failures that come back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

import simgrid
from faultline.simulator.job.compute_times import NEVER_SIGMAS
from faultline.simulator.job.job import Job
from faultline.simulator.simgrid.failure_injector import FailureInjector
from faultline.simulator.simgrid.rank import (
    Channel,
    ComputeOrder,
    Failed,
    News,
    Order,
    Pace,
    RankActor,
    Report,
)
from faultline.simulator.simgrid.traffic import Traffic


class RankOrders:
    """Sends orders to ranks, and waits for their execution.

    Attributes
    ----------
    news : Channel of News
        What ranks and the failure injector report.
    paces : list of Pace
        How fast each group computes.
    saving : dict of int to Order
        Checkpoints that training does not wait for: their orders, by group.
    saving_until_s : float
        When the last of them ends at the latest, in simulated seconds.
    """

    def __init__(self, job: Job, traffic: Traffic, jitter: float) -> None:
        self.news: Channel[News] = Channel()
        self._traffic, self._jitter = traffic, jitter
        self.paces = [Pace(group, jitter, job.seed) for group in range(job.work.groups)]
        self.saving: dict[int, Order] = {}
        self.saving_until_s = 0.0

    def new_rank(self, group: int) -> RankActor:
        """Return the rank of a group whose hosts are turned on."""
        return RankActor(group, self.paces[group], self.news)

    def put(self, injector: FailureInjector, group: int, order: Order, until_s: float) -> None:
        """Let a group write a checkpoint until a time at most, while the others go on."""
        injector.ranks[group].orders.put(order)
        self.saving[group], self.saving_until_s = order, until_s

    def carry_out(
        self,
        injector: FailureInjector,
        orders: Mapping[int, Order],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> set[int]:
        """Send orders; wait until each group has executed its order or is down.

        Returns the groups that executed theirs.
        """
        waiting = set()
        for group, order in orders.items():
            if group not in injector.down:
                injector.ranks[group].orders.put(order)
                waiting.add(group)
        meanwhile()
        done: set[int] = set()
        while waiting:
            news = self.news.get()
            if isinstance(news, Failed):
                # A group that has been turned on again since then counts as up.
                self.saving.pop(news.group, None)
                if news.group in injector.down:
                    waiting.discard(news.group)
            elif isinstance(news, Report) and news.order is self.saving.get(news.group):
                del self.saving[news.group]
            elif isinstance(news, Report) and news.order is orders.get(news.group):
                waiting.discard(news.group)
                # A group that fails at the time of its report has not arrived.
                down = news.group in injector.down
                if news.done and not (down and injector.fails_by(news.group, news.time_s)):
                    done.add(news.group)
        return done

    def at_risk(self, injector: FailureInjector, orders: Mapping[int, ComputeOrder]) -> set[int]:
        """Return the groups whose ranks may be down or busy when an order comes."""

        def ends_s(order: ComputeOrder) -> float:
            variates = NEVER_SIGMAS * self._jitter * sqrt(order.stacks)
            longest_s = order.stack_s * (order.stacks + variates)
            return float(simgrid.Engine.clock + longest_s * (1 + 1e-9))

        return {
            group
            for group, order in orders.items()
            if group in injector.down
            or group in self.saving
            or injector.next_failure_s[group] <= ends_s(order)
        }

    def computation(self, group: int, order: ComputeOrder) -> simgrid.Exec:
        """Start a group's computation on its rank's host, without an order to the rank."""
        host = simgrid.Host.by_name(self._traffic.hosts[group][0])
        stacks = sum(self.paces[group].factor() for _ in range(order.stacks))
        computation = simgrid.this_actor.exec_init(order.stack_s * stacks * host.speed)
        computation.host = host
        computation.start()
        return computation
