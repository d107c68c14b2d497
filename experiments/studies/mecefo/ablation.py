"""The published ablation of one 7B pipeline, technique by technique: slowdown, cost and memory.

One constant of the memory is calibrated: the overhead, on the node without a fault. Where the
failed stage was is not stated; all places in the pipeline are averaged, and the spread over them
is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from typing import Literal

import pandas as pd
from faultline.experiments.studies.base import Row, row_of
from faultline.simulator.workload.known_models import LLAMA2_7B
from faultline.simulator.workload.memory import Precision, layer_activation_bytes
from faultline.simulator.workload.transformer import Transformer
from faultline.strategies.base import Hit
from faultline.strategies.job_shape import JobShape
from faultline.strategies.mecefo import Mecefo, MecefoOptions
from faultline.strategies.pipeline_schedule import approximate_iteration, exact_iteration
from faultline.strategies.stage_work import LowRank, Techniques, proportional_work
from faultline.strategies.takeover.node_costs import (
    FULL,
    LAYERS_7B,
    MICRO_BATCHES,
    NO_FAULT,
    NO_TECHNIQUE,
    SHAPE_7B,
    SKIP,
    SKIP_RECOMPUTE,
    STAGES,
    Batch,
    Measured,
    StageMemory,
    flop_costs,
    measured_cost,
    micro_batches_in_flight,
    node_memory_bytes,
    overhead_from,
)
from scipy.optimize import brentq

ASSUMED_RANK = 1024
"""Not stated; a quarter of the width, as GaLore has for 7B (Zhao et al. 2024, arXiv 2403.03507)."""

_TECHNIQUES: dict[str, Literal["none", "skip", "skip-recompute", "all"]] = {
    "none": "none",
    "skip": "skip",
    "skip + recompute": "skip-recompute",
    "full": "all",
}
ABLATION: tuple[tuple[str, Techniques, Measured], ...] = (
    ("none", Techniques(), NO_TECHNIQUE),
    ("skip", Techniques(True), SKIP),
    ("skip + recompute", Techniques(True, True), SKIP_RECOMPUTE),
    ("full", Techniques(True, True, LowRank(ASSUMED_RANK)), FULL),
)
"""Rows of the ablation: name, what the node with two tasks uses, what was measured."""

TOKENS = 256 / MICRO_BATCHES * SHAPE_7B.sequence_tokens
"""Tokens of a micro-batch at a batch of 256 sequences."""

MODEL = replace(LLAMA2_7B, sequence_tokens=SHAPE_7B.sequence_tokens)
_COST_MODELS: tuple[tuple[Literal["flop", "calibrated"], str], ...] = (
    ("flop", "slowdown by FLOP"),
    ("calibrated", "slowdown, calibrated"),
)
_PROJECTION_BYTES = 4.0
"""Bytes of a number of a projection: a decomposition is in 32 bits."""


def slowdown_rows() -> Iterator[Row]:
    """Return how much one failed stage slows its pipeline, by FLOP and calibrated."""
    for name, _, measured in ABLATION:
        setting = f"7B {'naive doubling' if name == 'none' else name}"
        published = NO_FAULT.tokens_per_s_256 / measured.tokens_per_s_256
        for cost_model, quantity in _COST_MODELS:
            options = MecefoOptions(
                cost_model=cost_model,
                techniques=_TECHNIQUES[name],
            ).for_job(JobShape(micro_batch_sequences=32))
            slowdown = _pace_with_one_lost(options)
            yield row_of(quantity, "mecefo", setting, published, [slowdown], "1")


def _pace_with_one_lost(options: MecefoOptions) -> float:
    """Return the time of a step with one lost stage over that with none."""
    scheme = Mecefo(1, 1, options)
    scheme.on_hit(Hit(0, 3, 3, STAGES))
    scheme.on_failures([0])
    return scheme.plan().pace


def cost_table() -> pd.DataFrame:
    """Return what a node with two tasks costs over one with one, by technique.

    A row a set of techniques: ``flop``; ``measured`` and ``measured_512``, from the measured
    throughput and the closed form of a pipeline at 256 and 512 sequences (None where it ran out of
    memory); ``slowdown_by_flop`` and ``slowdown_measured``, the iteration of the pipeline over one
    without a fault; ``measured_first`` and ``measured_last``, from the measured throughput and an
    exact 1F1B pipeline, the node its first or its last.
    """
    rows = []
    for _, techniques, measured in ABLATION:
        flop = flop_costs(SHAPE_7B, techniques, TOKENS, MICRO_BATCHES * TOKENS)(2)
        slowdown = NO_FAULT.tokens_per_s_256 / measured.tokens_per_s_256
        fits_512 = measured.tokens_per_s_512 is not None
        rows.append(
            {
                "technique": techniques.name,
                "flop": flop,
                "measured": measured_cost(256, measured),
                "measured_512": measured_cost(512, measured) if fits_512 else None,
                "slowdown_by_flop": _closed_form([*[1.0] * (STAGES - 2), flop])
                / _closed_form([1.0] * STAGES),
                "slowdown_measured": slowdown,
                "measured_first": _cost_at_place(slowdown, 0),
                "measured_last": _cost_at_place(slowdown, STAGES - 2),
            }
        )
    return pd.DataFrame(rows)


def _closed_form(costs: list[float]) -> float:
    return approximate_iteration(costs, MICRO_BATCHES)


def _cost_at_place(slowdown: float, place: int) -> float:
    """Return the cost that slows an exact 1F1B pipeline by so much, at a place from the front."""
    healthy_s = exact_iteration([proportional_work(1.0)] * STAGES, MICRO_BATCHES)

    def too_slow(cost: float) -> float:
        stages = [proportional_work(1.0)] * (STAGES - 1)
        stages[place] = proportional_work(cost)
        return exact_iteration(stages, MICRO_BATCHES) / healthy_s - slowdown

    return float(brentq(too_slow, 1e-6, 10.0))


def memory_table(batch: Batch) -> pd.DataFrame:
    """Return the memory of a node by technique, in bytes.

    ``technique`` ("no fault": a node with one task), ``batch`` (sequences of the pipeline),
    ``predicted``, ``least`` and ``most`` (mean and range over the places of the node in its
    pipeline), ``measured`` (None where it is not published, or ran out of memory) and ``ran_out``
    (whether it did).
    """
    in_flight = fmean(_in_flight(STAGES))
    overhead = overhead_from(NO_FAULT.memory_bytes_256, ablation_stage(256), in_flight)
    rows = []
    for name, techniques, measured in (("no fault", Techniques(), NO_FAULT), *ABLATION):
        tasks = 1 if name == "no fault" else 2
        bytes_by_place = [
            node_memory_bytes(ablation_stage(batch), tasks, techniques, held, overhead)
            for held in _in_flight(STAGES - tasks + 1)
        ]
        predicted = fmean(bytes_by_place), min(bytes_by_place), max(bytes_by_place)
        known = measured.memory_bytes_256 if batch == 256 else None
        rows.append((name, batch, *predicted, known, measured.tokens_per_s(batch) is None))
    columns = ["technique", "batch", "predicted", "least", "most", "measured", "ran_out"]
    return pd.DataFrame(rows, columns=columns)


def ablation_stage(batch: Batch) -> StageMemory:
    """Return what a stage of the pipeline needs at a batch."""
    return stage_memory(MODEL, LAYERS_7B // STAGES, batch / MICRO_BATCHES)


def stage_memory(model: Transformer, layers: int, sequences: float) -> StageMemory:
    """Return what a stage of some layers needs, for micro-batches of some sequences.

    Halves of the activations: attention has its norm's input, the input of its projections, a mask,
    and what is inside it (Korthikanti et al. 2022, section 4.1, without scores: 13 bytes a number);
    the rest of `layer_activation_bytes` is the feed-forward network's.
    """
    precision = Precision()
    each = precision.parameter_bytes + precision.gradient_bytes + precision.optimizer_bytes
    number_bytes = sequences * model.sequence_tokens * model.hidden
    attention = (2 + 2 + 1 + 4 + 4 * model.key_value_width / model.hidden) * number_bytes
    whole = layer_activation_bytes(model, 1, 1) * sequences
    widths = 2 * model.hidden + model.ffn_hidden
    return StageMemory(
        state_bytes=layers * model.layer_parameters * each,
        attention_bytes=layers * attention,
        ffn_bytes=layers * (whole - attention),
        ffn_input_bytes=layers * precision.activation_bytes * number_bytes,
        layers=layers,
        projection_bytes_per_rank=layers * widths * _PROJECTION_BYTES,
    )


def _in_flight(nodes: int) -> list[int]:
    return [micro_batches_in_flight(node, nodes, MICRO_BATCHES) for node in range(nodes)]


def memory_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Return the memory of a node, in GB."""
    for cell in table.itertuples():
        setting = f"7B {cell.technique}, {cell.batch} sequences"
        measured = None if pd.isna(cell.measured) else cell.measured / 1e9
        found = (cell.predicted / 1e9, cell.least / 1e9, cell.most / 1e9)
        yield Row("memory", "mecefo", setting, measured, *found, "GB")
