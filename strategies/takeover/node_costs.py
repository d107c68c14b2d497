"""What a node with k tasks costs, over a node with one, and what it keeps in memory.

Counting FLOP predicts 1.55 for a node with two tasks and all techniques; measured, it is 1.13.
Attention takes far more of the time than of the FLOP, so that leaving it out saves more. The
calibrated model is therefore the one to use, and the other shows what counting would have said.

The paper does not describe a node with three tasks. Both models take it that each of its tasks
costs what each of two does, as the techniques are the same.

Measurements are those of MeCeFO's ablation (NeurIPS 2025) on 8 A100: a 7B model, one pipeline of 8
stages, one of them failed, sequences of 256 tokens. Speed is of the whole pipeline. Memory is at
the smaller batch; of which GPU it is, and where in the pipeline the failed stage was, is not
stated. GB are taken as 1e9 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from faultline.strategies.errors import StrategyError
from faultline.strategies.stage_work import LayerShape, StageWork, Techniques, task_flop

STAGES = 8
"""Nodes of the pipeline, one GPU each; a failed one leaves seven."""
MICRO_BATCHES = 8
"""Not stated: with it, the slowdown of a node without techniques comes out as measured."""
SHAPE_7B = LayerShape(hidden=4096, ffn_hidden=11_008, sequence_tokens=256)
LAYERS_7B = 32

Batch = Literal[256, 512]
"""Sequences of the pipeline in an iteration."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One row: throughput by batch, None where it ran out of memory, and memory of a GPU."""

    tokens_per_s_256: float
    tokens_per_s_512: float | None
    memory_bytes_256: float

    def tokens_per_s(self, batch: Batch) -> float | None:
        """Return the throughput at a batch."""
        return self.tokens_per_s_256 if batch == 256 else self.tokens_per_s_512


NO_FAULT = Measured(28_120, 30_040, 41.5e9)
NO_TECHNIQUE = Measured(19_110, None, 76.1e9)
SKIP = Measured(30_230, None, 54.7e9)
SKIP_RECOMPUTE = Measured(26_410, 23_860, 38.5e9)
FULL = Measured(28_060, 27_190, 39.2e9)


class CostModel(Protocol):
    """Says what a node costs."""

    def node_cost(self, tasks: int) -> float:
        """Return the time of a node with 1, 2, 3, ... tasks over that of a node with one.

        Raises
        ------
        StrategyError
            A node has no task.
        """


@dataclass(frozen=True, slots=True)
class FlopCosts:
    """Counts FLOP.

    Attributes
    ----------
    shape : LayerShape
        The model's layers.
    techniques : Techniques
        What a node with several tasks uses.
    micro_batch_tokens : float
        Tokens of a micro-batch.
    step_tokens : float or None
        Tokens of a pipeline in a step, to spread decompositions over; None leaves them out.
    """

    shape: LayerShape
    techniques: Techniques
    micro_batch_tokens: float
    step_tokens: float | None = None

    def node_cost(self, tasks: int) -> float:
        _require_task(tasks)
        return self.node_flop(tasks).total / self.shape.normal_flop.total

    def node_flop(self, tasks: int) -> StageWork:
        """Return the FLOP a token and layer of a node, pass by pass."""
        if tasks == 1:
            return self.shape.normal_flop
        one = task_flop(self.shape, self.techniques, self.micro_batch_tokens, self.step_tokens)
        return one.scaled(tasks)


@dataclass(frozen=True, slots=True)
class CalibratedCosts:
    """Goes by a measurement: the cost of a node with two tasks (`doubled`)."""

    doubled: float

    def __post_init__(self) -> None:
        if not self.doubled > 0:
            raise StrategyError(
                "takeover.doubled", f"a cost of {self.doubled:g} cannot be", "use one above 0"
            )

    def node_cost(self, tasks: int) -> float:
        _require_task(tasks)
        return 1.0 if tasks == 1 else tasks * self.doubled / 2


def passes_of_task(costs: CostModel, tasks: int) -> tuple[float, float]:
    """Return what a task's forward and backward pass cost over those of a node with one.

    The techniques leave the forward pass, a third of a task, as it is (`task_flop`):
    what a node saves, or spends, is in the backward pass.
    """
    cost = costs.node_cost(tasks) / tasks
    return (1.0, (3.0 * cost - 1.0) / 2.0) if cost > 1 / 3 else (cost, cost)


def measured_costs(batch: Batch = 256, row: Measured = FULL) -> CalibratedCosts:
    """Return the costs that the published throughputs come to.

    Raises
    ------
    StrategyError
        The row ran out of memory at this batch.
    """
    healthy, doubled = NO_FAULT.tokens_per_s(batch), row.tokens_per_s(batch)
    if healthy is None or doubled is None:
        raise StrategyError(
            "takeover.batch", f"ran out of memory at {batch} sequences", "use a batch of 256"
        )
    return CalibratedCosts(doubled_cost(healthy / doubled, STAGES, MICRO_BATCHES))


