"""Which uncertain inputs decide between the advised candidate and its rivals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from faultline.experiments.analysis.decision import expected_costs, finishing
from faultline.experiments.analysis.design import Floats, SimulatedCosts
from faultline.experiments.analysis.emulator import Emulator
from faultline.simulator.random_streams import Purpose, stream
from SALib.analyze import sobol as sobol_analysis
from SALib.sample import sobol as sobol_sample
from scipy.stats import ks_2samp

_BASE_SAMPLES = 512
_LEAST_SIDE = 8


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one input on a quantity.

    Attributes
    ----------
    name
        The input.
    total
        Total-effect index: share of the variance that remains if all other inputs are known.
    error
        Half the 95 % interval of the index, over samples of the emulator.
    """

    name: str
    total: float
    error: float


@dataclass(frozen=True, slots=True)
class Separation:
    """How differently an input is distributed where the first is best and where it is not.

    Attributes
    ----------
    distance
        Kolmogorov and Smirnov's: 0, equal distributions; 1, the input alone decides.
    probability
        Of such a distance or a larger one, if the input had no effect.
    """

    name: str
    distance: float
    probability: float


def total_effects(
    names: Sequence[str],
    function: Callable[[Floats], Floats],
    bounds: Floats | None = None,
    samples: int = _BASE_SAMPLES,
    seed: int = 0,
) -> list[Effect]:
    """Return total-effect indices of a function of independent uniform inputs, largest first.

    Saltelli et al. 2010, *Variance based sensitivity analysis of model output*, as in SALib.

    Parameters
    ----------
    names
        The inputs.
    function
        From inputs of shape (points, inputs) to values of shape (points,).
    bounds
        Least and greatest value of each input: shape (2, inputs); 0 and 1 by default.
    samples
        Base samples, a power of 2; each costs as many evaluations as there are inputs, and one.
    seed
        Of the scrambled sequence and of the intervals.
    """
    ranges = np.array([[0.0] * len(names), [1.0] * len(names)]) if bounds is None else bounds
    problem = {"num_vars": len(names), "names": list(names), "bounds": ranges.T.tolist()}
    number = int(stream(seed, Purpose.SENSITIVITY_SAMPLES).integers(2**31))
    points = sobol_sample.sample(problem, samples, calc_second_order=False, seed=number)
    # Rounding of SALib's scaling may leave the bounds by the last bit.
    values = function(np.clip(points, *ranges))
    if np.ptp(values) == 0.0:
        return [Effect(name, 0.0, 0.0) for name in names]
    found = sobol_analysis.analyze(problem, values, calc_second_order=False, seed=number)
    effects = [
        Effect(name, max(0.0, float(total)), float(error))
        for name, total, error in zip(names, found["ST"], found["ST_conf"], strict=True)
    ]
    return sorted(effects, key=lambda one: -one.total)


def decisive_effects(emulator: Emulator, first: str, seed: int = 0) -> dict[str, list[Effect]]:
    """Return what decides between a candidate and each rival.

    The quantity is the difference of logarithmic expected times, evaluated by the emulator.

    Parameters
    ----------
    emulator
        Of all candidates.
    first
        The advised candidate.
    seed
        Of the evaluated points.
    """
    place = emulator.candidates.index(first)

    def difference_from(rival: int) -> Callable[[Floats], Floats]:
        def difference(unit: Floats) -> Floats:
            logs = emulator.log_times(unit)
            lead: Floats = logs[rival] - logs[place]
            return lead

        return difference

    return {
        name: total_effects(emulator.names, difference_from(rival), emulator.range, seed=seed)
        for rival, name in enumerate(emulator.candidates)
        if rival != place
    }


def separations(costs: SimulatedCosts, first: str) -> list[Separation]:
    """Return how well each input alone separates the samples in which a candidate is the best.

    The regional sensitivity analysis of Spear & Hornberger 1980, *Eutrophication in Peel Inlet II*:
    the two-sample test of Kolmogorov and Smirnov for each input. It is empty if the candidate is
    the best, or is not, in fewer than 8 samples.
    """
    usable = finishing(costs)
    means = expected_costs(usable)
    best = means[usable.candidates.index(first)] <= means.min(axis=0)
    if min(best.sum(), (~best).sum()) < _LEAST_SIDE:
        return []
    found = []
    for name, column in zip(costs.design.names, costs.design.unit.T, strict=True):
        test = ks_2samp(column[best], column[~best])
        found.append(Separation(name, float(test.statistic), float(test.pvalue)))
    return sorted(found, key=lambda one: -one.distance)
