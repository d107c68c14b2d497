"""Simulates the leading schemes of a plan over the priors of its uncertain inputs.

An operator chooses before the inputs are known. So each scheme has one protection, one moment of
return, one redundancy and one interval, those of the least expected cost over the priors. All
schemes are tuned with the same effort, and then run at the same samples with the same failures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from faultline.experiments.analysis.design import (
    Design,
    Floats,
    SimulatedCosts,
    design_by_name,
)
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.priors import UncertainKey, priors_of
from faultline.experiments.figures.palette import look_of
from faultline.experiments.job.choices import Choice, at_complete_snapshots, choices_for
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.sampled_job import at_sample, chosen_as, quantiles_of
from faultline.experiments.planner.plan import Line, RankedPlan
from faultline.experiments.planner.situation import Situation, choices_like
from faultline.experiments.planner.verification import run_points
from faultline.experiments.runs.point import Point

SAMPLES = 64
"""Samples of the inputs, unless the user states another number."""

QUICK_SAMPLES = 16
"""The same for a quick plan."""

SEEDS = 2
"""Runs of a choice at each sample: two separate luck from unknown inputs."""

LEADING = 1.5
"""Schemes that the plan finds within this factor of its soonest choice are simulated."""

MOST_SCHEMES = 10

BEYOND = f"{LEADING:g} times the soonest and more at the scenario's values"
BEHIND = "slower without failures than the first with them, at every sample"
"""Why schemes are not simulated."""

RIVALLING = 1.1
"""Protections that the plan finds within this factor of their scheme's soonest are tuned."""

INTERVAL_FACTORS = (0.4, 0.5, 0.63, 0.8, 1.0, 1.25, 1.6, 2.0, 2.5)
"""Intervals that are tried for each redundancy, over the best at the point values."""

_TUNING_SAMPLES = 32
_SCREENING_SAMPLES = 16
_SCREENING_SEED = 1_000_000
"""First seed of the runs that decide between protections; others judge the scheme later."""

_FAILURES_WANTED = 100
_MOST_STEPS = 50_000
"""A simulated job has so many failures at the point values, and at most so many steps.

A plan at one point needs more: here 128 runs of a choice count together.
"""

GIVE_UP = 20.0
"""A run is stopped at this multiple of the undisturbed time, which is a lower bound of its own."""

OnDone = Callable[[], None] | None


@dataclass(frozen=True, slots=True)
class OverPriors:
    """Costs of the leading schemes of a plan over its priors.

    Attributes
    ----------
    choices : tuple of Choice
        Each scheme as it is tuned, in the order of the candidates of `costs`; predictions are those
        at the point values.
    keys : tuple of UncertainKey
        The uncertain keys.
    costs : SimulatedCosts
        Times to train, in seconds of the whole job.
    left_out : dict of str to str
        Why other schemes of the plan were not simulated, by their names.
    """

    choices: tuple[Choice, ...]
    keys: tuple[UncertainKey, ...]
    costs: SimulatedCosts
    left_out: dict[str, str]


