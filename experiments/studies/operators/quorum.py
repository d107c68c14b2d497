"""Replicas that agree on a quorum before each step: torchft's rules, killed as in its stress test.

A step begins when all that trained the last one ask for a quorum. It is given once everybody whose
heartbeat is heard has asked, or the join timeout is over. Whoever is new copies the weights while
the others train, and does not count in that step. Gradients are averaged at the end; if somebody
who takes part has died, the averaging fails and the step is discarded.
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


@dataclass(slots=True)
class _Group:
    """A replica group: since when it is heard, and from when on it asks to join."""

    heard_from_s: float = 0.0
    asks_from_s: float = 0.0
    launched_s: float = 0.0
    has_weights: bool = True


class StressTest:
    """A job whose groups are killed: kills are ascending times, chance decides who."""

    def __init__(
        self, rules: QuorumRules, kills_s: Iterable[float], rng: np.random.Generator
    ) -> None:
        self.rules, self.rng, self.kills = rules, rng, iter(kills_s)
        self.groups = [_Group() for _ in range(rules.groups)]
        self.silent_from_s: list[float] = []
        self.next_kill_s = next(self.kills, inf)
        self.killed = 0

    def play(self, most_steps: int = 10**9) -> StressRun:
        """Play until there is nothing left to kill, or so many steps."""
        now_s, steps, committed, taking_part = 0.0, 0, 0, 0
        members: set[int] = set()
        while steps < most_steps and self.next_kill_s < inf:
            steps += 1
            given_s = self._quorum_s(now_s)
            present = {
                number for number, one in enumerate(self.groups) if one.asks_from_s <= given_s
            }
            trained = [number for number in present if self.groups[number].has_weights]
            regroups = present != members or len(trained) < len(present)
            now_s, broken = self._step(now_s, given_s, present, regroups)
            members = present
            for number in present:
                # A step in vain leaves the weights as they were copied.
                one = self.groups[number]
                one.has_weights |= one.launched_s <= given_s
            if not broken:
                committed += 1
                taking_part += len(trained)
        return StressRun(steps, committed, self.killed, now_s, taking_part, self.rules.groups)

    def _quorum_s(self, asked_s: float) -> float:
        """Return when the quorum is given that is asked for at `asked_s`, killing on the way."""
        rules, at_s = self.rules, asked_s
        patience_s = asked_s + rules.join_timeout_s
        while True:
            self._kill_until(at_s)
            expected_s = [
                one.asks_from_s for one in self.groups if one.heard_from_s <= at_s < one.asks_from_s
            ]
            expected_s += (end_s for end_s in self.silent_from_s if end_s > at_s)
            if not expected_s or at_s >= patience_s:
                return at_s
            # Nothing changes before the first of them, or the next kill; then it looks again.
            changes_s = min(*expected_s, self.next_kill_s, patience_s)
            at_s = max(at_s, changes_s) + rules.tick_s

    def _step(
        self, now_s: float, given_s: float, present: set[int], regroups: bool
    ) -> tuple[float, bool]:
        """Play a step; when it ends, and whether it was in vain."""
        rules = self.rules
        ready_s = given_s + (rules.regroup_s if regroups else 0.0)
        averages_s = max(now_s + rules.step_s - rules.averaging_s, ready_s)
        end_s = averages_s + rules.averaging_s
        while self.next_kill_s <= end_s:
            at_s = self.next_kill_s
            if self._kill() in present:
                end_s = max(at_s, averages_s) + rules.error_s
                self._kill_until(end_s)
                return end_s, True
        return end_s, False

    def _kill_until(self, until_s: float) -> None:
        while self.next_kill_s <= until_s:
            self._kill()

    def _kill(self) -> int:
        """Kill a group that is up or starting, but never the first; return which."""
        rules, at_s = self.rules, self.next_kill_s
        alive = [
            number for number, one in enumerate(self.groups) if number and one.launched_s <= at_s
        ]
        number = int(self.rng.choice(alive))
        if self.groups[number].heard_from_s <= at_s:
            self.silent_from_s = [end_s for end_s in self.silent_from_s if end_s > at_s]
            self.silent_from_s.append(at_s + rules.silence_s)
        launched_s = at_s + float(self.rng.uniform(0.0, rules.poll_s))
        asks_s = launched_s + rules.start_s
        self.groups[number] = _Group(asks_s - rules.beats_s, asks_s, launched_s, False)
        self.killed += 1
        self.next_kill_s = next(self.kills, inf)
        return number


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
