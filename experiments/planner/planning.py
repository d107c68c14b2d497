"""A plan: candidates, simulated in more and more worlds until one is decided.

A world is a point of a design over the uncertain inputs, with failures of its own; without
uncertain inputs worlds differ by their failures alone. After each stage, candidates that further
worlds can hardly make the answer are dropped: successive halving (Karnin, Koren & Somekh 2013,
*Almost optimal exploration in multi-armed bandits*) with common random numbers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

from faultline.experiments.analysis.design import design_by_name
from faultline.experiments.config.priors import priors_of
from faultline.experiments.job.sampled_job import quantiles_of
from faultline.experiments.planner.answer import Answer
from faultline.experiments.planner.candidates import Candidates, find_candidates
from faultline.experiments.planner.deadline import OutOfTimeError, deadline
from faultline.experiments.planner.race import FIRST_WORLDS, Race
from faultline.experiments.planner.simulation import OnDone, simulated_steps, warm_up
from faultline.experiments.planner.situation import Situation

WORLDS = 64
"""Most worlds, unless the user states another number."""

QUICK_WORLDS = 16

_MANY_GPUS, _WARM_LIMIT = 1024, 2.0
"""Workers take seconds to start and to read a platform of more GPUs, so they start at once, with a
run that is stopped at this multiple of the time without failures."""

_FIRST_PROTECTIONS = ("storage",)
"""Others need transfers of state that are measured first."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a plan may simulate."""

    worlds: int = WORLDS  # At most.
    within_s: float | None = None  # Real time after which no further worlds are begun.
    steps: int | None = None  # Of a simulated job; by default enough for 100 failures.
    seed: int = 0  # Of worlds and failures.

    def ends_s(self) -> float:
        """Return when a plan that begins now ends, on the monotonic clock, in seconds."""
        return inf if self.within_s is None else time.monotonic() + self.within_s


def answer_plan(
    situation: Situation,
    schemes: Sequence[str] | None = None,
    protections: Sequence[str] | None = None,
    effort: Effort | None = None,
    *,
    at_values: bool = False,
) -> Answer:
    """Return the last of `answers`, without the first one, by closed forms."""
    stages = answers(
        situation,
        schemes,
        protections,
        effort or Effort(),
        at_values=at_values,
        is_first_shown=False,
    )
    *_, last = stages
    return last


def answers(
    situation: Situation,
    schemes: Sequence[str] | None,
    protections: Sequence[str] | None,
    effort: Effort,
    *,
    at_values: bool = False,
    is_first_shown: bool = True,
    on_done: OnDone = None,
) -> Iterator[Answer]:
    """Yield which scheme to take for a job: by closed forms, then after each stage of simulation.

    Parameters
    ----------
    situation : Situation
        The job.
    schemes, protections : sequence of str, optional
        The candidates; by default all for which the scenario states enough.
    effort : Effort
        How much to simulate.
    at_values : bool
        Whether all inputs have the values of the scenario: a design of one point.
    is_first_shown : bool
        Whether to yield an answer without rows, whose candidates over one protection are in the
        order of their closed forms, before anything is simulated.
    on_done : callable, optional
        Called after each run.

    Raises
    ------
    UserError, StrategyError, PlatformError
        If a name is unknown, or no requested scheme can be built.
    """
    ends_s = effort.ends_s()
    base = answer_base(situation, effort, at_values=at_values)
    if is_first_shown or ends_s < inf:
        quick = protections[:1] if protections else _FIRST_PROTECTIONS
        with suppress(OutOfTimeError), deadline(ends_s):
            base = replace(base, first=find_candidates(situation, schemes, quick).found)
    if is_first_shown:
        yield base
    candidates = None
    with suppress(OutOfTimeError), deadline(ends_s):
        if base.first and situation.gpus > _MANY_GPUS:
            warm_up(base.first[0].choices[0], _WARM_LIMIT * situation.ideal_s)
        candidates = find_candidates(situation, schemes, protections)
    if candidates is None:
        yield replace(base, is_last=True)
        return
    yield from race_answers(base, candidates, effort, ends_s, on_done)


def answer_base(situation: Situation, effort: Effort, *, at_values: bool) -> Answer:
    """Return an answer without candidates and worlds."""
    keys = () if at_values else tuple(priors_of(situation.scenario))
    return Answer(situation, keys, effort.worlds)


def race_answers(
    base: Answer, candidates: Candidates, effort: Effort, ends_s: float, on_done: OnDone
) -> Iterator[Answer]:
    """Yield the answer after each stage, until it is decided or the effort is spent.

    `base` is the answer without candidates, and `ends_s` the real time of its end, on the monotonic
    clock.
    """
    found, situation = candidates.found, base.situation
    if not found:
        yield replace(base, left_out=candidates.left_out, is_last=True)
        return
    steps = effort.steps or simulated_steps(found[0].choices[0].resolved)
    base = replace(base, steps=min(steps, situation.scenario.job.steps))
    schemes = list(dict.fromkeys(one.scheme for one in found))
    inputs = quantiles_of(base.keys, schemes, situation.mtbf_s)
    design = design_by_name(inputs, effort.worlds, effort.seed)
    race = Race(base, design, effort.seed, candidates, ends_s, on_done)
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
