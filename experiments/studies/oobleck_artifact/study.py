"""Oobleck's public artifact: the cost of losing 15 of 30 nodes for Oobleck, Varuna and Bamboo.

Five models lose nodes every 6 h to every 10 min, with the constants of the artifact's simulators
(Jang et al. 2023, Oobleck, SOSP 2023). Effective time and throughput are compared with the
artifact's output. So is the planner's speed of 6.7B by number of nodes, from FLOP alone.

Dimensions: Devlin et al. 2019 (BERT-large), Radford et al. 2019 (GPT-2, 345M), Brown et al. 2020,
table 2.1 (GPT-3 medium, 2.7B, 6.7B).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.style import PUBLISHED, legend_below, mark
from faultline.experiments.studies.base import Results, Row, Study
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.oobleck_artifact.losses import LossRun, System, simulate
from faultline.experiments.studies.oobleck_artifact.planned_templates import (
    TemplatePlanner,
    instantiated,
    templates_needed,
)
from faultline.experiments.studies.oobleck_artifact.published_oobleck import (
    ARTIFACT_COSTS,
    BAMBOO_REDUNDANT_SHARE,
    LEAST_NODES,
    MOST_NODES,
)
from faultline.experiments.studies.oobleck_artifact.published_oobleck import (
    SAMPLES_PER_S as SPEEDS_67B,
)
from faultline.experiments.studies.stage import Stage
from faultline.simulator.workload.gpu_memory import Recompute, gpu_memory
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.transformer import Transformer, token_flop
from faultline.strategies.schemes.takeover.pipelines import iteration_time
from faultline.strategies.schemes.takeover.templates import Template
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

INTERVALS = {"6 h": 21_600.0, "3 h": 10_800.0, "1 h": 3_600.0, "30 min": 1_800.0, "10 min": 601.2}
"""Seconds between losses of a node. Fifteen nodes are lost, one at a time."""

NODES = range(MOST_NODES, LEAST_NODES - 1, -1)
"""Live nodes of the fifteen intervals."""

GPU_BYTES = 48e9
"""An A40: assumed, as no available source states it."""

FAILURES = 1
"""Concurrent losses that templates provide for: 6.7B needs at least two pipelines of 8."""

_CALIBRATED_ON = "6 h"
_ROUNDS = 25

SYSTEMS: tuple[System, ...] = ("oobleck", "varuna", "bamboo")


@dataclass(frozen=True, slots=True)
class ArtifactModel:
    """A model."""

    shape: Transformer  # Its dimensions.
    # Samples per step. For BERT-large and 6.7B it follows from printed values (a step of 22 s;
    # 1,024). For others it is the power of two whose effective time under Oobleck at 10 min is
    # closest to the printed one: that single cell is not a prediction.
    batch: int
    # Nodes of the shortest pipeline; None: by the memory of a GPU. 6.7B trains on 16 nodes but not
    # on 15, so a pipeline has 8.
    least_nodes: int | None = None


def _shape(hidden: int, heads: int, layers: int, tokens: int, vocabulary: int) -> Transformer:
    return Transformer(
        hidden, 4 * hidden, heads, layers, tokens, vocabulary, learned_positions=True, biases=True
    )


MODELS = {
    "BERT-large": ArtifactModel(_shape(1_024, 16, 24, 512, 30_522), 8_192),
    "GPT-2": ArtifactModel(_shape(1_024, 16, 24, 1_024, 50_257), 1_024),
    "medium": ArtifactModel(_shape(1_024, 16, 24, 2_048, 50_257), 1_024),
    "2.7B": ArtifactModel(_shape(2_560, 32, 32, 2_048, 50_257), 512),
    "6.7B": ArtifactModel(_shape(4_096, 32, 32, 2_048, 50_257), 1_024, least_nodes=8),
}


def least_nodes_by_memory(model: ArtifactModel, recompute: Recompute = "full") -> int:
    """Return the nodes of the shortest pipeline that fits into the memory of its fullest GPU.

    Micro-batches of one sequence; the optimizer state is not sharded.
    """
    for nodes in range(1, model.shape.layers + 1):
        layout = Layout(1, nodes, 1)
        if gpu_memory(model.shape, layout, 1, nodes, recompute=recompute).total <= GPU_BYTES:
            return nodes
    raise ValueError("a layer does not fit")


@cache
def templates_of(name: str) -> dict[int, Template]:
    """Return a model's templates by their nodes; a layer's time is its FLOP."""
    model = MODELS[name]
    flop, layers = token_flop(model.shape), model.shape.layers

    def stage_time(first: int, end: int) -> float:
        output = 3 * flop.vocabulary if end == layers else 0.0
        return ((end - first) * flop.layer_total + output) / flop.layer_total

    least = model.least_nodes or least_nodes_by_memory(model)
    sizes = templates_needed(MOST_NODES, FAILURES, least)
    planned = TemplatePlanner(layers, stage_time).templates(sizes[0], sizes[-1])
    return {template.nodes: template for template in planned}


@cache
def oobleck_times(name: str) -> tuple[float, ...]:
    """Return the time of a step with each number of nodes, by Oobleck's planner."""
    templates, batch = templates_of(name), MODELS[name].batch
    return tuple(iteration_time(instantiated(templates, nodes, batch), batch) for nodes in NODES)


