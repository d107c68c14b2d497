"""The answer of a plan: candidates, simulated in more and more worlds until one is decided.

A world is a point of a design over the uncertain inputs, with failures of its own; without
uncertain inputs worlds differ by their failures alone. After each stage, candidates that further
worlds can hardly make the answer are dropped: successive halving (Karnin, Koren & Somekh 2013,
*Almost optimal exploration in multi-armed bandits*) with common random numbers.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite

import numpy as np
from faultline.experiments.analysis.decision import INDIFFERENCE, Judgement, judge
from faultline.experiments.analysis.design import Design, Floats, SimulatedCosts, design_by_name
from faultline.experiments.analysis.intervals import Interval, interval_of
from faultline.experiments.config.priors import UncertainKey, priors_of
from faultline.experiments.figures.palette import look_of
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.sampled_job import quantiles_of
from faultline.experiments.planner.candidates import (
    Candidate,
    Candidates,
    LeftOut,
    find_candidates,
)
from faultline.experiments.planner.simulation import (
    IMPOSSIBLE,
    Lives,
    OnDone,
    simulate_worlds,
    simulated_steps,
)
from faultline.experiments.planner.situation import Situation
from faultline.experiments.planner.tuning import tune
from faultline.experiments.runs.point import cores

WORLDS = 64
"""Most worlds, unless the user states another number."""

QUICK_WORLDS = 16

FIRST_WORLDS = 4
"""Worlds of the first stage; each later stage doubles them."""

DECIDING_WORLDS = 16
"""Worlds from which on a leader may be decided, and inputs are compared."""

CAP = 3.0
"""A run counts at most this multiple of the expected time of the soonest candidate."""

_FIRST_LIMIT = 20.0
"""The first candidate's runs are stopped at this multiple of the time without failures."""

_MOST_REFUSED = 0.5
"""A scheme is left out if a larger share of its recoveries does not fit into GPU memory."""

_FIRST_PROTECTIONS = ("storage",)
"""Others need transfers of state that are measured first."""

_NO_TIME = "no time was left to simulate it (--within)"

