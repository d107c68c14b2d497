"""Decision under uncertain inputs: the candidate to choose, its certainty, the input to measure.

A cost is a time to train in seconds, or the cap of a run that has not ended by then. The cost of a
candidate at a sample is its mean over seeds. Costs of different samples differ by the inputs.
Samples are the independent units of all errors. Candidates share seeds, so their differences are
paired. The terms are those of Raiffa & Schlaifer 1961, *Applied Statistical Decision Theory*:
opportunity loss (here regret) and value of information.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from faultline.experiments.analysis.design import Floats, SimulatedCosts
from faultline.experiments.analysis.intervals import (
    Interval,
    interval_of,
    interval_of_proportion,
)
from numpy.polynomial import legendre

BAND = (0.1, 0.9)
"""Quantiles of an 80 % band."""

INDIFFERENCE = 0.01
"""Share of a time to train below which two candidates count as equal."""

_DEGREE = 3  # Degree of the polynomials of cost over one input.
_FOLDS = 8


@dataclass(frozen=True, slots=True)
class Bands:
    """The time to train of one candidate, in seconds."""

    mean: float  # Expected time.
    # 80 % band of one run: unknown inputs and luck together.
    low: float
    high: float
    input_share: float  # Share of the variance that is due to unknown inputs; the rest is luck.


@dataclass(frozen=True, slots=True)
class Judgement:
    """The assessment of one candidate; times in seconds."""

    candidate: str
    best: Interval  # Probability of being the best.
    within: Interval  # Probability of being within `INDIFFERENCE` of the best.
    regret: Interval  # Expected excess over the best candidate in hindsight.
    # The same in the samples in which it is not within `INDIFFERENCE`; None if it always is.
    loss_if_wrong: float | None
    bands: Bands
    capped: float  # Share of samples in which a run counts as the cap.
    tied: bool  # Whether the data do not separate it from the first candidate.


@dataclass(frozen=True, slots=True)
class Information:
    """The value of knowing one input before choosing."""

    name: str
    value: Interval  # Reduction of the expected regret, in seconds.


def judge(costs: SimulatedCosts) -> list[Judgement]:
    """Return all candidates, the advised one first: it has the least expected cost.

    Candidates with equal costs share a sample equally. If all candidates are capped at a sample,
    none has a regret there: no choice would help.
    """
    means: Floats = costs.costs.mean(axis=2)
    least = means.min(axis=0)
    regrets, best = means - least, means == least
    best_shares = best / best.sum(axis=0)
    within = means <= (1.0 + INDIFFERENCE) * least
    capped = costs.capped.any(axis=2).mean(axis=1)
    order = means.mean(axis=1).argsort(kind="stable")
    return [
        Judgement(
            costs.candidates[place],
            _proportion(best_shares[place]),
            _proportion(within[place].astype(float)),
            interval_of(regrets[place].tolist()),
            None if within[place].all() else float(regrets[place][~within[place]].mean()),
            _bands(costs.costs[place], costs.simulated_share, bool(costs.design.names)),
            float(capped[place]),
            is_tied(means[place], means[order[0]]),
        )
        for place in order
    ]


def _proportion(shares: Floats) -> Interval:
    """Return a mean of shares; its interval has a positive width even if all are 0 or all are 1."""
    mean = float(shares.mean())
    return Interval(mean, *interval_of_proportion(float(shares.sum()), len(shares)))


def _bands(runs: Floats, simulated_share: float, has_inputs: bool) -> Bands:
    """Return the bands of a candidate's runs of shape (samples, seeds): unknown inputs and luck.

    Notes
    -----
    Law of total variance of the logarithm of the time T: var T = var E[T | inputs] + E var[T |
    inputs]. A mean over S seeds keeps 1 / S of the luck. A run that simulates a share of the job
    has fewer failures, so its luck is larger than the job's by 1 / sqrt(share). So both the means
    over seeds and the rests are shrunk to the variance that whole jobs would have; runs of the
    whole job stay as they are. A whole job's time is a sum of such runs, so its luck is around
    their mean, not around that of their logarithms. With one seed, all of the spread counts as that
    of the inputs. Logarithms keep bands positive, and no end is beyond the simulated runs.
    """
    # Without inputs all samples are luck.
    seen = runs if has_inputs else runs.reshape(1, -1)
    logs, share = np.log(seen), simulated_share
    means = logs.mean(axis=1, keepdims=True)
    whole = float(means.var())
    within = float(logs.var(axis=1, ddof=1).mean()) if seen.shape[1] > 1 else 0.0
    of_mean = within / seen.shape[1]
    between = max(0.0, whole - of_mean)
    shrinking = sqrt(min(1.0, (between + share * of_mean) / whole)) if whole else 0.0
    total = between + share * within
    levels = share * means + (1.0 - share) * np.log(seen.mean(axis=1, keepdims=True))
    jobs = levels.mean() + shrinking * (levels - levels.mean()) + sqrt(share) * (logs - means)
    low, high = np.clip(np.exp(np.quantile(jobs, BAND)), runs.min(), runs.max())
    input_share = between / total if total else float(has_inputs)
    return Bands(float(runs.mean()), float(low), float(high), input_share)


def is_tied(row: Floats, first: Floats) -> bool:
    """Return whether samples do not separate costs from the first's: both of shape (samples,).

    They tie if the difference is at most `INDIFFERENCE` of the first's expected cost. They also tie
    if the paired interval of their mean difference contains 0, unless the row is surely later at
    most samples. A few very late samples widen that interval, and are no reason for a tie.
    """
    lead = interval_of((row - first).tolist())
    if abs(lead.mean) <= INDIFFERENCE * float(first.mean()):
        return True
    later = float((row > first).sum()) + 0.5 * float((row == first).sum())
    least_share, _ = interval_of_proportion(later, len(row))
    return lead.low <= 0.0 <= lead.high and least_share <= 0.5


def is_close(lead: Interval, first: float) -> bool:
    """Return whether a lead is surely less than `INDIFFERENCE` of the first's expected cost."""
    return -INDIFFERENCE * first < lead.low and lead.high < INDIFFERENCE * first


