"""Maps: which candidate to choose where, over the priors of uncertain inputs.

A map has two known circumstances, its axes. All else that is uncertain has a prior. Candidates are
simulated at samples of axes and priors together, with the same failures; redundancy and intervals
are the best by closed forms at the axes' values and the medians of the priors. An emulator of each
candidate then fills the cells: the candidate of a cell has the least expected cost, over samples of
the priors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import log

import numpy as np
import pandas as pd
from faultline.experiments.analysis.design import Design, Floats, sobol_design
from faultline.experiments.config.priors import UncertainKey, priors_of, shipped_priors
from faultline.experiments.job.sampled_job import quantiles_of
from faultline.experiments.studies.head_to_head.matches import Match, Truth
from faultline.experiments.studies.head_to_head.setting import (
    GPU_MTBF_S,
    Candidate,
    Cell,
    Ground,
    Machines,
    modelled_restart_s,
)

JOBS = {
    "head-to-head": "dense 4T on B300",
    "llama3-405b-16k": "Llama 3 405B on H100",
    "moe-gb200-18k": "experts, 1.2T, on GB200",
}
"""Scenarios of the maps, and what people call them."""

METRICS = {
    "ratio": "trains soonest",
    "gpu_ratio": "needs the fewest GPU-hours",
    "energy_ratio": "needs the least energy",
    "loss_ratio": "reaches a loss soonest",
}
"""Costs over those without failures, and what the candidate with the least of them does."""

SIDE = 40
"""Cells on a side of a map."""

IDLE_POWER = 0.3
"""Power of a GPU that waits over that of one that computes: an assumption, between idle (about 0.1)
and spinning in a collective."""

WORTH = (0.33, 1.04)
"""How much of a missing part of a batch is lost for the loss: 1 where only tokens count."""

PLAIN = "checkpoint/storage"
"""The control: redundancy 1, and no state in memory."""

LEAST_FIT = 0.5
"""A candidate is drawn if it fits the memory in at least this share of samples."""

WORTH_INPUT = "worth"
"""Name of that input."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A circumstance that is known."""

    low: float
    high: float
    is_log: bool = True

    def value(self, share: Floats) -> Floats:
        """Return the values at shares of the axis."""
        low, high = (log(self.low), log(self.high)) if self.is_log else (self.low, self.high)
        values: Floats = low + (high - low) * share
        return np.exp(values) if self.is_log else values


@dataclass(frozen=True, slots=True)
class Map:
    """Two axes, and the cell at their values."""

    name: str
    x: Axis
    y: Axis
    cell: Callable[[Ground, float, float], Cell]
    # Whether an axis states the rate of failures, of which scenarios state an estimate.
    knows_rate: bool


def _restart_cell(ground: Ground, mtbf_s: float, restart_s: float) -> Cell:
    groups = ground.scenario.job.groups
    return Cell("restart", mtbf_s, restart_s, mtbf_s, restart_s, groups)


def _stall_cell(ground: Ground, mtbf_s: float, stall_s: float) -> Cell:
    groups = ground.scenario.job.groups
    return Cell("stalls", mtbf_s, stall_s, mtbf_s, stall_s, groups, stall_s=stall_s)


def _domain_cell(machines: Machines, ground: Ground, gpus: float, share: float) -> Cell:
    group = ground.gpus_per_group
    groups = max(2, round(gpus / group))
    hardware = "standby" if machines == "standbys" else "requeue"
    restart_s = modelled_restart_s(groups * group, hardware)
    mtbf_s = GPU_MTBF_S / (groups * group)
    return Cell(
        machines, gpus, share, mtbf_s, restart_s, groups, domain_share=share, machines=machines
    )


_RATE = "failures.mtbf_s"
_IDLE = {"failures.shape", _RATE}  # Failures of the cells are memoryless, at the map's rate.
_GPUS = Axis(1_024, 600_064)
_SHARES = Axis(0.0, 1.0, is_log=False)
MAPS = {
    one.name: one
    for one in (
        Map("restart", Axis(300, 86_400), Axis(10, 7200), _restart_cell, True),
        Map("stalls", Axis(300, 86_400), Axis(10, 900), _stall_cell, True),
        Map("queue", _GPUS, _SHARES, partial(_domain_cell, "queue"), False),
        Map("standbys", _GPUS, _SHARES, partial(_domain_cell, "standbys"), False),
    )
}
"""The maps by their names."""


AT_OWN_SIZE = ("restart", "stalls")
"""Maps of a job at its own size."""

MAPS_OF = {job: tuple(MAPS) if place == 0 else AT_OWN_SIZE for place, job in enumerate(JOBS)}
"""The maps of each job; a sample of 600,000 GPUs in small groups takes minutes."""


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """A map of a job, and the samples at which its candidates are simulated.

    Attributes
    ----------
    job : str
        Name of the scenario.
    map : Map
        The map.
    design : Design
        Samples of ``x``, ``y``, ``worth`` and the uncertain inputs.
    """

    job: str
    map: Map
    design: Design

    def matches(
        self, candidates: Sequence[Candidate], ground: Ground, samples: range
    ) -> list[Match]:
        """Return a match for each of some samples, with failures of its own."""
        return [self._match(sample, tuple(candidates), ground) for sample in samples]

    def _match(self, sample: int, candidates: tuple[Candidate, ...], ground: Ground) -> Match:
        values = self.design.sample(sample)
        cell = self.map.cell(ground, values.pop("x"), values.pop("y"))
        del values[WORTH_INPUT]
        truth = Truth(values.pop(_RATE, 1.0) * cell.mtbf_s, values)
        return Match(cell, candidates, (sample,), ground, truth=truth)


def sheet_of(
    job: str, name: str, ground: Ground, candidates: Sequence[Candidate], samples: int
) -> Sheet:
    """Return a map with samples of its axes and of all priors that it leaves open."""
    chosen = MAPS[name]
    keys = [key for key in priors_of(ground.scenario) if key.dotted not in _IDLE]
    schemes = list(dict.fromkeys(one.scheme for one in candidates))
    inputs = {
        "x": chosen.x.value,
        "y": chosen.y.value,
        WORTH_INPUT: Axis(*WORTH, is_log=False).value,
    }
    if not chosen.knows_rate:
        prior = shipped_priors()[_RATE]
        keys.append(UncertainKey(_RATE, prior, is_stated=False, times=True))
    inputs |= quantiles_of(keys, schemes, 1.0)
    return Sheet(job, chosen, sobol_design(inputs, samples, seed=0))


def contenders(
    rows: pd.DataFrame, candidates: Sequence[Candidate], drops_hopeless: bool
) -> tuple[Candidate, ...]:
    """Return the candidates that are worth more samples, by those of some: the control among them.

    Left out are those that do not fit the memory in most samples, and, where hopeless ones are
    dropped, those that were stopped in all.
    """
    simulated = rows[rows["absent"] == ""]

    def goes_on(one: Candidate) -> bool:
        mine = simulated[simulated["candidate"] == one.name]
        fits = len(mine) > 0 and mine["fits_memory"].mean() >= LEAST_FIT
        return bool(fits and not (drops_hopeless and np.isinf(mine["ratio"]).all()))

    return tuple(one for one in candidates if one.name == PLAIN or goes_on(one))
