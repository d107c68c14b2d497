"""Memory of a node by technique: predicted from the workload's formulas, next to measurements.

One constant is calibrated: the overhead, on the node without a fault. Where the failed stage was
is not stated; all places in the pipeline are averaged, and the spread over them is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

from faultline.simulator.workload.known_models import LLAMA2_7B
from faultline.simulator.workload.memory import Precision, layer_activation_bytes
from faultline.simulator.workload.transformer import Transformer
from faultline.strategies.takeover.node_memory import (
    StageMemory,
    micro_batches_in_flight,
    node_memory_bytes,
    overhead_from,
)
from faultline.strategies.takeover.published_ablation import (
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
)
from faultline.strategies.takeover.techniques import LowRank, Techniques

ASSUMED_RANK = 1024
"""Not stated; a quarter of the width, as GaLore has for 7B (Zhao et al. 2024, arXiv 2403.03507)."""
GPU_BYTES = 80e9
PROJECTION_BYTES = 4.0
"""Bytes of a number of a projection: a decomposition is in 32 bits."""

MODEL = replace(LLAMA2_7B, sequence_tokens=SHAPE_7B.sequence_tokens)

ROWS: tuple[tuple[str, int, Techniques, Measured], ...] = (
    ("no fault", 1, Techniques(), NO_FAULT),
    ("none", 2, Techniques(), NO_TECHNIQUE),
    ("skip", 2, Techniques(True), SKIP),
    ("skip + recompute", 2, Techniques(True, True), SKIP_RECOMPUTE),
    ("full", 2, Techniques(True, True, LowRank(ASSUMED_RANK)), FULL),
)
"""The ablation: its name, tasks of the node, techniques, what was measured."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Memory of a node, in bytes.

    Attributes
    ----------
    technique : str
        What the node uses.
    batch : int
        Sequences of the pipeline.
    predicted, least, most : float
        Mean, least and most over the places of the node in its pipeline.
    measured : float or None
        None where it is not published, or ran out of memory.
    ran_out : bool
        Whether it did run out of memory.
    """

    technique: str
    batch: int
    predicted: float
    least: float
    most: float
    measured: float | None
    ran_out: bool

    @property
    def error(self) -> float | None:
        """Predicted over measured, minus 1."""
        return None if self.measured is None else self.predicted / self.measured - 1

    @property
    def predicted_to_run_out(self) -> bool:
        """Whether the mean is above the GPU's memory."""
        return self.predicted > GPU_BYTES


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
        projection_bytes_per_rank=layers * widths * PROJECTION_BYTES,
    )


def memory_rows(batch: Batch = 256) -> list[MemoryRow]:
    """Return the ablation's memory at a batch, predicted and measured."""
    overhead = _overhead()
    stage = _ablation_stage(batch)
    rows = []
    for name, tasks, techniques, measured in ROWS:
        bytes_by_place = [
            node_memory_bytes(stage, tasks, techniques, in_flight, overhead)
            for in_flight in _in_flight(STAGES - tasks + 1)
        ]
        known = measured.memory_bytes_256 if batch == 256 else None
        rows.append(
            MemoryRow(
                technique=name,
                batch=batch,
                predicted=fmean(bytes_by_place),
                least=min(bytes_by_place),
                most=max(bytes_by_place),
                measured=known,
                ran_out=measured.tokens_per_s(batch) is None,
            )
        )
    return rows


def implied_rank() -> float:
    """Return the rank at which projections in 32 bits make up what low rank adds in memory."""
    more = FULL.memory_bytes_256 - SKIP_RECOMPUTE.memory_bytes_256
    return more / (2 * _ablation_stage(256).projection_bytes_per_rank)


def _ablation_stage(batch: Batch) -> StageMemory:
    return stage_memory(MODEL, LAYERS_7B // STAGES, batch / MICRO_BATCHES)


def _in_flight(nodes: int) -> list[int]:
    return [micro_batches_in_flight(node, nodes, MICRO_BATCHES) for node in range(nodes)]


def _overhead() -> float:
    """Return the one calibrated constant, from the node without a fault at the smaller batch."""
    in_flight = fmean(_in_flight(STAGES))
    return overhead_from(NO_FAULT.memory_bytes_256, _ablation_stage(256), in_flight)
