"""What closed forms say of a candidate, where it has them."""

from __future__ import annotations

from math import nan

from faultline.experiments.job.protected import Protected
from faultline.simulator.failures.distributions import Exponential
from faultline.simulator.job import Durations
from faultline.strategies.base import Strategy
from faultline.strategies.checkpoint_period import Costs
from faultline.strategies.closed_forms.course import Predictable
from faultline.strategies.closed_forms.lifetimes import GroupLifetimes
from faultline.strategies.closed_forms.prediction import StepCosts, predict


def closed_form_ratio(
    strategy: Strategy,
    protected: Protected,
    interval_steps: int,
    costs: Costs,
    durations: Durations,
    jitter: float,
    steps: int,
) -> float:
    """Return the predicted time to train over that without failures (`prediction.predict`).

    Groups fail each by itself, memoryless: so they do here, as neither a GPU nor a domain is shared
    by two groups. NaN where there is no closed form: for a scheme that goes on with broken groups,
    for one that masks failures, as spares take the places of groups that it dropped, and for a
    state that is saved after the failure; and where it does not hold: for a job of fewer than
    `LEAST_LIVES` lives, or of lives that keep fewer than `LEAST_KEPT` checkpoints
    (`Prediction.holds_for`).

    Parameters
    ----------
    strategy : Strategy
        The scheme at its start.
    protected : Protected
        How the state is kept; where that is in memory, snapshots take the place of checkpoints.
    interval_steps : int
        Steps between two checkpoints on storage.
    costs : Costs
        Of the job, with checkpoints on storage.
    durations : Durations
        Times of the phases.
    jitter : float
        Standard deviation of compute times, relative to their mean.
    steps : int
        Steps of the job.
    """
    if strategy.tracks_components or not isinstance(strategy, Predictable):
        return nan
    saves_ahead = not protected.in_background or protected.snapshot_interval_steps > 0
    if strategy.failure_course().law.mean_failures > 1.0 or not saves_ahead:
        return nan
    met = protected.costs_of_memory(costs) if protected.in_background else costs
    lifetimes = GroupLifetimes(
        strategy.groups, Exponential(costs.mtbf_s * strategy.groups).survival
    )
    failed_s = costs.all_reduce_s + durations.reconfigure_s(strategy.groups)
    prediction = predict(
        strategy.failure_course(),
        lifetimes,
        met,
        StepCosts(jitter=jitter, failed_all_reduce_s=failed_s),
        protected.kept_every_steps(interval_steps),
    )
    return prediction.ratio_of_job(steps)