def measured_costs_of(techniques: Techniques) -> CalibratedCosts:
    """Return the costs that the published throughput with these techniques comes to.

    Raises
    ------
    StrategyError
        They were not measured together.
    """
    used = (techniques.skip_attention, techniques.recompute_ffn, techniques.low_rank is not None)
    rows = {
        (False, False, False): NO_TECHNIQUE,
        (True, False, False): SKIP,
        (True, True, False): SKIP_RECOMPUTE,
        (True, True, True): FULL,
    }
    if used not in rows:
        raise StrategyError(
            "takeover.techniques",
            f"{techniques.name!r} was not measured",
            "state doubled_cost, use cost_model = 'flop', or add techniques in the order skip, "
            "recompute, low rank",
        )
    return measured_costs(256, rows[used])


def cost_of_other_model(known: float, ffn_share_ratio: float) -> float:
    """Return the cost of a node with two tasks for another model than the measured one.

    With all techniques a task leaves out attention's backward pass, two thirds of its time, and
    keeps a multiple s of the feed-forward network's third: ``x = 2/3 (1 + s phi)`` where phi is
    the network's share of a normal task's time. s phi is known from the measured x (`known`, more
    than 2/3), and another model's phi is another multiple of it (`ffn_share_ratio`).
    """
    return 2.0 / 3.0 * (1.0 + (1.5 * known - 1.0) * ffn_share_ratio)


def doubled_cost(slowdown: float, stages: int, micro_batches: int) -> float:
    """Return the cost of a node with two tasks from how much it slows its pipeline.

    With p stages, m micro-batches and a node that costs x >= 1, ``(m - 1) x + (p - 2) + x`` over
    ``m - 1 + p`` is the slowdown: the closed form of a pipeline, `approximate_iteration`. Where
    x < 1 the slowest stage is a normal one, and ``m - 1 + p - 2 + x`` stands above the line.

    Raises
    ------
    StrategyError
        The pipeline would be faster than one in which the node costs nothing.
    """
    time = slowdown * (micro_batches - 1 + stages)
    cost = (time - (stages - 2)) / micro_batches
    if cost < 1:
        cost = time - (micro_batches - 1) - (stages - 2)
    if not cost > 0:
        raise StrategyError(
            "takeover.slowdown", f"{slowdown:g} is too small for any cost", "use a measured one"
        )
    return cost


def _require_task(tasks: int) -> None:
    if tasks < 1:
        raise StrategyError("tasks", f"a node with {tasks} tasks costs nothing", "use 1 or more")


@dataclass(frozen=True, slots=True)
class StageMemory:
    """What a stage needs; all in bytes.

    Attributes
    ----------
    state_bytes : float
        Weights, their gradients, optimizer state.
    attention_bytes, ffn_bytes : float
        Activations that one micro-batch leaves for the backward pass in each half of the layers,
        the norm before it and the residual stream included.
    ffn_input_bytes : float
        The part of `ffn_bytes` from which the rest can be computed again.
    layers : int
        Layers of the stage; recomputation goes one by one.
    projection_bytes_per_rank : float
        Projections of all feed-forward matrices, for each direction that they keep.
    """

    state_bytes: float
    attention_bytes: float
    ffn_bytes: float
    ffn_input_bytes: float
    layers: int
    projection_bytes_per_rank: float = 0.0


def micro_batches_in_flight(node: int, nodes: int, micro_batches: int) -> int:
    """Return for how many micro-batches a node of a 1F1B pipeline keeps activations at most."""
    if not 0 <= node < nodes:
        raise StrategyError("node", f"there is no node {node}", f"use 0 to {nodes - 1}")
    return min(micro_batches, nodes - node)


def node_memory_bytes(
    stage: StageMemory,
    tasks: int,
    techniques: Techniques,
    in_flight: float,
    overhead_bytes: float = 0.0,
) -> float:
    """Return the bytes on a node that does the work of some stages (`tasks`) of equal size.

    It keeps the activations of `in_flight` micro-batches. The overhead is there whatever the work:
    contexts, buffers for communication, fragments. A node with one task uses no technique. Buffers
    for gradients of attention stay where its backward pass is skipped: the average over the other
    ranks comes there.
    """
    used = techniques if tasks > 1 else Techniques()
    attention = 0.0 if used.skip_attention else stage.attention_bytes
    ffn, once = stage.ffn_bytes, 0.0
    if used.recompute_ffn:
        ffn = stage.ffn_input_bytes
        # While a layer goes backward, its activations are there again.
        once = (stage.ffn_bytes - stage.ffn_input_bytes) / stage.layers
    projections = 0.0
    if used.low_rank is not None:
        projections = used.low_rank.rank * stage.projection_bytes_per_rank
    each = stage.state_bytes + in_flight * (attention + ffn) + projections
    return overhead_bytes + tasks * each + once


def overhead_from(measured_bytes: float, stage: StageMemory, in_flight: float) -> float:
    """Return what a measurement of a node with one task shows beyond its stage.

    The only constant that is calibrated: on a node without a fault.
    """
    return measured_bytes - node_memory_bytes(stage, 1, Techniques(), in_flight)
