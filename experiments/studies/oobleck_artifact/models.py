"""The artifact's models, and what is derived of them: least nodes, templates, speeds by nodes.

Dimensions: Devlin et al. 2019 (BERT-large), Radford et al. 2019 (GPT-2, 345M), Brown et al. 2020,
table 2.1 (GPT-3 medium, 2.7B, 6.7B).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from faultline.simulator.workload.flops import token_flop
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.memory import Recompute, gpu_memory
from faultline.simulator.workload.transformer import Transformer
from faultline.strategies.takeover.pipelines import (
    instantiated,
    iteration_time,
    templates_needed,
)
from faultline.strategies.takeover.published_oobleck import LEAST_NODES, MOST_NODES
from faultline.strategies.takeover.templates import Template, TemplatePlanner

NODES = range(MOST_NODES, LEAST_NODES - 1, -1)
"""Live nodes of the fifteen intervals."""

GPU_BYTES = 48e9
"""An A40: assumed, as nothing that is known here states it."""

FAILURES = 1
"""Losses at once that templates provide for: two pipelines of 8 are the least for 6.7B."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model."""

    shape: Transformer  # Its dimensions.
    # Samples of a step. Of BERT-large and 6.7B it follows from what is printed (a step of 22 s;
    # 1,024). Of the others it is the power of two whose effective time under Oobleck at 10 min
    # comes nearest to what is printed: that one cell is no prediction.
    batch: int
    # Nodes of the shortest pipeline; None: by the memory of a GPU. 6.7B trains on 16 nodes and not
    # on 15, so a pipeline has 8.
    least_nodes: int | None = None


def _model(
    hidden: int, heads: int, layers: int, tokens: int, batch: int, least: int | None = None,
    vocabulary: int = 50_257,
) -> Model:  # fmt: skip
    shape = Transformer(
        hidden, 4 * hidden, heads, layers, tokens, vocabulary, learned_positions=True, biases=True
    )
    return Model(shape, batch, least)


MODELS = {
    "BERT-large": _model(1_024, 16, 24, 512, 8_192, vocabulary=30_522),
    "GPT-2": _model(1_024, 16, 24, 1_024, 1_024),
    "medium": _model(1_024, 16, 24, 2_048, 1_024),
    "2.7B": _model(2_560, 32, 32, 2_048, 512),
    "6.7B": _model(4_096, 32, 32, 2_048, 1_024, least=8),
}


def least_nodes_by_memory(model: Model, recompute: Recompute = "full") -> int:
    """Return the nodes of the shortest pipeline whose fullest GPU holds what it needs.

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

    def stage_time(first: int, end: int, gpus: int) -> float:
        output = 3 * flop.vocabulary if end == layers else 0.0
        return ((end - first) * flop.layer_total + output) / (flop.layer_total * gpus)

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
    """Return the same for pipelines of equal length; nodes that are left over idle."""
    templates, batch = templates_of(name), MODELS[name].batch
    return tuple(
        min(
            iteration_time([one] * (nodes // one.nodes), batch)
            for one in templates.values()
            if one.nodes <= nodes
        )
        for nodes in NODES
    )