def value_of_information(costs: SimulatedCosts) -> list[Information]:
    """Return the value of knowing each input exactly, the greatest first; none for one candidate.

    If an input is known, the candidate of the least cost given its value is chosen. That cost is a
    polynomial of the input's quantile, fitted to the differences from the advised candidate. The
    choice for a sample uses a fit without it, and is judged by that sample's own costs. So an input
    without effect has a value of 0 up to its interval, and no positive bias.

    Notes
    -----
    Regression on the samples after Strong, Oakley & Brennan 2014, *Estimating multiparameter
    partial expected value of perfect information from a probabilistic sensitivity analysis sample*,
    Medical Decision Making 34(3). Cross-fitting replaces their correction of the bias. A value is
    reported as at least 0: information can be ignored.
    """
    means: Floats = costs.costs.mean(axis=2)
    if len(means) < 2:
        return []
    advised = int(means.mean(axis=1).argmin())
    extra = (means - means[advised]).T
    found = []
    for name, unit in zip(costs.design.names, costs.design.unit.T, strict=True):
        value = interval_of(_saved(unit, extra).tolist())
        # Information can be ignored, so its value is never negative.
        mean, high = max(0.0, value.mean), max(0.0, value.high)
        found.append(Information(name, Interval(mean, value.low, high)))
    return sorted(found, key=lambda one: -one.value.mean)


def _saved(unit: Floats, extra: Floats) -> Floats:
    """Return the seconds saved in each sample by choosing with one input's quantile known.

    Extra costs are differences from the advised candidate's: shape (samples, candidates).
    """
    saved = np.empty(len(unit))
    powers = legendre.legvander(2.0 * unit - 1.0, _DEGREE)
    # Neighbouring values are left out in different folds.
    folds = unit.argsort(kind="stable").argsort(kind="stable") % _FOLDS
    for fold in range(_FOLDS):
        out = folds == fold
        factors, *_ = np.linalg.lstsq(powers[~out], extra[~out], rcond=None)
        saved[out] = -extra[out, (powers[out] @ factors).argmin(axis=1)]
    return saved
