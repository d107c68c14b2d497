"""The candidates of a plan, simulated in more and more worlds; those behind are dropped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite

import numpy as np
from faultline.experiments.analysis.decision import INDIFFERENCE, Judgement, judge
from faultline.experiments.analysis.design import Design, Floats, SimulatedCosts
from faultline.experiments.analysis.intervals import Interval, interval_of
from faultline.experiments.analysis.quantities import percent_text
from faultline.experiments.config.priors import UncertainKey
from faultline.experiments.figures.palette import look_of
from faultline.experiments.job.choices import Choice
from faultline.experiments.planner.answer import CAP, DECIDING_WORLDS, Answer, Row
from faultline.experiments.planner.candidates import Candidate, Candidates, LeftOut
from faultline.experiments.planner.deadline import OutOfTimeError, deadline
from faultline.experiments.planner.simulation import (
    IMPOSSIBLE,
    Lives,
    OnDone,
    run_tasks,
    simulate_worlds,
)
from faultline.experiments.planner.situation import Situation
from faultline.experiments.planner.tuning import tune
from faultline.experiments.runs.point import RunCall

FIRST_WORLDS = 4
"""Worlds of the first stage; each later stage doubles them."""

_FIRST_LIMIT = 20.0
"""The first candidate's runs are stopped at this multiple of the time without failures."""

_MOST_REFUSED = 0.5
"""A scheme is left out if a larger share of its recoveries does not fit into GPU memory."""

NO_TIME = "no time was left (--within)"

_SURE = 0.99

_COUNTING_S = 1.0

_LEADING = 3
"""Schemes whose other set-ups are simulated, too: closed forms compare those of one scheme well."""


