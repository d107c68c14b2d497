"""The published setting: models, failure scenarios, and what follows from no-fault throughput.

MeCeFO (NeurIPS 2025): 4 nodes of 8 A100, four pipelines of eight stages, a GPU a stage. Throughput
without failures is input, and so is the ablation of one pipeline; drops are not.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultline.strategies.takeover.node_costs import NO_FAULT, cost_of_other_model, measured_costs
from faultline.strategies.takeover.stage_work import LayerShape

GROUPS, STAGES = 4, 8
GPUS = GROUPS * STAGES
SEQUENCE_TOKENS = 256
SYSTEMS = ("bamboo", "oobleck", "mecefo")

_PUBLISHED_SCENARIOS = ("low", "mid", "high")

DROPS_PERCENT: dict[tuple[str, str], tuple[float, float, float]] = {
    ("bamboo", "350M"): (2.09, 3.79, 7.04),
    ("oobleck", "350M"): (4.20, 5.80, 10.14),
    ("mecefo", "350M"): (0.15, 0.50, 1.07),
    ("bamboo", "7B"): (7.73, 13.42, 20.84),
    ("oobleck", "7B"): (14.78, 22.87, 28.09),
    ("mecefo", "7B"): (2.67, 3.08, 4.18),
}
"""Published drops of the throughput by system and model: low, mid, high."""

THOUSAND_TOKENS_PER_S: dict[tuple[str, str], tuple[float, float, float]] = {
    ("bamboo", "350M"): (428.90, 421.45, 407.22),
    ("oobleck", "350M"): (674.15, 662.93, 632.40),
    ("mecefo", "350M"): (1197.39, 1193.25, 1186.35),
    ("bamboo", "7B"): (11.45, 10.74, 9.82),
    ("oobleck", "7B"): (57.05, 51.63, 48.14),
    ("mecefo", "7B"): (108.15, 107.70, 106.47),
}
"""Published throughputs, likewise."""


def published(
    table: dict[tuple[str, str], tuple[float, float, float]], system: str, model: str, scenario: str
) -> float | None:
    """Return a published value; None where there is none."""
    known = dict(zip(_PUBLISHED_SCENARIOS, table.get((system, model), ()), strict=False))
    return known.get(scenario)


@dataclass(frozen=True, slots=True)
class Model:
    """A model and how it is trained."""

    name: str  # What tables call it.
    shape: LayerShape  # A layer.
    # Layers, and heads of attention.
    layers: int
    heads: int
    sequences: int  # Sequences of a global batch.
    no_fault_tokens_per_s: dict[str, float]  # Published throughput without failures, by system.
    # Nodes of the shortest pipeline: 8 for 6.7B (published: 16 nodes, two pipelines), and for
    # smaller models as many as their parameters are to those, at least one.
    oobleck_least_nodes: int

    @property
    def parameters(self) -> float:
        """Weights of the layers."""
        hidden, ffn = self.shape.hidden, self.shape.ffn_hidden
        return self.layers * (4.0 * hidden * hidden + 3.0 * hidden * ffn)

    @property
    def batch_tokens(self) -> int:
        """Tokens of a global batch."""
        return self.sequences * SEQUENCE_TOKENS

    @property
    def bamboo_work_share(self) -> float:
        """Share of Bamboo's step that is as long as MeCeFO's, of the same work on the same GPUs.

        What its step has beyond that is not work that nodes share.
        """
        return self.no_fault_tokens_per_s["bamboo"] / self.no_fault_tokens_per_s["mecefo"]

    def step_s(self, system: str) -> float:
        """Return the seconds of a step without failures."""
        return self.batch_tokens / self.no_fault_tokens_per_s[system]


def _model(
    name: str,
    widths: tuple[int, int],
    layers: int,
    heads: int,
    sequences: int,
    no_fault: tuple[float, float, float],
    oobleck_least_nodes: int,
) -> Model:
    throughputs = dict(zip(SYSTEMS, no_fault, strict=True))
    shape = LayerShape(*widths, SEQUENCE_TOKENS)
    return Model(name, shape, layers, heads, sequences, throughputs, oobleck_least_nodes)


MODELS = {
    model.name: model
    for model in (
        _model("350M", (1024, 2736), 24, 16, 8192, (438_060, 703_730, 1_199_230), 1),
        _model("1B", (2048, 5461), 24, 32, 4096, (153_750, 291_050, 471_190), 2),
        _model("7B", (4096, 11_008), 32, 32, 1024, (12_410, 66_950, 111_120), 8),
    )
}


@dataclass(frozen=True, slots=True)
class Failures:
    """A failure scenario."""

    name: str  # What tables call it.
    mtbf_s: float  # Seconds from one failure of any GPU to the next, on average.
    repair_s: float  # Seconds until a failed GPU is back.
    hours: float  # Hours that a run is long.


SCENARIOS = {
    failures.name: failures
    for failures in (
        Failures("low", 7200.0, 14_400.0, 600.0),
        Failures("mid", 3600.0, 10_800.0, 450.0),
        Failures("high", 1800.0, 7200.0, 300.0),
        Failures("higher", 600.0, 2400.0, 100.0),
    )
}


def all_reduce_s(model: Model) -> float:
    """Return the seconds by which four pipelines' step is longer than one pipeline's.

    For 7B: of a quarter of the batch on one pipeline (ablation) against the batch on four. For
    others in proportion to their weights.
    """
    known = MODELS["7B"]
    one_pipeline_s = known.batch_tokens / GROUPS / NO_FAULT.tokens_per_s_256
    return (known.step_s("mecefo") - one_pipeline_s) * model.parameters / known.parameters


def doubled_cost(model: Model) -> float:
    """Return what a node with two stages costs, over one with one.

    Measured for 7B. The feed-forward network's share of another model's time follows from its FLOP
    at the same speed and from that model's throughput without failures.
    """
    known = MODELS["7B"]

    def ffn_over_time(of: Model) -> float:
        return of.shape.forward_flop.ffn * of.layers * of.no_fault_tokens_per_s["mecefo"]

    return cost_of_other_model(
        measured_costs().doubled, ffn_over_time(model) / ffn_over_time(known)
    )


def state_bytes(model: Model) -> float:
    """Return weights and optimizer state: 16-bit weights, 32-bit weights and moments."""
    return 14.0 * model.parameters