def simulate_over_priors(
    plan: RankedPlan, samples: int, on_done: OnDone = None, seed: int = 0
) -> OverPriors | None:
    """Tune the leading schemes of a plan for its priors, and simulate them at samples of these.

    None if no choice of the plan finishes at the point values.

    Parameters
    ----------
    plan : RankedPlan
        A verified plan.
    samples : int
        Number of samples.
    on_done : callable, optional
        Called after each run.
    seed : int
        Seed of the samples.
    """
    rivals = leading_lines(plan)
    if not rivals:
        return None
    situation, keys = plan.situation, tuple(priors_of(plan.situation.scenario))
    schemes = [lines[0].choice.scheme for lines in rivals]
    design = design_by_name(quantiles_of(keys, schemes, situation.mtbf_s), samples, seed)
    steps = simulated_steps(rivals[0][0].choice.resolved)
    first, *others = tuned_schemes(situation, rivals, design)
    choices = best_of_protections([first], design, steps, on_done)
    ratios = simulated_ratios(choices, design, steps, SEEDS, 0, on_done)
    # Their simulation may be the dearest: each new state of a scheme is measured on the platform.
    ahead = [[choice for choice in of if not is_behind(choice, ratios)] for of in others]
    left_out = {of[0].scheme: BEHIND for of, left in zip(others, ahead, strict=True) if not left}
    choices += best_of_protections([of for of in ahead if of], design, steps, on_done)
    ratios = np.concatenate(
        [ratios, simulated_ratios(choices[1:], design, steps, SEEDS, 0, on_done)]
    )
    labels = tuple(look_of(choice.scheme).label for choice in choices)
    share = steps / situation.scenario.job.steps
    ideal_s = situation.ideal_s
    costs = SimulatedCosts(labels, design, ratios * ideal_s, share, GIVE_UP * ideal_s)
    return OverPriors(tuple(choices), keys, costs, left_out | _beyond(plan, schemes))


def _beyond(plan: RankedPlan, leading: Sequence[str]) -> dict[str, str]:
    """Return the schemes that the plan finds too slow at the scenario's values."""
    finished = {line.choice.scheme for line in plan.lines if line.finished}
    return dict.fromkeys(sorted(finished - {*leading}), BEYOND)


def is_behind(choice: Choice, first: Floats) -> bool:
    """Return whether a scheme is slower without failures than the first with them, everywhere.

    Its simulation is not needed, however the samples turn out.

    Parameters
    ----------
    choice : Choice
        A scheme as it is tuned.
    first : ndarray of float
        Simulated ratios of the first scheme.
    """
    resolved = choice.resolved
    least = resolved.strategy().step_s(resolved.costs()) / resolved.ideal_step_s
    return bool((first < least).all())


def leading_lines(plan: RankedPlan) -> list[list[Line]]:
    """Return the lines of each scheme that finishes near the plan's soonest choice.

    A scheme has its best lines over each protection and moment of return, the soonest first; those
    of more than `RIVALLING` times its soonest are left out. At most `MOST_SCHEMES` schemes, the
    soonest first.
    """
    finished = [line for line in plan.lines if line.finished and line.is_best]
    soonest = min((line.ratio for line in finished), default=inf)
    lines: dict[str, list[Line]] = {}
    for line in sorted(finished, key=lambda line: line.ratio):
        of_scheme = lines.setdefault(line.choice.scheme, [])
        if line.ratio <= (RIVALLING * of_scheme[0].ratio if of_scheme else LEADING * soonest):
            of_scheme.append(line)
    return [of_scheme for of_scheme in lines.values() if of_scheme][:MOST_SCHEMES]


def tuned_schemes(
    situation: Situation, rivals: Sequence[Sequence[Line]], design: Design
) -> list[list[Choice]]:
    """Return the tuned choices of each scheme, one per line."""
    return [
        [tune(_tuned_by_closed_forms(situation, line.choice), design) for line in of_scheme]
        for of_scheme in rivals
    ]


def _tuned_by_closed_forms(situation: Situation, choice: Choice) -> list[Choice]:
    """Return the redundancies that closed forms compare: one alone if groups return."""
    choices = choices_like(situation, choice)
    if not choice.returns_groups:
        return choices
    return [one for one in choices if one.redundancy == choice.redundancy]


def best_of_protections(
    tuned: Sequence[Sequence[Choice]], design: Design, steps: int, on_done: OnDone = None
) -> list[Choice]:
    """Return each scheme's choice of the least expected cost, by simulations of a few samples.

    Parameters
    ----------
    tuned : sequence of sequence of Choice
        The choices of each scheme; a scheme with one has no simulation.
    design : Design
        The samples.
    steps : int
        Steps of simulated jobs.
    on_done : callable, optional
        Called after each run.
    """
    contested = [choice for of in tuned if len(of) > 1 for choice in of]
    screened = design.first(_SCREENING_SAMPLES)
    ratios = simulated_ratios(contested, screened, steps, 1, _SCREENING_SEED, on_done)
    found = ratios.mean(axis=(1, 2))
    expected = {id(choice): ratio for choice, ratio in zip(contested, found, strict=True)}
    return [min(of, key=lambda choice: expected.get(id(choice), 0.0)) for of in tuned]