_SURE = 0.99


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a plan may simulate.

    Attributes
    ----------
    worlds : int
        Most worlds.
    within_s : float or None
        Real time after which no further worlds are begun, in seconds.
    steps : int or None
        Steps of a simulated job; by default enough for 100 failures, at most the whole job.
    seed : int
        Seed of worlds and failures.
    """

    worlds: int = WORLDS
    within_s: float | None = None
    steps: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A scheme at its best set-up.

    Attributes
    ----------
    choice : Choice
        The scheme with its protection, redundancy and interval.
    judgement : Judgement
        Its assessment. That of a scheme that was dropped is over its own worlds, with times scaled
        by those of the advised candidate in all worlds over those in its own.
    worlds : int
        Worlds in which it was simulated.
    endings : Counter of str
        Why runs did not end, and in how many of its worlds.
    refused : float
        Share of its recoveries that did not fit into GPU memory.
    """

    choice: Choice
    judgement: Judgement
    worlds: int
    endings: Counter[str]
    refused: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a plan.

    Attributes
    ----------
    situation : Situation
        The job.
    keys : tuple of UncertainKey
        The inputs that differ between worlds; none at the stated values.
    rows : tuple of Row
        A row per scheme, the advised one first; none if no scheme is a candidate.
    choices : tuple of Choice
        The schemes that were simulated in all worlds, in the order of the candidates of `costs`.
    costs : SimulatedCosts or None
        Their times to train, in seconds; None without rows.
    left_out : tuple of LeftOut
        What is not in `rows`, and why.
    steps : int
        Steps of a simulated job.
    most_worlds : int
        Worlds to which the plan may go on.
    behind : int
        Other set-ups of the schemes, which closed forms rank behind those that were simulated.
    is_last : bool
        Whether no further worlds are simulated.
    """

    situation: Situation
    keys: tuple[UncertainKey, ...]
    rows: tuple[Row, ...]
    choices: tuple[Choice, ...]
    costs: SimulatedCosts | None
    left_out: tuple[LeftOut, ...]
    steps: int
    most_worlds: int
    behind: int
    is_last: bool

    @property
    def worlds(self) -> int:
        """Worlds of the advised scheme."""
        return self.rows[0].worlds if self.rows else 0

    @property
    def ties(self) -> tuple[Row, ...]:
        """The schemes that the worlds do not separate from the advised one."""
        return tuple(row for row in self.rows[1:] if row.judgement.tied)

    @property
    def is_decided(self) -> bool:
        """Whether further worlds would hardly change the advice."""
        return self.worlds >= DECIDING_WORLDS and all(map(self.is_settled, self.ties))

    @property
    def finishes(self) -> bool:
        """Whether the advised scheme ends in some world."""
        return bool(self.rows) and self.rows[0].judgement.capped < 1.0

    def lead_over(self, row: Row) -> Interval:
        """Return by how many seconds a scheme of all worlds is later than the advised one."""
        assert self.costs is not None
        means = self.costs.costs.mean(axis=2)
        places = {name: place for place, name in enumerate(self.costs.candidates)}
        later = means[places[row.judgement.candidate]] - means[places[self.advised]]
        return interval_of(later.tolist())

    def is_settled(self, row: Row) -> bool:
        """Return whether a tie is surely too close to matter."""
        if row.worlds < self.worlds:
            return True
        lead = self.lead_over(row)
        least = INDIFFERENCE * self.rows[0].judgement.bands.mean
        return -least < lead.low and lead.high < least

    @property
    def advised(self) -> str:
        """Name of the advised candidate."""
        return self.rows[0].judgement.candidate


def answer_plan(
    situation: Situation,
    schemes: Sequence[str] | None = None,
    protections: Sequence[str] | None = None,
    effort: Effort | None = None,
    *,
    at_values: bool = False,
    on_first: Callable[[Sequence[Candidate]], None] | None = None,
    on_answer: Callable[[Answer], None] | None = None,
    on_done: OnDone = None,
) -> Answer:
    """Return the scheme to take for a job.

    Parameters
    ----------
    situation : Situation
        The job.
    schemes, protections : sequence of str, optional
        The candidates; by default all for which the scenario states enough.
    effort : Effort, optional
        How much to simulate.
    at_values : bool
        Whether all inputs have the values of the scenario: a design of one point.
    on_first : callable, optional
        Called with candidates over one protection, the first by closed forms at the start. Nothing
        was simulated yet.
    on_answer : callable, optional
        Called with the answer after each stage.
    on_done : callable, optional
        Called after each run.

    Raises
    ------
    UserError, StrategyError, PlatformError
        If a name is unknown, or no requested scheme can be built.
    """
    if on_first is not None:
        first = protections[:1] if protections else _FIRST_PROTECTIONS
        on_first(find_candidates(situation, schemes, first).found)
    answer = None
    for answer in answers(
        situation, schemes, protections, effort or Effort(), at_values=at_values, on_done=on_done
    ):
        if on_answer is not None:
            on_answer(answer)
    assert answer is not None
    return answer


def answers(
    situation: Situation,
    schemes: Sequence[str] | None,
    protections: Sequence[str] | None,
    effort: Effort,
    *,
    at_values: bool = False,
    on_done: OnDone = None,
) -> Iterator[Answer]:
    """Yield the answer after each stage, until it is decided or the effort is spent."""
    began_s = time.monotonic()
    candidates = find_candidates(situation, schemes, protections)
    keys = () if at_values else tuple(priors_of(situation.scenario))
    found = candidates.found
    if not found:
        left_out, most = candidates.left_out, effort.worlds
        yield Answer(situation, keys, (), (), None, left_out, 0, most, 0, is_last=True)
        return
    names = list(dict.fromkeys(one.choices[0].scheme for one in found))
    design = design_by_name(quantiles_of(keys, names, situation.mtbf_s), effort.worlds, effort.seed)
    steps = min(
        effort.steps or simulated_steps(found[0].choices[0].resolved), situation.scenario.job.steps
    )
    ends_s = inf if effort.within_s is None else began_s + effort.within_s
    race = _Race(situation, keys, design, steps, effort, candidates, ends_s, on_done)
    worlds = min(FIRST_WORLDS, effort.worlds)
    while True:
        race.advance(worlds)
        answer = race.answer()
        is_last = worlds >= effort.worlds or answer.is_decided or race.is_late or not answer.rows
        yield replace(answer, is_last=is_last)
        if is_last:
            return
        race.drop()
        worlds = min(2 * worlds, effort.worlds)


class _OutOfTimeError(Exception):
    """The real time is over while candidates are simulated."""


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


class _Race:
    """The candidates that are still simulated, and the schemes that were dropped."""

    def __init__(
        self,
        situation: Situation,
        keys: tuple[UncertainKey, ...],
        design: Design,
        steps: int,
        effort: Effort,
        candidates: Candidates,
        ends_s: float,
        on_done: OnDone,
    ) -> None:
        self._situation, self._keys, self._design = situation, keys, design
        self._steps, self._effort, self._on_done = steps, effort, on_done
        self._left_out, self._behind = list(candidates.left_out), candidates.behind
        self._waiting = deque(candidates.found)
        self._entrants: list[_Entrant] = []
        self._dropped: dict[str, Row] = {}
        self._cap_s, self._ends_s = inf, ends_s

    @property
    def is_late(self) -> bool:
        """Whether the real time is over."""
        return time.monotonic() >= self._ends_s

    def advance(self, worlds: int) -> None:
        """Simulate the candidates up to a number of worlds, as far as the real time goes."""
        if self._waiting:
            self._begin(worlds)
            return
        done = len(self._entrants[0].lives.endings)
        size = worlds - done if self._ends_s == inf else FIRST_WORLDS
        choices = [one.choice for one in self._entrants]
        for start in range(done, worlds, size):
            if self.is_late:
                return
            try:
                more = self._simulate(choices, range(start, min(start + size, worlds)))
            except _OutOfTimeError:
                return
            for entrant, lives in zip(self._entrants, more, strict=True):
                entrant.lives = entrant.lives.followed_by(lives)

    def _tuned(self, at_once: int) -> list[Choice]:
        """Take the next candidates, at their redundancy and interval."""
        found = [self._waiting.popleft() for _ in range(min(at_once, len(self._waiting)))]
        return [tune(one.choices, self._design) for one in found]

    def _begin(self, worlds: int) -> None:
        """Simulate the first candidate, then the others up to the cap that follows from it."""
        self._cap_s = _FIRST_LIMIT * self._situation.ideal_s
        while self._waiting and not self._entrants:
            first = self._tuned(1)
            self._enter(first, self._simulate(first, range(worlds)))
        if not self._entrants:
            return
        first_lives = self._entrants[0].lives
        self._cap_s = CAP * self._expected_s(first_lives)
        # With a limit of real time, it is looked at as often as all processors are busy.
        at_once = len(self._waiting) if self._ends_s == inf else cores()
        while self._waiting and not self.is_late:
            ahead = [choice for choice in self._tuned(at_once) if not self._is_behind(choice)]
            try:
                self._enter(ahead, self._simulate(ahead, range(worlds)))
            except _OutOfTimeError:
                self._left_out += [LeftOut(one.scheme, one.protection, _NO_TIME) for one in ahead]
        late = [one.choices[0] for one in self._waiting]
        self._left_out += [LeftOut(one.scheme, one.protection, _NO_TIME) for one in late]
        self._waiting.clear()
        self._cap_s = CAP * min(self._expected_s(one.lives) for one in self._entrants)

    def _enter(self, choices: Sequence[Choice], lives: Sequence[Lives]) -> None:
        """Take candidates into the race, but for those that are something else than their name."""
        for choice, of_choice in zip(choices, lives, strict=True):
            entrant = _Entrant(choice, of_choice)
            if reason := entrant.why_refused():
                self._left_out.append(LeftOut(choice.scheme, choice.protection, reason))
            else:
                self._entrants.append(entrant)

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
            reason = f"without failures {late:.0%} slower than {name} with them"
            self._left_out.append(LeftOut(choice.scheme, choice.protection, reason))
        return is_behind

    def _simulate(self, choices: Sequence[Choice], worlds: range) -> list[Lives]:
        seed = self._effort.seed << 32

        def on_done() -> None:
            if self._on_done is not None:
                self._on_done()
            if self._entrants and self.is_late:
                raise _OutOfTimeError

        return simulate_worlds(
            choices, self._design, worlds, self._steps, self._cap_s, seed, on_done
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
        situation, most = self._situation, self._effort.worlds
        left_out = tuple(self._left_out)
        bests = self._best_of_schemes()
        if not bests:
            return Answer(
                situation, self._keys, (), (), None, left_out, self._steps, most, self._behind,
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
            situation, self._keys, tuple(rows), choices, costs, left_out, self._steps, most,
            self._behind, is_last=False,
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
        most = max(FIRST_WORLDS, 3 * DECIDING_WORLDS // worlds)
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
        set_ups = max(1, DECIDING_WORLDS // worlds - 1)
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
