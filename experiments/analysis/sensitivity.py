"""Uncertain inputs that decide between the advised candidate and its rivals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from faultline.experiments.analysis.design import Floats
from faultline.experiments.analysis.emulator import Emulator
from faultline.simulator.failures.random_streams import Purpose, stream
from SALib.analyze import sobol as sobol_analysis
from SALib.sample import sobol as sobol_sample

_BASE_SAMPLES = 512


@dataclass(frozen=True, slots=True)
class InputEffect:
    """The effect of one input on a quantity."""

    name: str  # The input.
    # Total-effect index: share of the variance that remains if all other inputs are known.
    total: float
    error: float  # Half the 95 % interval of the index, over samples of the emulator.


def total_effects(
    names: Sequence[str],
    function: Callable[[Floats], Floats],
    bounds: Floats | None = None,
    samples: int = _BASE_SAMPLES,
    seed: int = 0,
) -> list[InputEffect]:
    """Return total-effect indices of a function of independent uniform inputs, largest first.

    Saltelli et al. 2010, *Variance based sensitivity analysis of model output*, as in SALib.

    Parameters
    ----------
    names
        The inputs.
    function
        Maps inputs of shape (points, inputs) to values of shape (points,).
    bounds
        Least and greatest value of each input: shape (2, inputs); 0 and 1 by default.
    samples
        Base samples, a power of 2; each costs one evaluation per input, and one more.
    seed
        Seed of the scrambled sequence and of the intervals.
    """
    ranges = np.array([[0.0] * len(names), [1.0] * len(names)]) if bounds is None else bounds
    problem = {"num_vars": len(names), "names": list(names), "bounds": ranges.T.tolist()}
    number = int(stream(seed, Purpose.SENSITIVITY_SAMPLES).integers(2**31))
    points = sobol_sample.sample(problem, samples, calc_second_order=False, seed=number)
    # Rounding of SALib's scaling may leave the bounds by the last bit.
    values = function(np.clip(points, *ranges))
    if np.ptp(values) == 0.0:
        return [InputEffect(name, 0.0, 0.0) for name in names]
    found = sobol_analysis.analyze(problem, values, calc_second_order=False, seed=number)
    effects = [
        InputEffect(name, max(0.0, float(total)), float(error))
        for name, total, error in zip(names, found["ST"], found["ST_conf"], strict=True)
    ]
    return sorted(effects, key=lambda one: -one.total)


def decisive_effects(emulator: Emulator, first: str, seed: int = 0) -> dict[str, list[InputEffect]]:
    """Return the effects of inputs on the decision between a candidate and each rival.

    The quantity is the difference of logarithmic expected times, evaluated by the emulator of all
    candidates, from the advised candidate, `first`.
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
