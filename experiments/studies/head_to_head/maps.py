"""Maps of the candidate to choose, over two known axes and the priors of all uncertain inputs.

All candidates are simulated at the same samples of axes and priors, with the same failures. Their
redundancy and intervals are the best by closed forms at the axes' values and the medians of the
priors. An emulator per candidate then fills the cells. The choice of a cell has the least expected
cost over samples of the priors.
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
from faultline.experiments.studies.head_to_head.cell_runs import CellTask, SampledInputs
from faultline.experiments.studies.head_to_head.setting import (
    GPU_MTBF_S,
    Candidate,
    Cell,
    Machines,
    MeasuredJob,
    modelled_restart_s,
)

JOBS = {
    "head-to-head": "dense 4T on B300",
    "llama3-405b-16k": "Llama 3 405B on H100",
    "moe-gb200-18k": "experts, 1.2T, on GB200",
}
"""Scenarios of the maps, and their titles."""

METRICS = {
    "ratio": "trains soonest",
    "gpu_ratio": "needs the fewest GPU-hours",
    "energy_ratio": "needs the least energy",
    "loss_ratio": "reaches a loss soonest",
}
"""Costs over those without failures, and the merit of the candidate with the least cost."""

SIDE = 40
"""Cells on a side of a map."""

IDLE_POWER = 0.3
"""Power of a waiting GPU over that of a computing one: an assumption between idle (about 0.1) and
spinning in a collective."""

WORTH = (0.33, 1.04)
"""Range of the share that a missing part of a batch costs the loss; at 1, only tokens count."""

PLAIN = "checkpoint/storage"
"""The control: redundancy 1, and no state in memory."""

LEAST_FIT = 0.5
"""A candidate is drawn if it fits the memory in at least this share of samples."""

WORTH_INPUT = "worth"
"""Name of that input."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A known circumstance."""

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
    """Two axes, and a function that returns the cell at their values."""

    name: str
    x: Axis
    y: Axis
    cell: Callable[[MeasuredJob, float, float], Cell]
    # Whether an axis states the failure rate; otherwise the rate has a prior.
    knows_rate: bool


def _restart_cell(measured: MeasuredJob, mtbf_s: float, restart_s: float) -> Cell:
    groups = measured.scenario.job.groups
    return Cell("restart", mtbf_s, restart_s, mtbf_s, restart_s, groups)


def _stall_cell(measured: MeasuredJob, mtbf_s: float, stall_s: float) -> Cell:
    groups = measured.scenario.job.groups
    return Cell("stalls", mtbf_s, stall_s, mtbf_s, stall_s, groups, stall_s=stall_s)


def _domain_cell(machines: Machines, measured: MeasuredJob, gpus: float, share: float) -> Cell:
    group = measured.gpus_per_group
    groups = max(2, round(gpus / group))
    hardware = "standby" if machines == "standbys" else "requeue"
    restart_s = modelled_restart_s(groups * group, hardware)
    mtbf_s = GPU_MTBF_S / (groups * group)
    return Cell(
        machines, gpus, share, mtbf_s, restart_s, groups, domain_share=share, machines=machines
    )


_RATE = "failures.mtbf_s"
_WITHOUT_EFFECT = {"failures.shape", _RATE}  # Failures are memoryless, at the map's rate.
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
"""Maps of a job at the size of its scenario."""

MAPS_OF = {job: tuple(MAPS) if place == 0 else AT_OWN_SIZE for place, job in enumerate(JOBS)}
"""The maps of each job. Jobs of small groups have no maps by size: 600,000 GPUs take minutes."""


@dataclass(frozen=True, slots=True, eq=False)
class SampledMap:
    """A map of a job, with the samples at which its candidates are simulated.

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

    def tasks(
        self, candidates: Sequence[Candidate], measured: MeasuredJob, samples: range
    ) -> list[CellTask]:
        """Return a task for each of some samples, with failures of its own."""
        return [self._task(sample, tuple(candidates), measured) for sample in samples]

    def _task(
        self, sample: int, candidates: tuple[Candidate, ...], measured: MeasuredJob
    ) -> CellTask:
        values = self.design.sample(sample)
        cell = self.map.cell(measured, values.pop("x"), values.pop("y"))
        del values[WORTH_INPUT]
        sampled = SampledInputs(values.pop(_RATE, 1.0) * cell.mtbf_s, values)
        return CellTask(cell, candidates, (sample,), measured, sampled=sampled)


def sample_map(
    job: str, name: str, measured: MeasuredJob, candidates: Sequence[Candidate], samples: int
) -> SampledMap:
    """Return a map with samples of its axes and of the priors of all other inputs."""
    chosen = MAPS[name]
    keys = [key for key in priors_of(measured.scenario) if key.dotted not in _WITHOUT_EFFECT]
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
    return SampledMap(job, chosen, sobol_design(inputs, samples, seed=0))


def remaining_candidates(
    rows: pd.DataFrame, candidates: Sequence[Candidate], drops_hopeless: bool
) -> tuple[Candidate, ...]:
    """Return the candidates to simulate at more samples; the control is always one of them.

    A candidate is dropped if it does not fit the memory in most samples so far, or, with
    `drops_hopeless`, if it was stopped in all of them.
    """
    simulated = rows[rows["absent"] == ""]

    def remains(candidate: Candidate) -> bool:
        runs = simulated[simulated["candidate"] == candidate.name]
        fits = len(runs) > 0 and runs["fits_memory"].mean() >= LEAST_FIT
        return bool(fits and not (drops_hopeless and np.isinf(runs["ratio"]).all()))

    return tuple(one for one in candidates if one.name == PLAIN or remains(one))
