"""Replicas that agree on a quorum before each step: torchft's rules, killed as in its stress test.

All that trained the last step ask for a quorum when the next one begins. It is given

- at once if all members of the last quorum have asked;
- else once each group whose heartbeat is heard has asked, or the join timeout has passed since the
  first one asked, if those who have asked are more than half of those heard.

A group that died is heard until its silence is noticed; one that asked and died meanwhile is given
a place in the quorum. A new member copies the weights while the others train and does not count in
that step. If a member dies, the averaging fails and the step is void for all; new members keep what
they have copied by then.

References
----------
torchft 2026.10.26 (PyPI, torchft-nightly): ``manager.py``, and the messages of its lighthouse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, inf

import numpy as np


@dataclass(frozen=True, slots=True)
class QuorumRules:
    """What the library and the script that relaunches do; all in seconds but for `groups`."""

    groups: int = 30  # Replica groups.
    step_s: float = 9.0  # An undisturbed step.
    # The part of it in which gradients are averaged; the quorum is asked for meanwhile the rest.
    averaging_s: float = 4.5
    start_s: float = 8.0  # From the launch of a group to where it asks to join.
    beats_s: float = 4.0  # The last part of that, in which its heartbeat is heard already.
    # How long a quorum waits for groups that are heard and have not asked.
    join_timeout_s: float = 10.0
    error_s: float = 5.0  # From where averaging lacks somebody to where it fails.
    poll_s: float = 5.0  # Between two looks of the script for groups to relaunch.
    silence_s: float = 5.0  # How long a group that has died counts as heard.
    # Between two looks for a quorum, and to make a process group.
    tick_s: float = 0.1
    regroup_s: float = 1.0
    copy_s: float = 0.0  # What a new member needs to copy the weights.


@dataclass(frozen=True, slots=True)
class StressRun:
    """What came of a run."""

    # Steps begun, those that counted, and groups killed meanwhile.
    steps: int
    committed: int
    kills: int
    elapsed_s: float  # How long it took, in seconds.
    taking_part: int  # Groups that took part with gradients, summed over the steps that counted.
    groups: int  # All groups.

    @property
    def commits(self) -> float:
        """Share of the steps that counted."""
        return self.committed / self.steps

    @property
    def mean_step_s(self) -> float:
        """Mean time of a step, in seconds."""
        return self.elapsed_s / self.steps

    @property
    def mean_groups(self) -> float:
        """Mean number of groups in a step that counted."""
        return self.taking_part / max(1, self.committed)

    @property
    def efficiency(self) -> float:
        """Share of steps that counted times that of the groups in them, as the blog has it."""
        return self.commits * self.mean_groups / self.groups


@dataclass(eq=False, slots=True)
class _Group:
    """A life of a replica group, from its launch until it is killed."""

    launched_s: float = 0.0
    heard_from_s: float = 0.0  # Since when its heartbeat is heard.
    asks_from_s: float = 0.0  # Since when it asks for a quorum; infinite while it trains.
    has_weights: bool = True
    lost_s: float = inf  # When it was killed.


class StressTest:
    """A job whose groups are killed: kills are ascending times, chance decides who."""

    def __init__(
        self, rules: QuorumRules, kills_s: Iterable[float], rng: np.random.Generator
    ) -> None:
        self.rules, self.rng, self.kills = rules, rng, iter(kills_s)
        self.groups = [_Group() for _ in range(rules.groups)]
        self.lost: list[_Group] = []
        self.next_kill_s = next(self.kills, inf)
        self.killed = 0

    def play(self, most_steps: int = 10**9) -> StressRun:
        """Play until there is nothing left to kill, or so many steps."""
        now_s, steps, committed, taking_part = 0.0, 0, 0, 0
        members: list[_Group] = []
        is_void = False
        while steps < most_steps and self.next_kill_s < inf:
            steps += 1
            given_s, present = self._quorum(now_s, members)
            trained = sum(one.has_weights for one in present)
            for one in present:
                one.asks_from_s = inf
            # A step that was void is followed by a process group made anew.
            regroups = is_void or set(present) != set(members)
            now_s, is_void, copied = self._step(now_s, given_s, present, regroups)
            members = present
            for one in present:
                one.has_weights |= copied
                if one.lost_s == inf:
                    one.asks_from_s = now_s
            if not is_void:
                committed += 1
                taking_part += trained
        return StressRun(steps, committed, self.killed, now_s, taking_part, self.rules.groups)

    def _quorum(self, asked_s: float, members: list[_Group]) -> tuple[float, list[_Group]]:
        """Return when the quorum is given that is asked for at `asked_s`, and its members."""
        rules, at_s = self.rules, asked_s
        while True:
            self._kill_until(at_s)
            self.lost = [one for one in self.lost if at_s < one.lost_s + rules.silence_s]
            known = [*self.groups, *self.lost]
            heard = [one for one in known if one.heard_from_s <= at_s]
            asked = [one for one in heard if one.asks_from_s <= at_s]
            waits_until_s = min(one.asks_from_s for one in asked) + rules.join_timeout_s
            if members and set(members) <= set(asked):
                return at_s, asked
            if 2 * len(asked) > len(heard) and (len(asked) == len(heard) or at_s >= waits_until_s):
                return at_s, asked
            # Nothing changes before the next of these; then it looks again.
            changes_s = [self.next_kill_s, waits_until_s]
            changes_s += (one.lost_s + rules.silence_s for one in self.lost)
            changes_s += (time_s for one in known for time_s in (one.heard_from_s, one.asks_from_s))
            at_s = min(time_s for time_s in changes_s if time_s > at_s) + rules.tick_s

    def _step(
        self, now_s: float, given_s: float, present: list[_Group], regroups: bool
    ) -> tuple[float, bool, bool]:
        """Play a step; when it ends, whether it is void, and whether new members have copied."""
        rules = self.rules
        ready_s = given_s + (rules.regroup_s if regroups else 0.0)
        trained_s = now_s + rules.step_s - rules.averaging_s
        averages_s = max(trained_s, ready_s)
        end_s = averages_s + rules.averaging_s
        # One that had died before the quorum was given keeps the process group from being made.
        lost_s = given_s if any(one.lost_s <= given_s for one in present) else inf
        while lost_s == inf and self.next_kill_s <= end_s:
            at_s = self.next_kill_s
            if self._kill() in present:
                lost_s = at_s
        if lost_s == inf:
            return end_s, False, True
        fails_from_s = max(lost_s, averages_s) if lost_s >= ready_s else lost_s
        end_s = max(trained_s, fails_from_s + rules.error_s)
        self._kill_until(end_s)
        return end_s, True, lost_s >= ready_s + rules.copy_s

    def _kill_until(self, until_s: float) -> None:
        while self.next_kill_s <= until_s:
            self._kill()

    def _kill(self) -> _Group | None:
        """Kill a group that is up or starting, but never the first; return which, if any is."""
        rules, at_s = self.rules, self.next_kill_s
        alive = [
            number for number, one in enumerate(self.groups) if number and one.launched_s <= at_s
        ]
        self.next_kill_s = next(self.kills, inf)
        if not alive:
            return None
        number = int(self.rng.choice(alive))
        killed = self.groups[number]
        killed.lost_s = at_s
        if killed.heard_from_s <= at_s:
            self.lost.append(killed)
        if at_s < killed.asks_from_s:
            killed.asks_from_s = inf
        launched_s = at_s + float(self.rng.uniform(0.0, rules.poll_s))
        asks_s = launched_s + rules.start_s
        self.groups[number] = _Group(launched_s, asks_s - rules.beats_s, asks_s, False)
        self.killed += 1
        return killed


def gain_of_rare_averaging(
    rules: QuorumRules, gap_s: float, steps: int, each_step: StressRun
) -> float:
    """Return the tokens a second of averaging every so many steps, over those of each step.

    Groups ask for a quorum only when they average: one that is killed loses its round, and one that
    is killed while they average takes the round of all with it.

    What comes of averaging at each step is under the same kills, which are `gap_s` apart on
    average.
    """
    inner_s = rules.step_s - rules.averaging_s
    round_s = steps * inner_s + rules.averaging_s
    alone = exp(-(round_s + rules.start_s) / (gap_s * rules.groups))
    together = exp(-rules.averaging_s / gap_s)
    rate = steps / round_s * alone * together
    trained = each_step.taking_part / each_step.groups
    return rate / (trained / each_step.elapsed_s)
