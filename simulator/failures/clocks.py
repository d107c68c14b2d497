"""Each group's failure clock: the time of its next failure.

A clock's life: it is *set* to the next failure, which can be looked at (*peek*); the job or
the restart *takes* the failure, and the clock is set again. Failures of a group that is down pass
without effect (*take while down*), until the group is up again (*resume*).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from math import inf
from typing import Literal, cast

import numpy as np
from faultline.simulator.failures.distributions import Distribution
from faultline.simulator.failures.failure import UNSTATED_CAUSE, Failure
from faultline.simulator.failures.random_streams import Purpose, stream
from faultline.simulator.failures.victims import (
    WHOLE_GROUPS,
    ComponentChoice,
    GroupFailure,
    Victims,
)

ClockRule = Literal["from-detection", "renewal"]

_BLOCK = 8
_LATER_BLOCKS = 32
_FEW_GROUPS = 4096


class FailureClocks(ABC):
    """Failure clocks of all groups of a run, all set at time 0.

    A failure is one object, however many groups it stops and however often it is looked at.

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
    def peek(self, group: int) -> Failure:
        """Return the next failure of a group; it is at `next_failure_s`, perhaps at infinity."""

    def peek_each(self, groups: Sequence[int]) -> dict[int, Failure]:
        """Return the next failure of each group."""
        return dict(zip(groups, map(self.peek, groups), strict=True))

    @abstractmethod
    def peek_until(self, group: int, until_s: float) -> Sequence[Failure]:
        """Return the next failures of a group in the order of time, at least those up to a time."""

    def between(self, groups: Iterable[int], since_s: float, until_s: float) -> list[Failure]:
        """Return the next failures of groups after `since_s`, up to `until_s`; none is taken.

        A failure of several groups is listed for each of them.
        """
        found: list[Failure] = []
        for group in groups:
            if self.next_failure_s[group] <= until_s:
                # In a long wait most failures are earlier.
                latest_first = reversed(self.peek_until(group, until_s))
                later = takewhile(lambda one: one.time_s > since_s, latest_first)
                found += (failure for failure in later if failure.time_s <= until_s)
        return found

    @abstractmethod
    def take(self, group: int, noticed_s: float | None = None) -> Failure:
        """Take the next failure of a group, and set the clock to the one after it.

        It was noticed at `noticed_s`, in seconds, by default when it happened.
        """

    @abstractmethod
    def take_while_down(self, group: int, until_s: float) -> None:
        """Take the failures of a group that is down, up to `until_s`.

        They have no effect, but the clock advances.
        """

    @abstractmethod
    def resume(self, group: int, up_s: float) -> None:
        """Note that a group is up again; if its repair missed the fault, the fault recurs later."""


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
    components : ComponentChoice, optional
        Which component of its group each failure strikes; by default the group as a whole.
    """

    def __init__(
        self,
        distribution: Distribution,
        groups: int,
        seed: int,
        rule: ClockRule,
        components: ComponentChoice = WHOLE_GROUPS,
    ) -> None:
        self._distribution = distribution
        self._victims = Victims(components, seed)
        # By group, the next failure if it was looked at, later ones that were, and how many were
        # taken.
        self._next: dict[int, Failure] = {}
        self._later: dict[int, deque[Failure]] = {}
        self._taken = [0] * groups
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

    def peek(self, group: int) -> Failure:
        failure = self._next.get(group)
        if failure is None:
            at_s, index = self.next_failure_s[group], self._taken[group]
            failure = self._next[group] = self._failure(at_s, group, index)
        return failure

    def peek_each(self, groups: Sequence[int]) -> dict[int, Failure]:
        known = self._next.get
        return {group: known(group) or self.peek(group) for group in groups}

    def peek_until(self, group: int, until_s: float) -> Sequence[Failure]:
        failures = [self.peek(group), *self._later.get(group, ())]
        # From detection, the interval after the first failure begins when that one is noticed.
        while not self._from_detection and failures[-1].time_s <= until_s:
            interval_s = (self._blocks[group] or self._next_block(group)).pop()
            later_s = failures[-1].time_s + interval_s
            failures.append(self._failure(later_s, group, self._taken[group] + len(failures)))
        if len(failures) > 1:
            self._later[group] = deque(failures[1:])
        return failures

    def take(self, group: int, noticed_s: float | None = None) -> Failure:
        failure = self._next.get(group) or self.peek(group)
        if noticed_s is None or not self._from_detection:
            noticed_s = failure.time_s
        self._pass_over(group, noticed_s)
        return failure

    def take_while_down(self, group: int, until_s: float) -> None:
        while self.next_failure_s[group] <= until_s:
            self._pass_over(group, self.next_failure_s[group])
            self.hits_while_down += 1

    def resume(self, group: int, up_s: float) -> None:
        """Do nothing: without known causes no fault recurs."""

    def _pass_over(self, group: int, begun_s: float) -> None:
        """Set the clock to the next failure; the interval until then begins at `begun_s`."""
        self.hits += 1
        self._taken[group] += 1
        self._next.pop(group, None)
        if self._later and (later := self._later.get(group)):
            failure = self._next[group] = later.popleft()
            self.next_failure_s[group] = failure.time_s
        else:
            interval_s = (self._blocks[group] or self._next_block(group)).pop()
            self.next_failure_s[group] = begun_s + interval_s

    def _failure(self, time_s: float, group: int, index: int) -> Failure:
        """Return the failure of a group that has had `index` failures before."""
        return cast(Failure, GroupFailure(time_s, group, index, self._victims))

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

    def peek(self, group: int) -> Failure:
        ahead = self._ahead[group]
        return ahead[0] if ahead else _never(group)

    def peek_until(self, group: int, until_s: float) -> Sequence[Failure]:
        while self._read_until_s <= until_s and self._read_batch():
            pass
        return self._ahead[group]

    def take(self, group: int, noticed_s: float | None = None) -> Failure:
        failure = self._pass_over(group)
        # If several groups fail, the faulty component belongs to the first.
        if failure.recurs_s and group == failure.groups[0]:
            self._recurring[group] = failure
        return failure

    def take_while_down(self, group: int, until_s: float) -> None:
        while self.next_failure_s[group] <= until_s:
            self._pass_over(group)
            self.hits_while_down += 1

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


def _never(group: int) -> Failure:
    """Return the next failure of a group that never fails again."""
    return Failure(inf, "group", group, UNSTATED_CAUSE, "software", None, range(group, group + 1))
