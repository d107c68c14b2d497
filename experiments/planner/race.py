"""The candidates of a plan, simulated in more and more worlds; those behind are dropped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite

import numpy as np
from faultline.experiments.analysis.decision import INDIFFERENCE, Judgement, is_close, judge
from faultline.experiments.analysis.design import Design, Floats, SimulatedCosts
from faultline.experiments.analysis.intervals import Interval, interval_of
from faultline.experiments.analysis.quantities import percent_text
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.sampled_job import MTBF
from faultline.experiments.planner.answer import CAP, DECIDING_WORLDS, Answer, Row
from faultline.experiments.planner.candidates import Candidate, Candidates
from faultline.experiments.planner.deadline import OutOfTimeError, deadline
from faultline.experiments.planner.simulation import (
    IMPOSSIBLE,
    Lives,
    OnDone,
    run_tasks,
    simulate_worlds,
)
from faultline.experiments.planner.tuning import tune
from faultline.experiments.runs.point import RunCall

FIRST_WORLDS = 4
"""Worlds of the first stage; each later stage doubles them."""

_FIRST_LIMIT = 20.0
"""The first candidate's runs are stopped at this multiple of the time without failures."""

_MOST_REFUSED = 0.5
"""A scheme is left out if a larger share of its recoveries does not fit into GPU memory."""

NO_TIME = "no time was left (--within)"
_LATE = "more time than the cap"
_SURE = 0.99
_COUNTING_S = 1.0

_LEADING = 3
"""Schemes whose other set-ups are simulated, too: closed forms compare those of one scheme well."""


@dataclass(slots=True, eq=False)
class _Entrant:
    """A candidate with its runs."""

    candidate: Candidate
    choice: Choice  # As it is tuned.
    lives: Lives

    @property
    def name(self) -> str:
        return self.candidate.name

    @property
    def refused(self) -> float:
        """Share of recoveries that did not fit into GPU memory."""
        events = float(self.lives.events.sum())
        return float(self.lives.refused.sum()) / events if events else 0.0

    def why_refused(self) -> str | None:
        """Return why a candidate is something else than its name says; None if it is not."""
        lives = self.lives
        if (highest := float(lives.goodput.max())) > IMPOSSIBLE:
            return (
                f"has a simulated goodput of {highest:.1%}; more than 100 % is impossible: check "
                "the scheme's plans"
            )
        if self.refused > _MOST_REFUSED:
            return (
                f"most of its recoveries do not fit into GPU memory: {lives.refused.sum():,.0f} "
                f"were refused in {lives.events.sum():,.0f} failures"
            )
        return None


