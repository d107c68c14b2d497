"""A design of experiments over uncertain inputs, and the candidates' costs on it.

A design draws each input by its name: a progressive Latin hypercube (Sheikholeslami & Razavi 2017,
*Progressive Latin hypercube sampling*). A mean over it is unbiased.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
from faultline.simulator.failures.mix import stream_index
from faultline.simulator.failures.random_streams import Purpose, stream
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Quantile = Callable[[Floats], Floats]
"""Maps probabilities to values of an input."""

_LEAST = 2.0**-33


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Samples of uncertain inputs; both arrays have the shape (samples, inputs)."""

    names: tuple[str, ...]  # The inputs.
    unit: Floats  # Probabilities between 0 and 1, both excluded.
    values: Floats  # Input values at these probabilities, in the units of the inputs.

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.unit)

    def sample(self, number: int) -> dict[str, float]:
        """Return the values of one sample by the names of the inputs."""
        return dict(zip(self.names, map(float, self.values[number]), strict=True))

    def only(self, names: Container[str]) -> Design:
        """Return the design of some of the inputs."""
        kept = [place for place, name in enumerate(self.names) if name in names]
        chosen = tuple(self.names[place] for place in kept)
        return Design(chosen, self.unit[:, kept], self.values[:, kept])

    def scaled(self, name: str, factor: float) -> Design:
        """Return the design with the values of an input, if it has the input, times a factor."""
        factors = [factor if each == name else 1.0 for each in self.names]
        return Design(self.names, self.unit, self.values * factors)

    def first(self, samples: int) -> Design:
        """Return the design of the first samples, which cover the inputs too."""
        return Design(self.names, self.unit[:samples], self.values[:samples])


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedCosts:
    """The cost of each candidate at each sample of a design, for several seeds of the failures."""

    candidates: tuple[str, ...]
    design: Design  # The samples.
    # Time to train, in seconds: shape (candidates, samples, seeds). All candidates have the same
    # failures at a sample and seed.
    costs: Floats
    # Share of the job that a run simulates. Its luck is that of a shorter job.
    simulated_share: float = 1.0
    # The cap, in seconds: the cost of a run that has not ended by then, or never does.
    cap_s: float = inf

    @property
    def capped(self) -> NDArray[np.bool_]:
        """Whether each run counts as the cap: the shape of `costs`."""
        return self.costs >= self.cap_s


def design_by_name(inputs: Mapping[str, Quantile], samples: int, seed: int) -> Design:
    """Return a design in which an input has the same values whatever the other inputs are.

    The first 2^k samples have one value in each of 2^k equal parts of an input's probabilities.
    """
    names = tuple(inputs)
    if not names:
        nothing = np.empty((samples, 0))
        return Design(names, nothing, nothing)
    columns = [_progressive(samples, seed, name) for name in names]
    values = [inputs[name](unit) for name, unit in zip(names, columns, strict=True)]
    return Design(names, np.column_stack(columns), np.column_stack(values))


def _progressive(samples: int, seed: int, name: str) -> Floats:
    """Return the probabilities of one input: a new value for each half that has none yet."""
    drawn = stream(seed, Purpose.PRIOR_SAMPLES, stream_index(name))
    cells = np.zeros(1, dtype=int)
    while len(cells) < samples:
        halves = 2 * cells + drawn.integers(0, 2, len(cells))
        cells = np.concatenate([halves, drawn.permutation(halves ^ 1)])
    unit = (cells + drawn.random(len(cells))) / len(cells)
    return np.clip(unit[:samples], _LEAST, 1.0 - _LEAST)
