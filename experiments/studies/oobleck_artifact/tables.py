"""The cells of the study: every system, model and rate, with speeds set by the rarest losses.

How fast a system trains a model is not printed but for Oobleck's 6.7B. Its speeds by nodes are the
planner's, times one factor that gives the printed throughput with a loss every 6 h: that cell is
calibrated, all others of its row are predicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.oobleck_artifact.losses import Booked, System, play
from faultline.experiments.studies.oobleck_artifact.models import (
    MODELS,
    NODES,
    least_nodes_by_memory,
    oobleck_times,
    varuna_times,
)
from faultline.experiments.studies.oobleck_artifact.published import (
    EFFECTIVE_PERCENT,
    INTERVALS,
    SAMPLES_PER_S,
    WHOLE_STEPS_67B,
)
from faultline.strategies.takeover.published_oobleck import (
    ARTIFACT_COSTS,
    BAMBOO_REDUNDANT_SHARE,
)
from faultline.strategies.takeover.published_oobleck import SAMPLES_PER_S as SPEEDS_67B

_CALIBRATED_ON = "6 h"
_ROUNDS = 25


def steps_of(system: System, model: str) -> tuple[float, ...]:
    """Return the seconds of a step of a system in each of the fifteen intervals."""
    batch = MODELS[model].batch
    if (system, model) == ("oobleck", "6.7B"):
        return tuple(batch / samples_per_s for samples_per_s in SPEEDS_67B)
    times = varuna_times(model) if system == "varuna" else oobleck_times(model)
    wanted = SAMPLES_PER_S[system, model][list(INTERVALS).index(_CALIBRATED_ON)]
    assert wanted is not None
    scale = batch * len(times) / sum(times) / wanted
    for _ in range(_ROUNDS):
        # Whole steps count: the throughput is not quite in proportion.
        found = _played(system, model, tuple(scale * time for time in times), _CALIBRATED_ON)
        scale *= _samples_per_s(found, model) / wanted
    return tuple(scale * time for time in times)


def _played(
    system: System,
    model: str,
    steps_s: tuple[float, ...],
    interval: str,
    *,
    takes_back: bool = True,
) -> Booked:
    costs = ARTIFACT_COSTS[model]
    return play(system, costs, steps_s, INTERVALS[interval], takes_back=takes_back)


def _samples_per_s(booked: Booked, model: str) -> float:
    return booked.steps * MODELS[model].batch / booked.elapsed_s


def cells_of(row: tuple[System, str]) -> pd.DataFrame:
    """Play a system and a model at all rates.

    Returns
    -------
    DataFrame
        A row a rate: `effective` and `goodput` in per cent, `samples_per_s`, the same if a restart
        took nothing back (`samples_per_s_if_kept`), `steps`, and what is printed
        (`published_effective`, `published_samples_per_s`).
    """
    system, model = row
    steps_s = steps_of(system, model)
    kept = 1.0 - BAMBOO_REDUNDANT_SHARE if system == "bamboo" else 1.0
    cells = []
    for place, interval in enumerate(INTERVALS):
        booked = _played(system, model, steps_s, interval)
        kept_all = _played(system, model, steps_s, interval, takes_back=False)
        cells.append(
            {
                "system": system,
                "model": model,
                "interval": interval,
                "effective": 100 * kept * booked.effective,
                "published_effective": EFFECTIVE_PERCENT[row][place],
                "samples_per_s": _samples_per_s(booked, model),
                "published_samples_per_s": SAMPLES_PER_S[row][place],
                "samples_per_s_if_kept": _samples_per_s(kept_all, model),
                "goodput": 100 * kept * booked.goodput,
                "steps": booked.steps,
            }
        )
    return pd.DataFrame(cells)


def cell_rows(cells: pd.DataFrame) -> Iterator[Row]:
    """Return effective time, throughput and goodput of every cell."""
    for cell in cells.itertuples():
        setting = f"{cell.model} {cell.interval}"
        for name, published, value, unit in (
            ("effective time", cell.published_effective, cell.effective, "%"),
            ("samples/s", cell.published_samples_per_s, cell.samples_per_s, "1/s"),
            ("goodput", None, cell.goodput, "%"),
        ):
            known = None if pd.isna(published) else published
            yield row_of(name, cell.system, setting, known, [value], unit)
        if cell.system == "varuna":
            name, known = "samples/s, nothing taken back", cell.published_samples_per_s
            yield row_of(name, "varuna", setting, known, [cell.samples_per_s_if_kept], "1/s")


def step_rows(cells: pd.DataFrame) -> Iterator[Row]:
    """Return the whole steps of Oobleck's 6.7B."""
    mine = cells[(cells.system == "oobleck") & (cells.model == "6.7B")]
    for cell, known in zip(mine.itertuples(), WHOLE_STEPS_67B, strict=True):
        setting = f"6.7B {cell.interval}"
        yield row_of("whole steps", "oobleck", setting, known, [float(cell.steps)], "1")


def own_rendezvous_rows() -> Iterator[Row]:
    """Return Bamboo's throughput with the local rendezvous of its own authors' simulator."""
    for model in ("BERT-large", "GPT-2"):
        costs = ARTIFACT_COSTS[model]
        own = replace(costs, bamboo_local_s=costs.bamboo_own_local_s)
        found = play("bamboo", own, steps_of("bamboo", model), INTERVALS["10 min"])
        known = SAMPLES_PER_S["bamboo", model][-1]
        value = [_samples_per_s(found, model)]
        name = "samples/s, own rendezvous"
        yield row_of(name, "bamboo", f"{model} 10 min", known, value, "1/s")


def planner_table() -> pd.DataFrame:
    """Return the speed of 6.7B with each number of nodes over that with 30: planned, printed."""
    times = oobleck_times("6.7B")
    return pd.DataFrame(
        {
            "nodes": NODES,
            "planned": [times[0] / time for time in times],
            "published": [speed / SPEEDS_67B[0] for speed in SPEEDS_67B],
        }
    )


def planner_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Return these, and the least nodes of a pipeline by the memory of a GPU."""
    for line in table.itertuples():
        setting = f"6.7B {line.nodes} nodes"
        yield row_of("relative speed", "oobleck", setting, line.published, [line.planned], "1")
    for recompute in ("full", "selective", "none"):
        found = float(least_nodes_by_memory(MODELS["6.7B"], recompute))
        setting = f"6.7B recompute {recompute}"
        known = MODELS["6.7B"].least_nodes
        yield row_of("least nodes", "oobleck", setting, known, [found], "1")
