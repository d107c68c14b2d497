"""Simulates the leading choices of a plan over the priors of its uncertain inputs.

Each choice keeps the redundancy and the interval that the plan chose: an operator chooses before
the inputs are known. All choices have the same samples and the same failures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from typing import Any

import numpy as np
from faultline.experiments.analysis.design import Design, Quantile, SimulatedCosts, sobol_design
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import path_of, value_at
from faultline.experiments.config.priors import UncertainKey, priors_of
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.uncertain import Prior
from faultline.experiments.job.choices import at_interval
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.job.failure_model import failure_model
from faultline.experiments.job.resolved_job import ResolvedJob, resolve
from faultline.experiments.planner.plan import Line, Plan
from faultline.experiments.planner.verification import run_points
from faultline.experiments.runs.point import Point
from numpy.typing import NDArray

SEEDS = 2
"""Runs of a choice at each sample: two separate luck from unknown inputs."""

LEADING = 1.5
"""Choices that the plan finds within this factor of its soonest one are simulated."""

MOST_CHOICES = 10

_FAILURES_WANTED = 200
"""Failures of a simulated job at the point values; a sample needs fewer than a plan."""

_GIVE_UP = 20.0
"""A run is stopped at this multiple of the undisturbed time, and counts as not finished."""

_MTBF = "failures.mtbf_s"


@dataclass(frozen=True, slots=True)
class OverPriors:
    """Costs of the leading choices of a plan over its priors.

    Attributes
    ----------
    lines : tuple of Line
        The choices, in the order of the candidates of `costs`.
    keys : tuple of UncertainKey
        The uncertain keys.
    costs : SimulatedCosts
        Times to train, in seconds of the whole job.
    """

    lines: tuple[Line, ...]
    keys: tuple[UncertainKey, ...]
    costs: SimulatedCosts


def leading_lines(plan: Plan) -> tuple[Line, ...]:
    """Return each scheme's soonest choice if it finishes near the plan's soonest one.

    At most `MOST_CHOICES`. A UserError if none finishes.
    """
    finished = [line for line in plan.first_of_schemes() if line.finished]
    if not finished:
        raise UserError("--priors: no choice finishes the job at the values of the scenario")
    soonest = min(line.ratio for line in finished)
    near = [line for line in finished if line.ratio <= LEADING * soonest]
    return tuple(near[:MOST_CHOICES])


def simulate_over_priors(
    plan: Plan, samples: int, on_done: Callable[[], None] | None = None, seed: int = 0
) -> OverPriors:
    """Simulate the leading choices at samples of the priors.

    Parameters
    ----------
    plan : Plan
        A verified plan.
    samples : int
        Number of samples.
    on_done : callable, optional
        Called after each run.
    seed : int
        Seed of the samples.

    Raises
    ------
    UserError
        If no choice of the plan finishes, or a sample has impossible values.
    """
    lines, keys = leading_lines(plan), tuple(priors_of(plan.situation.scenario))
    schemes = [line.choice.scheme for line in lines]
    design = sobol_design(_inputs(keys, schemes, plan.situation.mtbf_s), samples, seed)
    steps = _steps(lines[0].choice.question)
    tasks = [
        Point.of(job, SEEDS * sample + run)
        for line in lines
        for sample in range(samples)
        for job in [_at_sample(line, design, sample, steps)]
        for run in range(SEEDS)
    ]
    records = run_points(tasks, on_done)
    ratios = np.array([_ratio(record) for record in records])
    costs = ratios.reshape(len(lines), samples, SEEDS) * plan.situation.ideal_s
    return OverPriors(lines, keys, SimulatedCosts(tuple(schemes), design, costs))


def _steps(question: ResolvedJob) -> int:
    wanted = _FAILURES_WANTED * question.failures.mtbf_s / question.ideal_step_s
    return max(1, min(question.scenario.job.steps, round(wanted)))


def _inputs(
    keys: Sequence[UncertainKey], schemes: Sequence[str], mtbf_s: float
) -> dict[str, Quantile]:
    """Return the quantile function of each input; a key of each scheme is one input per scheme."""
    inputs: dict[str, Quantile] = {}
    for key in keys:
        factor = mtbf_s if key.times and key.dotted == _MTBF else 1.0
        names = [_own(key.dotted, scheme) for scheme in schemes] if key.each_scheme else []
        for name in names or [key.dotted]:
            inputs[name] = partial(_scaled, key.prior, factor)
    return inputs


def _scaled(prior: Prior, factor: float, share: NDArray[np.float64]) -> NDArray[np.float64]:
    return factor * prior.quantile(share)


def _own(dotted: str, scheme: str) -> str:
    return f"{dotted} of {scheme}"


def _at_sample(line: Line, design: Design, sample: int, steps: int) -> ResolvedJob:
    """Return the shortened job of a choice at one sample."""
    question, choice = line.choice.question, line.choice
    values = _of_scheme(design.sample(sample), choice.scheme)
    scenario = with_values(question.scenario, {**values, "strategy.redundancy": choice.redundancy})
    durations = replace(
        question.durations, recovery=recovery_prices(scenario, question.durations.save_s)
    )
    changed = at_interval(resolve(scenario, durations), choice.interval_steps)
    return changed.shortened(steps, _GIVE_UP * steps * question.ideal_step_s)


def _of_scheme(values: Mapping[str, float], scheme: str) -> dict[str, float]:
    """Return the values by keys: of a key that each scheme has of its own, the scheme's."""
    common = {name: value for name, value in values.items() if " of " not in name}
    own = {
        name.removesuffix(f" of {scheme}"): value
        for name, value in values.items()
        if name.endswith(f" of {scheme}")
    }
    return common | own


def with_values(scenario: Scenario, values: Mapping[str, object]) -> Scenario:
    """Return a scenario with other values of some keys; whole numbers stay whole.

    A mean time between failures scales the rates of a failure mix.
    """
    changed: Any = scenario
    if _MTBF in values and scenario.failures.model == "mix":
        changed = _with(changed, ("failures", "rate"), "mtbf")
    for dotted, value in values.items():
        path = path_of(dotted)
        is_whole = isinstance(value_at(scenario, path), int) and isinstance(value, float)
        changed = _with(changed, path, round(value) if is_whole else value)  # type: ignore[call-overload]
    assert isinstance(changed, Scenario)
    failure_model(changed)
    return changed


def _with(table: Any, path: tuple[str, ...], value: object) -> Any:
    first, *rest = path
    inner = _with(getattr(table, first), tuple(rest), value) if rest else value
    return table.model_copy(update={first: inner})


def _ratio(record: Mapping[str, Any]) -> float:
    finished = record["completed_steps"] >= record["steps"]
    return float(record["time_to_train_ratio"]) if finished else nan