def tune(choices: Sequence[Choice], design: Design) -> Choice:
    """Return the redundancy and interval of the least expected cost by closed forms.

    Parameters
    ----------
    choices : sequence of Choice
        All redundancies of a scheme over a protection, at their best intervals at the point values.
    design : Design
        The samples.
    """
    settings = [
        at_complete_snapshots(choice.resolved, max(1, round(factor * choice.interval_steps)))
        for choice in choices
        for factor in (INTERVAL_FACTORS if _interval_is_open(choice.resolved) else (1.0,))
    ]
    samples = min(_TUNING_SAMPLES, len(design))
    costs = [_predicted(settings, design.sample(sample)) for sample in range(samples)]
    best = settings[int(np.mean(costs, axis=0).argmin())]
    return choices_for(best, [best])[0]


def _interval_is_open(resolved: ResolvedJob) -> bool:
    scenario = resolved.scenario
    if resolved.snapshot_interval_steps:
        return scenario.protection.interval_steps is None
    return scenario.checkpoint.interval_steps is None and scenario.checkpoint.policy == "fixed"


def _predicted(settings: Sequence[ResolvedJob], sample: Mapping[str, float]) -> list[float]:
    """Return the ratios of settings of one scheme and protection at a sample, by closed forms."""
    try:
        job = at_sample(settings[0], sample)
    except UserError:
        return [GIVE_UP] * len(settings)
    predicted = choices_for(job, [chosen_as(job, setting) for setting in settings])
    return [min(choice.ratio, GIVE_UP) for choice in predicted]


def simulated_steps(resolved: ResolvedJob) -> int:
    """Return the steps of a simulated job: enough for about 100 failures at the point values."""
    wanted = _FAILURES_WANTED * resolved.failures.mtbf_s / resolved.ideal_step_s
    return max(1, min(resolved.scenario.job.steps, round(wanted), _MOST_STEPS))


def simulated_ratios(
    choices: Sequence[Choice],
    design: Design,
    steps: int,
    seeds: int,
    first_seed: int,
    on_done: OnDone = None,
) -> Floats:
    """Return simulated ratios, at most `GIVE_UP`: shape (choices, samples, seeds).

    A run that is stopped there or gives up has that ratio, and so has a job that is refused at a
    sample, as its restarts would never end.

    Parameters
    ----------
    choices : sequence of Choice
        Schemes as they are tuned.
    design : Design
        The samples.
    steps : int
        Steps of a simulated job.
    seeds : int
        Runs of each choice at each sample.
    first_seed : int
        Seed of the first sample's first run; all choices have the same failures.
    on_done : callable, optional
        Called after each run.
    """
    tasks, places = [], []
    for row, choice in enumerate(choices):
        for sample in range(len(design)):
            try:
                job = at_sample(choice.resolved, design.sample(sample))
            except UserError:
                continue
            short = job.shortened(steps, GIVE_UP * steps * choice.resolved.ideal_step_s)
            for run in range(seeds):
                tasks.append(Point.of(short, first_seed + seeds * sample + run))
                places.append((row, sample, run))
    ratios = np.full((len(choices), len(design), seeds), GIVE_UP)
    for place, record in zip(places, run_points(tasks, on_done), strict=True):
        ratios[place] = _ratio(record)
    return ratios


def _ratio(record: Mapping[str, Any]) -> float:
    finished = record["completed_steps"] >= record["steps"]
    return min(float(record["time_to_train_ratio"]), GIVE_UP) if finished else GIVE_UP