@cache
def varuna_times(name: str) -> tuple[float, ...]:
    """Return these times for pipelines of equal length; remaining nodes are idle."""
    templates, batch = templates_of(name), MODELS[name].batch
    return tuple(
        min(
            iteration_time([one] * (nodes // one.nodes), batch)
            for one in templates.values()
            if one.nodes <= nodes
        )
        for nodes in NODES
    )


def published(system: str, model: str) -> dict[str, dict[str, Any]]:
    """Return the printed values of a system and a model, by interval; empty if there are none."""
    rows = read_rows("oobleck_artifact", "published")
    mine = (row for row in rows if (row["system"], row["model"]) == (system, model))
    return {row["interval"]: row for row in mine}


def steps_of(system: System, model: str) -> tuple[float, ...]:
    """Return the step time of a system in each of the fifteen intervals, in seconds."""
    batch = MODELS[model].batch
    if (system, model) == ("oobleck", "6.7B"):
        return tuple(batch / samples_per_s for samples_per_s in SPEEDS_67B)
    times = varuna_times(model) if system == "varuna" else oobleck_times(model)
    wanted = published(system, model)[_CALIBRATED_ON]["samples_per_s"]
    scale = batch * len(times) / sum(times) / wanted
    for _ in range(_ROUNDS):
        # Only whole steps count, so the throughput is not quite proportional.
        run = _simulated(system, model, tuple(scale * time for time in times), _CALIBRATED_ON)
        scale *= _samples_per_s(run, model) / wanted
    return tuple(scale * time for time in times)


def _simulated(
    system: System, model: str, steps_s: tuple[float, ...], interval: str, takes_back: bool = True
) -> LossRun:
    costs = ARTIFACT_COSTS[model]
    return simulate(system, costs, steps_s, INTERVALS[interval], takes_back=takes_back)


def _samples_per_s(booked: LossRun, model: str) -> float:
    return booked.steps * MODELS[model].batch / booked.elapsed_s


def cells_of(row: tuple[System, str]) -> pd.DataFrame:
    """Run a system and a model at all rates.

    A row per rate: ``effective`` and ``goodput`` in per cent, ``samples_per_s``, for Varuna also
    without undone steps (``samples_per_s_if_kept``), ``steps``, and the printed values
    (``published_effective``, ``published_samples_per_s``, ``published_steps``).
    """
    system, model = row
    steps_s = steps_of(system, model)
    kept = 1.0 - BAMBOO_REDUNDANT_SHARE if system == "bamboo" else 1.0
    cells = []
    for interval, known in published(system, model).items():
        booked = _simulated(system, model, steps_s, interval)
        kept_all = _simulated(system, model, steps_s, interval, takes_back=False)
        if_kept = _samples_per_s(kept_all, model) if system == "varuna" else None
        measured = ("effective", "samples_per_s", "steps")
        cells.append(
            {
                "system": system,
                "model": model,
                "interval": interval,
                "effective": 100 * kept * booked.effective,
                "samples_per_s": _samples_per_s(booked, model),
                "samples_per_s_if_kept": if_kept,
                "goodput": 100 * kept * booked.goodput,
                "steps": booked.steps,
                **{f"published_{name}": known.get(name) for name in measured},
            }
        )
    return pd.DataFrame(cells)


def own_rendezvous_table() -> pd.DataFrame:
    """Return Bamboo's throughput with the local rendezvous of Bamboo's own simulator."""
    rows = []
    for model in ("BERT-large", "GPT-2"):
        costs = ARTIFACT_COSTS[model]
        own = replace(costs, bamboo_local_s=costs.bamboo_own_local_s)
        found = simulate("bamboo", own, steps_of("bamboo", model), INTERVALS["10 min"])
        rows.append((model, _samples_per_s(found, model)))
    return pd.DataFrame(rows, columns=["model", "samples_per_s"])


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


def least_nodes_table() -> pd.DataFrame:
    """Return the least nodes of a pipeline of 6.7B by the memory of a GPU, by recomputation."""
    ways: tuple[Recompute, ...] = ("full", "selective", "none")
    model = MODELS["6.7B"]
    found = [(how, least_nodes_by_memory(model, how), model.least_nodes) for how in ways]
    return pd.DataFrame(found, columns=["recompute", "nodes", "published"])


def draw_cells(cells: pd.DataFrame) -> Figure:
    """Draw effective time and throughput over the rate of losses, a column per model."""
    figure, axes = plt.subplots(2, len(MODELS), figsize=(13.0, 5.6), sharex=True, sharey="row")
    places = range(len(INTERVALS))
    for column, model in enumerate(MODELS):
        axes[0, column].set_title(model)
        for system, rows in cells[cells.model == model].groupby("system", sort=False):
            look = look_of(str(system))
            best = rows.samples_per_s.iloc[0]
            for axis, simulated, known in (
                (axes[0, column], rows.effective, rows.published_effective),
                (axes[1, column], rows.samples_per_s / best, rows.published_samples_per_s / best),
            ):
                axis.plot(places, simulated, color=look.colour, marker=look.marker)
                axis.plot(places, known, **{**PUBLISHED, "markeredgecolor": look.colour})
        axes[1, column].set_xticks(places, list(INTERVALS), rotation=35)
        axes[1, column].set_xlabel("a node lost every")
    axes[0, 0].set_ylabel("effective time, %")
    axes[1, 0].set_ylabel("samples/s, over those at 6 h")
    for axis in axes.flat:
        axis.set_ylim(bottom=0)
    looks = (look_of(str(system)) for system in cells.system.unique())
    names = [mark(look.label, look.colour, marker=look.marker) for look in looks]
    legend_below(figure, [*names, mark("published", **PUBLISHED)])
    return figure


def draw_planned(table: pd.DataFrame) -> Figure:
    """Draw the speed of 6.7B over its nodes: planned, and from the artifact."""
    figure, axis = plt.subplots(figsize=(6.8, 4.2))
    look = look_of("oobleck")
    axis.plot(table.nodes, table.planned, color=look.colour, marker=look.marker, label="planned")
    axis.plot(table.nodes, table.published, **PUBLISHED, label="published")
    axis.invert_xaxis()
    axis.set(ylim=(0, 1.08), xlabel="nodes", ylabel="speed over that with 30 nodes")
    axis.set_title("6.7B after lost nodes: Oobleck's planner and its artifact")
    axis.legend(loc="lower left")
    return figure


class OobleckArtifactStudy(Study):
    """Effective time and throughput of three systems that lose nodes one by one."""

    default_seeds = 1
    scaled_by: ClassVar = frozenset()
    charts: ClassVar = {
        "oobleck-artifact.png": (draw_cells, "cells"),
        "oobleck-planner.png": (draw_planned, "planner"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Run every system and model at all rates, without randomness."""
        rows = [pair for pair in product(SYSTEMS, MODELS) if published(*pair)]
        cells = stage.calls("systems and models", cells_of, rows)
        with stage.step("planner"):
            return {
                "cells": pd.concat(cells, ignore_index=True),
                "own_rendezvous": own_rendezvous_table(),
                "planner": planner_table(),
                "least_nodes": least_nodes_table(),
            }

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Return the errors of each system, in sentences."""
        return [_account(system, rows) for system in SYSTEMS]


def _account(system: str, rows: Sequence[Row]) -> str:
    """Return the number of met printed values of a system, and the errors of the others."""
    frame = pd.DataFrame([row.as_dict() for row in rows if row.scheme == system])
    known = frame[frame.published.notna()].set_index("quantity")
    points = (known.simulated - known.published).abs()["effective time"]
    errors = (known.simulated / known.published - 1).abs()["samples/s"]
    return (
        f"{title_of(system)}: effective time within 3 points in {(points <= 3).sum()} of "
        f"{len(points)} cells (worst {points.max():.1f}); samples/s within 5 % in "
        f"{(errors <= 0.05).sum()} of {len(errors)} (worst {errors.max():.0%})."
    )
