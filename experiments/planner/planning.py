"""A plan: candidates, simulated in more and more worlds until one is decided.

A world is a point of a design over the uncertain inputs, with failures of its own; without
uncertain inputs worlds differ by their failures alone. After each stage, candidates that further
worlds can hardly make the answer are dropped: successive halving (Karnin, Koren & Somekh 2013,
*Almost optimal exploration in multi-armed bandits*) with common random numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from faultline.experiments.analysis.design import design_by_name
from faultline.experiments.config.priors import priors_of
from faultline.experiments.job.sampled_job import quantiles_of
from faultline.experiments.planner.answer import Answer
from faultline.experiments.planner.candidates import Candidate, find_candidates
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
    answer = None
    for answer in answers(
        situation,
        schemes,
        protections,
        effort or Effort(),
        at_values=at_values,
        on_first=on_first,
        on_done=on_done,
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
    on_first: Callable[[Sequence[Candidate]], None] | None = None,
    on_done: OnDone = None,
) -> Iterator[Answer]:
    """Yield the answer after each stage, until it is decided or the effort is spent."""
    ends_s = inf if effort.within_s is None else time.monotonic() + effort.within_s
    keys = () if at_values else tuple(priors_of(situation.scenario))
    nothing = Answer(situation, keys, (), (), None, (), 0, effort.worlds, 0, is_last=True)
    first: tuple[Candidate, ...] = ()
    try:
        with deadline(ends_s):
            if on_first is not None or ends_s < inf:
                quick = protections[:1] if protections else _FIRST_PROTECTIONS
                first = find_candidates(situation, schemes, quick).found
            if on_first is not None:
                on_first(first)
            if first and situation.gpus > _MANY_GPUS:
                warm_up(first[0].choices[0], _WARM_LIMIT * situation.ideal_s)
            candidates = find_candidates(situation, schemes, protections)
    except OutOfTimeError:
        yield replace(nothing, first=first)
        return
    found = candidates.found
    if not found:
        yield replace(nothing, left_out=candidates.left_out)
        return
    names = list(dict.fromkeys(one.choices[0].scheme for one in found))
    design = design_by_name(quantiles_of(keys, names, situation.mtbf_s), effort.worlds, effort.seed)
    steps = min(
        effort.steps or simulated_steps(found[0].choices[0].resolved), situation.scenario.job.steps
    )
    race = Race(situation, keys, design, steps, effort.seed, candidates, ends_s, on_done)
    worlds = min(FIRST_WORLDS, effort.worlds)
    while True:
        race.advance(worlds)
        answer = replace(race.answer(), most_worlds=effort.worlds, first=first)
        is_last = worlds >= effort.worlds or answer.is_decided or race.is_late or not answer.rows
        yield replace(answer, is_last=is_last)
        if is_last:
            return
        race.drop()
        worlds = min(2 * worlds, effort.worlds)
