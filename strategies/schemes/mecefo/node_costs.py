"""Time and memory of a node with k tasks, relative to a node with one.

Counting FLOP predicts 1.55 for a node with two tasks and all techniques; the measured value is
1.13. Attention takes a far larger share of time than of FLOP, so that skipping it saves more. Use
the calibrated model; the other shows the result of counting FLOP.

The paper does not describe a node with three tasks. Both models assume that each of its tasks costs
as much as each of two, since the techniques are the same.

Measurements are from MeCeFO's ablation (NeurIPS 2025) on 8 A100: a 7B model, one pipeline of 8
stages, one of them failed, sequences of 256 tokens. Throughput is that of the whole pipeline.
Memory is at the smaller batch; the paper states neither the measured GPU nor the failed stage. A
GB is taken as 1e9 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.stage_work import LayerShape, StageWork, Techniques, task_flop

STAGES = 8
"""Nodes of the pipeline, one GPU each; one failure leaves seven."""
MICRO_BATCHES = 8
"""Not published: this value reproduces the measured slowdown of a node without techniques."""
SHAPE_7B = LayerShape(hidden=4096, ffn_hidden=11_008, sequence_tokens=256)
LAYERS_7B = 32

Batch = Literal[256, 512]
"""Sequences of the pipeline per iteration."""


@dataclass(frozen=True, slots=True)
class AblationRow:
    """One row: throughput by batch, None if it ran out of memory, and memory of a GPU."""

    tokens_per_s_256: float
    tokens_per_s_512: float | None
    memory_bytes_256: float

    def tokens_per_s(self, batch: Batch) -> float | None:
        """Return the throughput at a batch."""
        return self.tokens_per_s_256 if batch == 256 else self.tokens_per_s_512


NO_FAULT = AblationRow(28_120, 30_040, 41.5e9)
NO_TECHNIQUE = AblationRow(19_110, None, 76.1e9)
SKIP = AblationRow(30_230, None, 54.7e9)
SKIP_RECOMPUTE = AblationRow(26_410, 23_860, 38.5e9)
FULL = AblationRow(28_060, 27_190, 39.2e9)


CostModel = Callable[[int], float]
"""Returns the time of a node with 1, 2, 3, ... tasks over that of a node with one.

Schemes hold one, so it can be pickled.
"""


def flop_costs(shape: LayerShape, techniques: Techniques, micro_batch_tokens: float) -> CostModel:
    """Return costs from FLOP counts.

    `techniques` are those of a node with several tasks.
    """
    task = task_flop(shape, techniques, micro_batch_tokens)
    return partial(_flop_cost, task, shape.normal_flop.total)


def calibrated_costs(doubled: float) -> CostModel:
    """Return costs from one measurement: that of a node with two tasks."""
    return partial(_calibrated_cost, doubled)


def _flop_cost(task: StageWork, normal: float, tasks: int) -> float:
    return 1.0 if tasks == 1 else task.scaled(tasks).total / normal


def _calibrated_cost(doubled: float, tasks: int) -> float:
    return 1.0 if tasks == 1 else tasks * doubled / 2


def passes_of_task(costs: CostModel, tasks: int) -> tuple[float, float]:
    """Return the costs of a task's forward and backward pass over those of a node with one.

    The techniques do not change the forward pass, a third of a task (`task_flop`): all savings and
    additional work are in the backward pass.
    """
    cost = costs(tasks) / tasks
    return (1.0, (3.0 * cost - 1.0) / 2.0) if cost > 1 / 3 else (cost, cost)


def measured_cost(batch: Batch = 256, row: AblationRow = FULL) -> float:
    """Return the cost of a node with two tasks, derived from the published throughputs.

    Raises
    ------
    StrategyError
        If the row ran out of memory at this batch.
    """
    healthy, doubled = NO_FAULT.tokens_per_s(batch), row.tokens_per_s(batch)
    if healthy is None or doubled is None:
        raise StrategyError(
            "takeover.batch", f"ran out of memory at {batch} sequences", "use a batch of 256"
        )
    return doubled_cost(healthy / doubled, STAGES, MICRO_BATCHES)


def doubled_cost(slowdown: float, stages: int, micro_batches: int) -> float:
    """Return the cost of a node with two tasks from the slowdown of its pipeline.

    With p stages, m micro-batches and a node that costs x >= 1, the slowdown is
    ``(m - 1) x + (p - 2) + x`` over ``m - 1 + p``, the closed form of a pipeline
    (`approximate_iteration`). If x < 1 the slowest stage is a normal one, and the numerator is
    ``m - 1 + p - 2 + x``.
    """
    time = slowdown * (micro_batches - 1 + stages)
    cost = (time - (stages - 2)) / micro_batches
    if cost < 1:
        cost = time - (micro_batches - 1) - (stages - 2)
    return cost
