"""Each group's failure clock: the time of its next failure.

A clock's life: it is *set* to the time of the next failure; at that time the failure is *due*; the
training job or the restart *takes* it, and the clock is set again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, takewhile
from math import inf
from typing import Literal

import numpy as np
from faultline.simulator.failures.distributions import Distribution
from faultline.simulator.failures.failure import UNSTATED_CAUSE, Failure
from faultline.simulator.failures.random_streams import Purpose, stream
from faultline.simulator.failures.victims import Victims

ClockRule = Literal["from-detection", "renewal"]

_BLOCK = 8
_LATER_BLOCKS = 32
_FEW_GROUPS = 4096


class FailureClocks(ABC):
    """Failure clocks of all groups of a run, all set at time 0.

    Attributes
    ----------
    next_failure_s : list of float
        Time of each group's next failure, in seconds of simulated time; infinite without one.
    hits : int
        Groups that failures have stopped so far: a failure of three groups has three hits.
    hits_while_down : int
        How many of these groups were down already.
    events : int
        Failures with at least one hit so far.
    events_by_cause : dict of str to int
        These failures by cause; their sum is `events`. Empty if causes are unknown.
    """

    next_failure_s: list[float]
    hits: int
    hits_while_down: int
    events_by_cause: dict[str, int]

    @property
    @abstractmethod
    def events(self) -> int: ...

    @abstractmethod
    def collect(self, reported: bool = True) -> Sequence[Failure]:
        """Return the failures since the last call of groups that were up.

        A failure of several groups is listed once per group. Failures that are not
        `reported` are dropped.
        """

    @abstractmethod
    def due(self, group: int) -> Failure | None:
        """Return the next failure of a group; None if it never fails again."""

    @abstractmethod
    def due_between(self, group: int, since_s: float, until_s: float) -> Sequence[Failure]:
        """Return the due failures of a group after `since_s`, up to `until_s`; none is taken."""

    def happened(
        self, groups: Sequence[int], now_s: float, since_s: float | None = None
    ) -> list[Failure]:
        """Return the due failure of each missing group, or all of some groups after `since_s`."""
        if since_s is None:
            # SimGrid's clock may be a rounding short of the failure that it has executed.
            first = map(self.due, groups)
            return [failure for failure in first if failure is not None]
        next_s = self.next_failure_s
        struck = [group for group in groups if next_s[group] <= now_s]
        due = (self.due_between(group, since_s, now_s) for group in struck)
        return [*chain.from_iterable(due)]

    @abstractmethod
    def take(self, group: int, noticed_s: float) -> None:
        """Take a due failure, noticed at `noticed_s`, and set the clock to the next one."""

    @abstractmethod
    def resume(self, group: int, up_s: float) -> None:
        """Note that a group is up again; if its repair missed the fault, the fault recurs later."""

    @abstractmethod
    def take_while_down(self, group: int, until_s: float) -> None:
        """Take the failures of a group that is down, up to `until_s`.

        They have no effect, but the clock advances.
        """

    @abstractmethod
    def take_at_occurrence(self, group: int) -> float:
        """Take the next failure at its time; return that time."""


class RenewalClocks(FailureClocks):
    """Clocks of groups that fail independently of each other, each by a renewal process.

    Parameters
    ----------
    distribution : Distribution
        Time between two failures of one group.
    groups : int
        Number of groups.
    seed : int
        Seed of the run. The k-th interval of a group depends on the seed and the group only.
    rule : {"from-detection", "renewal"}
        How `take` sets the clock. "renewal": failures happen at the sums of the intervals, whatever
        the job does, so that all schemes have the same failures. "from-detection": the next
        interval begins when the last failure was noticed, as in SPARe's published simulator.
    victims : Victims, optional
        Which component of its group each failure strikes; by default the group as a whole.
    """

    def __init__(
        self,
        distribution: Distribution,
        groups: int,
        seed: int,
        rule: ClockRule,
        victims: Victims | None = None,
    ) -> None:
        self._distribution = distribution
        self._victims = victims
        self._taken = [0] * groups
        self._struck: list[tuple[float, int, int]] = []
        # By group: its failures taken so far, until when it was looked ahead, and then how many
        # failures ahead, and the time of the first failure after that.
        self._looked_ahead: dict[int, tuple[int, float, int, float]] = {}
        self._from_detection = rule == "from-detection"
        self._seed = seed
        # Most of 100,000 groups never fail again, so streams are kept only for groups that do.
        self._keeps_all = groups <= _FEW_GROUPS
        self._streams: dict[int, np.random.Generator] = {}
        self._blocks: list[list[float] | None] = [None] * groups
        self.next_failure_s = [self._next_block(group).pop() for group in range(groups)]
        self.hits = 0
        self.hits_while_down = 0
        self.events_by_cause = {}

    @property
    def events(self) -> int:
        """Each failure has one hit."""
        return self.hits

    def collect(self, reported: bool = True) -> Sequence[Failure]:
        struck, self._struck = self._struck, []
        return [self._failure(*failure) for failure in struck] if reported else ()

    def due(self, group: int) -> Failure:
        return self._failure(self.next_failure_s[group], group, self._taken[group])

    def due_between(self, group: int, since_s: float, until_s: float) -> Sequence[Failure]:
        taken, ahead, time_s, due = self._taken[group], 0, self.next_failure_s[group], []
        looked = self._looked_ahead.get(group)
        if looked is not None and looked[0] == taken and looked[1] <= since_s:
            _, _, ahead, time_s = looked
        while time_s <= until_s:
            if time_s > since_s:
                due.append(self._failure(time_s, group, taken + ahead))
            if self._from_detection:
                # The next interval begins when this failure is noticed.
                return due
            ahead += 1
            block = self._blocks[group] or self._next_block(group)
            if ahead > len(block):
                # Intervals are used from the end.
                block = self._blocks[group] = self._next_block(group) + block
            time_s += block[-ahead]
        self._looked_ahead[group] = taken, until_s, ahead, time_s
        return due

    def take(self, group: int, noticed_s: float) -> None:
        happened_s, index = self.next_failure_s[group], self._taken[group]
        self._struck.append((happened_s, group, index))
        self._taken[group] = index + 1
        self.hits += 1
        begun_s = noticed_s if self._from_detection else happened_s
        interval_s = (self._blocks[group] or self._next_block(group)).pop()
        self.next_failure_s[group] = begun_s + interval_s

    def take_while_down(self, group: int, until_s: float) -> None:
        while self.next_failure_s[group] <= until_s:
            self.next_failure_s[group] += (self._blocks[group] or self._next_block(group)).pop()
            self.hits += 1
            self.hits_while_down += 1
            self._taken[group] += 1

    def take_at_occurrence(self, group: int) -> float:
        happened_s = self.next_failure_s[group]
        self.take(group, happened_s)
        return happened_s

    def resume(self, group: int, up_s: float) -> None:
        """Do nothing: without known causes no fault recurs."""

    def _failure(self, time_s: float, group: int, index: int) -> Failure:
        groups = range(group, group + 1)
        whole = Failure(time_s, "group", group, UNSTATED_CAUSE, "hardware", None, groups)
        if self._victims is None:
            return whole
        level, number, kind = self._victims.of(group, index)
        return whole._replace(level=level, number=number, kind=kind)

    def _next_block(self, group: int) -> list[float]:
        """Draw intervals of a group, several at a time for speed; they are used from the end."""
        is_first, drawn = self._blocks[group] is None, self._streams.get(group)
        if drawn is None:
            drawn = stream(self._seed, Purpose.GROUP_FAILURES, group)
            if not is_first:
                # A new stream has to skip the first block, which was drawn before.
                self._distribution.sample(drawn, _BLOCK)
            if not is_first or self._keeps_all:
                self._streams[group] = drawn
        size = _BLOCK if is_first else _LATER_BLOCKS
        block = self._blocks[group] = self._distribution.sample(drawn, size)[::-1]
        return block


class EventClocks(FailureClocks):
    """Clocks that follow one sequence of failures, each of which may stop several groups.

    Failures happen at the sequence's times, whatever the job does: the rule is "renewal". The
    `batches` yield the failures in the order of time, several per batch. They are read only until
    each group's next failure is known. The groups `spared` never fail.
    """

    def __init__(
        self,
        batches: Iterator[Sequence[Failure]],
        groups: int,
        spared: Iterable[int],
        causes: Iterable[str],
    ) -> None:
        self._batches = batches
        self._spared = frozenset(spared)
        self._ahead: list[deque[Failure]] = [deque() for _ in range(groups)]
        self._struck: list[Failure] = []
        self._recurring: dict[int, Failure] = {}
        self._read_until_s = -inf
        # Failures that some of their groups have taken: how many groups have not, by identity.
        self._partly_taken: dict[int, int] = {}
        self.hits = 0
        self.hits_while_down = 0
        self.events_by_cause = dict.fromkeys(causes, 0)
        self.next_failure_s = [self._next_s(group) for group in range(groups)]

    @property
    def events(self) -> int:
        return sum(self.events_by_cause.values())

    def collect(self, reported: bool = True) -> Sequence[Failure]:
        struck, self._struck = self._struck, []
        return struck if reported else ()

    def due(self, group: int) -> Failure | None:
        ahead = self._ahead[group]
        return ahead[0] if ahead else None

    def due_between(self, group: int, since_s: float, until_s: float) -> Sequence[Failure]:
        while self._read_until_s <= until_s and self._read_batch():
            pass
        # In a long wait most failures are earlier.
        later = takewhile(lambda one: one.time_s > since_s, reversed(self._ahead[group]))
        return [failure for failure in later if failure.time_s <= until_s][::-1]

    def take(self, group: int, noticed_s: float) -> None:
        self.take_at_occurrence(group)

    def take_while_down(self, group: int, until_s: float) -> None:
        while self.next_failure_s[group] <= until_s:
            self._pass_over(group)
            self.hits_while_down += 1

    def take_at_occurrence(self, group: int) -> float:
        failure = self._pass_over(group)
        self._struck.append(failure)
        # If several groups fail, the faulty component belongs to the first.
        if failure.recurs_s and group == failure.groups[0]:
            self._recurring[group] = failure
        return failure.time_s

    def resume(self, group: int, up_s: float) -> None:
        failure = self._recurring.pop(group, None) if self._recurring else None
        if failure is not None:
            delay_s, *further_s = failure.recurs_s
            recurrence = failure._replace(
                time_s=up_s + delay_s, groups=range(group, group + 1), recurs_s=tuple(further_s)
            )
            ahead = self._ahead[group]
            place = sum(1 for earlier in ahead if earlier.time_s <= recurrence.time_s)
            ahead.insert(place, recurrence)
            self.next_failure_s[group] = ahead[0].time_s

    def _pass_over(self, group: int) -> Failure:
        failure = self._ahead[group].popleft()
        self.hits += 1
        to_come = self._partly_taken.pop(id(failure), 0)
        if not to_come:
            self.events_by_cause[failure.cause] += 1
            to_come = sum(group not in self._spared for group in failure.groups)
        if to_come > 1:
            self._partly_taken[id(failure)] = to_come - 1
        self.next_failure_s[group] = self._next_s(group)
        return failure

    def _next_s(self, group: int) -> float:
        ahead = self._ahead[group]
        if group not in self._spared:
            while not ahead and self._read_batch():
                pass
        return ahead[0].time_s if ahead else inf

    def _read_batch(self) -> bool:
        """Distribute the next batch to the groups; return False if there is none."""
        batch = next(self._batches, None)
        for failure in batch or ():
            self._read_until_s = failure.time_s
            for group in failure.groups:
                self._ahead[group].append(failure)
        return batch is not None
