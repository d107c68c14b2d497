"""The published ablation of one 7B pipeline, technique by technique: slowdown and memory.

One constant of the memory is calibrated: the overhead, on the node without a fault. The paper does
not state which stage failed. So results are means and ranges over all positions in the
pipeline.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import Literal

import pandas as pd
from faultline.experiments.studies.mecefo.node_memory import (
    StageMemory,
    micro_batches_in_flight,
    node_memory_bytes,
    overhead_from,
)
from faultline.simulator.workload.gpu_memory import Precision, layer_activation_bytes
from faultline.simulator.workload.known_models import LLAMA2_7B
from faultline.simulator.workload.transformer import Transformer
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Hit
from faultline.strategies.interface.stage_work import LowRank, Techniques
from faultline.strategies.schemes.mecefo.mecefo import Mecefo, MecefoOptions
from faultline.strategies.schemes.mecefo.node_costs import (
    FULL,
    LAYERS_7B,
    MICRO_BATCHES,
    NO_FAULT,
    NO_TECHNIQUE,
    SHAPE_7B,
    SKIP,
    SKIP_RECOMPUTE,
    STAGES,
    AblationRow,
    Batch,
)

_ASSUMED_RANK = 1024
"""Unstated; a quarter of the width, as GaLore has for 7B (Zhao et al. 2024, arXiv 2403.03507)."""
ABLATION: tuple[tuple[str, Techniques, AblationRow], ...] = (
    ("none", Techniques(), NO_TECHNIQUE),
    ("skip", Techniques(True), SKIP),
    ("skip + recompute", Techniques(True, True), SKIP_RECOMPUTE),
    ("full", Techniques(True, True, LowRank(_ASSUMED_RANK)), FULL),
)
"""Rows of the ablation: name, techniques of the node with two tasks, measured values."""
_OPTIONS: dict[str, Literal["none", "skip", "skip-recompute", "all"]] = {
    "none": "none",
    "skip": "skip",
    "skip + recompute": "skip-recompute",
    "full": "all",
}
TOKENS = 256 / MICRO_BATCHES * SHAPE_7B.sequence_tokens
"""Tokens of a micro-batch with a batch of 256 sequences."""
MODEL = replace(LLAMA2_7B, sequence_tokens=SHAPE_7B.sequence_tokens)
_COST_MODELS: dict[str, Literal["flop", "calibrated"]] = {
    "slowdown by FLOP": "flop",
    "slowdown, calibrated": "calibrated",
}
_PROJECTION_BYTES = 4.0
"""Bytes per number of a projection: decompositions use 32 bits."""


def slowdown_table() -> pd.DataFrame:
    """Return the slowdown of a pipeline with one failed stage, by FLOP and calibrated."""
    return pd.DataFrame(
        {
            "quantity": quantity,
            "setting": f"7B {'naive doubling' if name == 'none' else name}",
            "published": NO_FAULT.tokens_per_s_256 / measured.tokens_per_s_256,
            "slowdown": _pace_with_one_lost(
                MecefoOptions(cost_model=cost_model, techniques=_OPTIONS[name])
            ),
        }
        for (name, _, measured), (quantity, cost_model) in product(ABLATION, _COST_MODELS.items())
    )


def _pace_with_one_lost(options: MecefoOptions) -> float:
    """Return the time of a step with one lost stage over that with none."""
    scheme = Mecefo(1, 1, options, JobShape(micro_batch_sequences=32))
    scheme.on_hit(Hit(0, 3, 3, STAGES))
    scheme.on_failures([0])
    return scheme.plan().pace


def memory_table() -> pd.DataFrame:
    """Return the memory of a node by batch and technique, in GB.

    ``technique`` ("no fault": a node with one task), ``batch`` (sequences of the pipeline),
    ``predicted``, ``least`` and ``most`` (mean and range over the node's positions in its
    pipeline), ``measured`` (missing if unpublished or out of memory) and ``ran_out`` (whether it
    ran out of memory).
    """
    overhead = overhead_from(NO_FAULT.memory_bytes_256, ablation_stage(256), fmean(_held(STAGES)))
    rows = []
    batches: tuple[Batch, ...] = (256, 512)
    nodes = (("no fault", Techniques(), NO_FAULT), *ABLATION)
    for batch, (name, techniques, measured) in product(batches, nodes):
        tasks = 1 if name == "no fault" else 2
        by_place = [
            node_memory_bytes(ablation_stage(batch), tasks, techniques, held, overhead)
            for held in _held(STAGES - tasks + 1)
        ]
        known = measured.memory_bytes_256 / 1e9 if batch == 256 else None
        ran_out = measured.tokens_per_s(batch) is None
        found = (of(by_place) / 1e9 for of in (fmean, min, max))
        rows.append((name, batch, *found, known, ran_out))
    columns = ["technique", "batch", "predicted", "least", "most", "measured", "ran_out"]
    return pd.DataFrame(rows, columns=columns)


def ablation_stage(batch: Batch) -> StageMemory:
    """Return the memory of a stage of the pipeline at a batch."""
    return stage_memory(MODEL, LAYERS_7B // STAGES, batch / MICRO_BATCHES)


def stage_memory(model: Transformer, layers: int, sequences: float) -> StageMemory:
    """Return the memory of a stage with `layers` layers and micro-batches of `sequences`.

    Activations have two parts. Attention: its norm's input, the input of its projections, a mask,
    and its inner values (Korthikanti et al. 2022, section 4.1, without scores: 13 bytes a number).
    The rest of `layer_activation_bytes` belongs to the feed-forward network.
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


def _held(nodes: int) -> list[int]:
    """Return the number of micro-batches that each node of a pipeline has in flight."""
    return [micro_batches_in_flight(node, nodes, MICRO_BATCHES) for node in range(nodes)]