@dataclass(slots=True)
class _Entrant:
    """A candidate with its runs."""

    choice: Choice
    lives: Lives

    @property
    def scheme(self) -> str:
        return self.choice.scheme

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
    """The candidates that are still simulated, and the schemes that were dropped.

    First, the best set-up of each scheme by closed forms is simulated, then the other set-ups of
    the leading schemes.
    """

    def __init__(
        self,
        situation: Situation,
        keys: tuple[UncertainKey, ...],
        design: Design,
        steps: int,
        seed: int,
        candidates: Candidates,
        ends_s: float,
        on_done: OnDone,
    ) -> None:
        self._situation, self._keys, self._design = situation, keys, design
        self._steps, self._seed, self._on_done = steps, seed, on_done
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
        return len(self._entrants[0].lives.endings)

    def advance(self, worlds: int) -> None:
        """Simulate the candidates up to a number of worlds, as far as the real time goes."""
        try:
            # Runs end a moment before, so that those that are complete can be counted.
            with deadline(self._ends_s + _COUNTING_S):
                if not self._entrants:
                    self._begin(worlds)
                else:
                    self._enter_others()
                    self._go_on(worlds)
        except OutOfTimeError:
            pass
        if self.is_late:
            self._leave_out(self._waiting + self._others)
            self._waiting, self._others = [], []

    def _begin(self, worlds: int) -> None:
        """Simulate the first candidate, then the others up to the cap that follows from it."""
        self._cap_s = _FIRST_LIMIT * self._situation.ideal_s
        while self._waiting and not self._entrants:
            first = self._waiting[0]
            choices = [tune(first.choices, self._design)]
            lives = self._simulate(choices, range(worlds))
            if not lives[0].endings:
                return
            del self._waiting[0]
            self._enter(choices, lives)
        if not self._entrants:
            return
        self._cap_s = CAP * self._expected_s(self._entrants[0].lives)
        self._simulate_waiting()
        self._cap_s = CAP * min(self._expected_s(one.lives) for one in self._entrants)

    def _simulate_waiting(self) -> None:
        """Simulate the waiting candidates in the worlds so far, but for those that are behind."""
        tuning = partial(tune, design=self._design)
        tuned = run_tasks([RunCall(tuning, one.choices) for one in self._waiting])
        if None in tuned:
            return  # The time is over.
        pairs = zip(self._waiting, tuned, strict=True)
        ahead = [(one, choice) for one, choice in pairs if not self._is_behind(choice)]
        self._waiting = [one for one, _ in ahead]
        found = self._simulate([choice for _, choice in ahead], range(self._worlds))
        started = [
            (one, choice, lives)
            for (one, choice), lives in zip(ahead, found, strict=True)
            if lives.endings
        ]
        self._waiting = [
            one for (one, _), lives in zip(ahead, found, strict=True) if not lives.endings
        ]
        # If the time is over, all have the worlds that all of them have.
        least = min([self._worlds, *(len(lives.endings) for *_, lives in started)])
        for entrant in self._entrants:
            entrant.lives = entrant.lives.first(least)
        self._enter([choice for _, choice, _ in started], [one.first(least) for *_, one in started])

    def _enter_others(self) -> None:
        """Simulate the other set-ups of the leading schemes that are still in the race."""
        going = {one.scheme for one in self._best_of_schemes()[:_LEADING]}
        self._behind += sum(one.scheme not in going for one in self._others)
        self._waiting += [one for one in self._others if one.scheme in going]
        self._others = []
        if not self._waiting:
            return
        before, entrants = self._worlds, list(self._entrants)
        kept = [one.lives for one in entrants]
        self._simulate_waiting()
        if self._worlds < before:
            # Fewer worlds of all would be a worse answer.
            late = self._entrants[len(entrants) :]
            self._left_out += [
                LeftOut(one.choice.scheme, one.choice.protection, NO_TIME) for one in late
            ]
            self._entrants = entrants
            for one, lives in zip(entrants, kept, strict=True):
                one.lives = lives

    def _go_on(self, worlds: int) -> None:
        choices = [one.choice for one in self._entrants]
        more = self._simulate(choices, range(self._worlds, worlds))
        least = min(len(lives.endings) for lives in more)
        for entrant, lives in zip(self._entrants, more, strict=True):
            entrant.lives = entrant.lives.followed_by(lives.first(least))
        for one in [each for each in self._entrants if each.why_refused()]:
            if len(self._entrants) > 1:
                self._entrants.remove(one)
                self._refuse(one)

    def _leave_out(self, candidates: Iterable[Candidate]) -> None:
        for one in candidates:
            self._left_out.append(LeftOut(one.scheme, one.choices[0].protection, NO_TIME))

    def _enter(self, choices: Sequence[Choice], lives: Sequence[Lives]) -> None:
        """Take candidates into the race, but for those that are something else than their name."""
        for choice, of_choice in zip(choices, lives, strict=True):
            entrant = _Entrant(choice, of_choice)
            if entrant.why_refused():
                self._refuse(entrant)
            else:
                self._entrants.append(entrant)

    def _refuse(self, entrant: _Entrant) -> None:
        choice, reason = entrant.choice, entrant.why_refused() or ""
        self._left_out.append(LeftOut(choice.scheme, choice.protection, reason))

    def _is_behind(self, choice: Choice) -> bool:
        """Return whether a scheme is slower without failures than the first one with failures.

        That must hold in every world so far. Simulating the scheme could then not change the
        advice, and may take longer than all else.
        """
        first, resolved = self._entrants[0], choice.resolved
        plan, costs = resolved.strategy().plan(), resolved.costs()
        # Not `step_s`, a mean over a life at whose end few groups are left: groups may return.
        compute_s = plan.stacks * plan.stack_size * plan.pace * costs.compute_s
        least_s = (compute_s + costs.all_reduce_s) * self._situation.scenario.job.steps
        is_behind = bool((first.lives.time_s < least_s).all())
        if is_behind:
            late = least_s / self._expected_s(first.lives) - 1.0
            name = look_of(first.scheme).label
            reason = f"without failures {percent_text(late)} slower than {name} with them"
            self._left_out.append(LeftOut(choice.scheme, choice.protection, reason))
        return is_behind

    def _simulate(self, choices: Sequence[Choice], worlds: range) -> list[Lives]:
        seed, limit_s = self._seed << 32, self._cap_s
        return simulate_worlds(
            choices, self._design, worlds, self._steps, limit_s, seed, self._on_done, self._ends_s
        )

    def _expected_s(self, lives: Lives) -> float:
        return float(np.minimum(lives.time_s, self._cap_s).mean())

    def _costs_of(self, entrants: Sequence[_Entrant]) -> SimulatedCosts:
        times_s = np.array([one.lives.time_s for one in entrants])
        schemes = {one.scheme for one in entrants}
        # An input that another scheme has of its own has no effect on these.
        effective = {
            name
            for name in self._design.names
            if " of " not in name or name.partition(" of ")[2] in schemes
        }
        return SimulatedCosts(
            tuple(look_of(one.scheme).label for one in entrants),
            self._design.first(times_s.shape[1]).only(effective),
            np.minimum(times_s, self._cap_s),
            self._steps / self._situation.scenario.job.steps,
            self._cap_s,
        )

    def _expected(self) -> list[tuple[float, _Entrant]]:
        """Return the candidates with their expected times, the soonest first."""
        pairs = [(self._expected_s(one.lives), one) for one in self._entrants]
        return sorted(pairs, key=lambda pair: pair[0])

    def _best_of_schemes(self) -> list[_Entrant]:
        """Return the soonest set-up of each scheme, the soonest first."""
        firsts: dict[str, _Entrant] = {}
        for _, one in self._expected():
            firsts.setdefault(one.scheme, one)
        return list(firsts.values())

    def answer(self) -> Answer:
        """Return the answer by the worlds so far."""
        situation = self._situation
        left_out = tuple(self._left_out)
        bests = self._best_of_schemes()
        if not bests:
            return Answer(
                situation, self._keys, (), (), None, left_out, self._steps, 0, self._behind,
                is_last=True,
            )  # fmt: skip
        costs = self._costs_of(bests)
        rows = self._rows(bests, costs)
        first = costs.costs[0].mean()
        for row in self._dropped.values():
            own = costs.costs[0, : row.worlds].mean()
            rows.append(replace(row, judgement=scaled(row.judgement, float(first / own))))
        rows[1:] = sorted(rows[1:], key=lambda row: row.judgement.bands.mean)
        choices = tuple(one.choice for one in bests)
        return Answer(
            situation, self._keys, tuple(rows), choices, costs, left_out, self._steps, 0,
            self._behind + len(self._others), is_last=False,
        )  # fmt: skip

    def _rows(self, entrants: Sequence[_Entrant], costs: SimulatedCosts) -> list[Row]:
        by_name = dict(zip(costs.candidates, entrants, strict=True))
        return [
            Row(
                (one := by_name[judgement.candidate]).choice,
                judgement,
                len(one.lives.endings),
                Counter(filter(None, one.lives.endings)),
                one.refused,
            )
            for judgement in judge(costs)
        ]

    def drop(self) -> None:
        """Drop candidates that further worlds can hardly make the answer."""
        bests = self._best_of_schemes()
        worlds = len(bests[0].lives.endings)
        costs = self._costs_of(bests)
        rows = {row.choice.scheme: row for row in self._rows(bests, costs)}
        most = max(FIRST_WORLDS, 2 * DECIDING_WORLDS // worlds)
        means = {one.scheme: self._by_world(one) for one in bests}
        first, *others = bests
        going = [first.scheme]
        for place, one in enumerate(others, start=1):
            # The next best stays: it is what the first is compared with.
            is_late = place > 1 and is_surely_later(
                means[one.scheme], means[first.scheme], rows[one.scheme].judgement.best.mean
            )
            if is_late or place >= most:
                self._dropped[one.scheme] = rows[one.scheme]
            else:
                going.append(one.scheme)
        set_ups = max(1, DECIDING_WORLDS // worlds // 2)
        taken: Counter[str] = Counter()
        kept = []
        for _, one in self._expected():
            taken[one.scheme] += 1
            if one.scheme in going and taken[one.scheme] <= set_ups:
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
        tied=False,
    )
