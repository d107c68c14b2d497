"""A scrambled Sobol design, which covers few inputs together evenly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from faultline.experiments.analysis.design import Design, Quantile
from scipy.stats import qmc


def sobol_design(inputs: Mapping[str, Quantile], samples: int, seed: int) -> Design:
    """Return a scrambled Sobol design; with 2^k samples each half of an input has half of them.

    The values of an input depend only on its position and on the scrambling seed, not on the names
    of the inputs.
    """
    names = tuple(inputs)
    if not names:
        nothing = np.empty((samples, 0))
        return Design(names, nothing, nothing)
    exponent = max(0, (samples - 1).bit_length())
    sampler = qmc.Sobol(len(names), scramble=True, seed=np.random.default_rng(seed))
    unit = np.clip(sampler.random_base2(exponent)[:samples], 2.0**-33, 1.0 - 2.0**-33)
    columns = [quantile(unit[:, place]) for place, quantile in enumerate(inputs.values())]
    return Design(names, unit, np.column_stack(columns))