class Race:
    """The candidates that are still simulated, and those that were dropped, by their names.

    First, the best set-up of each scheme by closed forms is simulated, then the other set-ups of
    the leading schemes.
    """

    def __init__(
        self,
        base: Answer,
        design: Design,
        seed: int,
        candidates: Candidates,
        ends_s: float,
        on_done: OnDone,
    ) -> None:
        """Begin without runs; `base` is the answer without rows, and `ends_s` its real time."""
        self._base, self._design, self._seed, self._on_done = base, design, seed, on_done
        self._left_out, self._behind = list(candidates.left_out), candidates.behind
        firsts = {one.key: one for one in reversed(candidates.found)}
        self._waiting = [one for one in candidates.found if firsts[one.key] is one]
        self._others = [one for one in candidates.found if firsts[one.key] is not one]
        self._entrants: list[_Entrant] = []
        self._dropped: dict[str, Row] = {}
        self._cap_s, self._ends_s = inf, ends_s

    @property
    def is_late(self) -> bool:
        """Whether the real time is over."""
        return time.monotonic() >= self._ends_s

    @property
    def _worlds(self) -> int:
        """Worlds in which all entrants were simulated."""
        return min(len(one.lives.endings) for one in self._entrants)

    def advance(self, worlds: int) -> None:
        """Simulate the candidates up to a number of worlds, as far as the real time goes."""
        # Runs end a moment before, so that those that are complete can be counted.
        with suppress(OutOfTimeError), deadline(self._ends_s + _COUNTING_S):
            if not self._entrants:
                self._begin(worlds)
            else:
                self._enter_others()
                self._go_on(worlds)
        if self.is_late:
            self._left_out += [one.left_out(NO_TIME) for one in self._waiting + self._others]
            self._waiting, self._others = [], []

    def _begin(self, worlds: int) -> None:
        """Simulate the first candidate, then the others up to the cap that follows from it."""
        self._cap_s = _FIRST_LIMIT * self._base.situation.ideal_s
        while self._waiting and not self._entrants:
            first = self._waiting[0]
            choice = tune(first.choices, self._design_of(first.choices[0]))
            (lives,) = self._simulate([choice], range(worlds))
            if not len(lives.endings):
                return
            del self._waiting[0]
            self._enter([_Entrant(first, choice, lives)])
        if not self._entrants:
            return
        self._cap_s = CAP * self._expected_s(self._entrants[0])
        self._simulate_waiting(fewest=1)
        self._cap_s = CAP * min(map(self._expected_s, self._entrants))

    def _simulate_waiting(self, fewest: int) -> None:
        """Simulate the waiting candidates in the worlds so far, but for those that are behind.

        If the time is over, those with less than the `fewest` worlds go on waiting.
        """
        tuned = run_tasks(
            [
                RunCall(partial(tune, design=self._design_of(one.choices[0])), one.choices)
                for one in self._waiting
            ]
        )
        if None in tuned:
            return
        ahead = []
        for one, choice in zip(self._waiting, tuned, strict=True):
            if (why := self._why_behind(choice)) is None:
                ahead.append((one, choice))
            else:
                self._left_out.append(one.left_out(why))
        found = self._simulate([choice for _, choice in ahead], range(self._worlds))
        simulated = [_Entrant(*pair, lives) for pair, lives in zip(ahead, found, strict=True)]
        enough = [one for one in simulated if len(one.lives.endings) >= fewest]
        self._waiting = [one.candidate for one in simulated if one not in enough]
        self._enter(enough)

    def _enter_others(self) -> None:
        """Simulate the other set-ups of the leading candidates that are still in the race."""
        going = {one.name for one in self._bests()[:_LEADING]}
        self._behind += sum(one.name not in going for one in self._others)
        self._waiting += [one for one in self._others if one.name in going]
        self._others = []
        if self._waiting:
            # Fewer worlds of all would be a worse answer.
            self._simulate_waiting(fewest=self._worlds)

    def _go_on(self, worlds: int) -> None:
        more = self._simulate([one.choice for one in self._entrants], range(self._worlds, worlds))
        for entrant, lives in zip(self._entrants, more, strict=True):
            entrant.lives = entrant.lives.followed_by(lives)
        entrants, self._entrants = self._entrants, []
        self._enter(entrants)
        self._entrants = self._entrants or entrants[:1]

    def _enter(self, entrants: Sequence[_Entrant]) -> None:
        """Take candidates into the race, but for those that are something else than their name.

        If the time is over, all have the worlds that all of them have.
        """
        for one in entrants:
            if why := one.why_refused():
                self._left_out.append(one.candidate.left_out(why))
            else:
                self._entrants.append(one)
        for one in self._entrants:
            one.lives = one.lives.first(self._worlds)

    def _why_behind(self, choice: Choice) -> str | None:
        """Return by how much a scheme without failures is behind the first one with failures.

        None if it is not so in every world so far. Simulating the scheme could then not change the
        advice, and may take longer than all else.
        """
        first, resolved = self._entrants[0], choice.resolved
        plan, costs = resolved.strategy().plan(), resolved.costs()
        # Not `step_s`, a mean over a life at whose end few groups are left: groups may return.
        compute_s = plan.stacks * plan.stack_size * plan.pace * costs.compute_s
        least_s = (compute_s + costs.all_reduce_s) * resolved.scenario.job.steps
        if (first.lives.time_s >= least_s).any():
            return None
        late = percent_text(least_s / self._expected_s(first) - 1.0)
        return f"even without failures {late} slower than {first.name} is with them"

    def _simulate(self, choices: Sequence[Choice], worlds: range) -> list[Lives]:
        steps, seed, limit_s = self._base.steps, self._seed << 32, self._cap_s
        designs = [self._design_of(choice) for choice in choices]
        return simulate_worlds(
            choices, designs, worlds, steps, limit_s, seed, self._on_done, self._ends_s
        )

    def _design_of(self, choice: Choice) -> Design:
        """Return the worlds of a choice: fewer groups than the job's fail less often."""
        groups = self._base.situation.scenario.job.groups
        return self._design.scaled(MTBF, groups / choice.resolved.scenario.job.groups)

    def _expected_s(self, one: _Entrant) -> float:
        return float(self._by_world(one).mean())

    def _bests(self) -> list[_Entrant]:
        """Return the soonest set-up of each name, the soonest first."""
        firsts: dict[str, _Entrant] = {}
        for one in sorted(self._entrants, key=self._expected_s):
            firsts.setdefault(one.name, one)
        return list(firsts.values())

    def _costs_of(self, entrants: Sequence[_Entrant]) -> SimulatedCosts:
        times_s = np.array([one.lives.time_s for one in entrants])
        schemes = {one.choice.scheme for one in entrants}
        # An input that another scheme has of its own has no effect on these.
        effective = {
            name
            for name in self._design.names
            if " of " not in name or name.partition(" of ")[2] in schemes
        }
        return SimulatedCosts(
            tuple(one.name for one in entrants),
            self._design.first(times_s.shape[1]).only(effective),
            np.minimum(times_s, self._cap_s),
            self._base.steps / self._base.situation.scenario.job.steps,
            self._cap_s,
        )

    def answer(self) -> Answer:
        """Return the answer by the worlds so far."""
        base = replace(
            self._base, left_out=tuple(self._left_out), behind=self._behind + len(self._others)
        )
        bests = self._bests()
        if not bests:
            return base
        costs = self._costs_of(bests)
        rows = self._rows(bests, costs)
        first = costs.costs[0].mean()
        for row in self._dropped.values():
            own = costs.costs[0, : row.worlds].mean()
            rows.append(replace(row, judgement=scaled(row.judgement, float(first / own))))
        rows[1:] = sorted(rows[1:], key=lambda row: row.judgement.bands.mean)
        choices = tuple(one.choice for one in bests)
        return replace(base, rows=tuple(rows), choices=choices, costs=costs)

    def _rows(self, entrants: Sequence[_Entrant], costs: SimulatedCosts) -> list[Row]:
        by_name, rows = {one.name: one for one in entrants}, []
        for judgement in judge(costs):
            one = by_name[judgement.candidate]
            # Runs may have ended after the cap, within the higher one of the first candidate.
            is_late = (one.lives.time_s >= self._cap_s).any(axis=1)
            why = np.where(is_late & (one.lives.endings == ""), _LATE, one.lives.endings).tolist()
            rows.append(
                Row(one.choice, judgement, len(why), Counter(filter(None, why)), one.refused)
            )
        return rows

    def drop(self) -> None:
        """Drop candidates that further worlds can hardly make the answer."""
        bests, worlds = self._bests(), self._worlds
        rows = {row.name: row for row in self._rows(bests, self._costs_of(bests))}
        most = max(FIRST_WORLDS, 2 * DECIDING_WORLDS // worlds)
        first_s = self._by_world(bests[0])
        going = [bests[0].name]
        for place, one in enumerate(bests[1:], start=1):
            # The next best stays: it is what the first is compared with.
            is_late = place > 1 and is_surely_later(
                self._by_world(one), first_s, rows[one.name].judgement.best.mean
            )
            lead = interval_of((self._by_world(one) - first_s).tolist())
            tied = is_close(lead, float(first_s.mean()))
            # A few worlds, maybe without a failure, do not separate equals.
            is_beyond = place >= most and (worlds >= DECIDING_WORLDS or not tied)
            if is_late or is_beyond:
                row = rows[one.name]
                self._dropped[one.name] = replace(row, judgement=replace(row.judgement, tied=tied))
            else:
                going.append(one.name)
        set_ups = max(1, DECIDING_WORLDS // worlds // 2)
        taken: Counter[str] = Counter()
        kept = []
        for one in sorted(self._entrants, key=self._expected_s):
            taken[one.name] += 1
            if one.name in going and taken[one.name] <= set_ups:
                kept.append(one)
        self._entrants = kept

    def _by_world(self, one: _Entrant) -> Floats:
        means: Floats = np.minimum(one.lives.time_s, self._cap_s).mean(axis=1)
        return means


def is_surely_later(row: Floats, first: Floats, best: float) -> bool:
    """Return whether a candidate is later than the first beyond doubt, and nowhere the best.

    Parameters
    ----------
    row, first : ndarray of float
        Times by world.
    best : float
        Share of worlds in which the candidate is the best.
    """
    lead = interval_of((row - first).tolist(), _SURE)
    is_later = isfinite(lead.low) and lead.low > 0.0
    return best == 0.0 and is_later and lead.mean > INDIFFERENCE * float(first.mean())


def scaled(judgement: Judgement, factor: float) -> Judgement:
    """Return a judgement with all times multiplied."""
    bands, regret, loss = judgement.bands, judgement.regret, judgement.loss_if_wrong
    return replace(
        judgement,
        bands=replace(
            bands, mean=factor * bands.mean, low=factor * bands.low, high=factor * bands.high
        ),
        regret=Interval(factor * regret.mean, factor * regret.low, factor * regret.high),
        loss_if_wrong=None if loss is None else factor * loss,
    )
