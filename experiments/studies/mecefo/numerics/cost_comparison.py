"""Cost of a node with two tasks, by technique: by FLOP and as measured, and what the gap says."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.experiments.studies.mecefo.numerics.memory_comparison import ASSUMED_RANK
from faultline.strategies.takeover.node_costs import FlopCosts, measured_costs
from faultline.strategies.takeover.pipeline_schedule import approximate_iteration, pipeline_timeline
from faultline.strategies.takeover.published_ablation import (
    FULL,
    MICRO_BATCHES,
    NO_FAULT,
    NO_TECHNIQUE,
    SHAPE_7B,
    SKIP,
    SKIP_RECOMPUTE,
    STAGES,
    Measured,
)
from faultline.strategies.takeover.stage_work import proportional_work
from faultline.strategies.takeover.techniques import LowRank, Techniques, low_rank_share
from scipy.optimize import brentq

TOKENS = 256 / MICRO_BATCHES * SHAPE_7B.sequence_tokens
"""Tokens of a micro-batch at a batch of 256 sequences."""

ROWS: tuple[tuple[Techniques, Measured], ...] = (
    (Techniques(), NO_TECHNIQUE),
    (Techniques(True), SKIP),
    (Techniques(True, True), SKIP_RECOMPUTE),
    (Techniques(True, True, LowRank(ASSUMED_RANK)), FULL),
)


@dataclass(frozen=True, slots=True)
class CostRow:
    """Costs over those of a node with one task.

    Attributes
    ----------
    technique : str
        What the node uses.
    flop, measured : float
        By FLOP; from the measured throughput and the closed form of a pipeline, at 256 sequences.
    measured_512 : float or None
        The same at 512 sequences; None where it ran out of memory.
    slowdown_by_flop, slowdown_measured : float
        Iteration of the pipeline over one without a fault.
    measured_first, measured_last : float
        From the measured throughput and an exact 1F1B pipeline, the node its first or its last.
    """

    technique: str
    flop: float
    measured: float
    measured_512: float | None
    slowdown_by_flop: float
    slowdown_measured: float
    measured_first: float
    measured_last: float


def cost_rows() -> list[CostRow]:
    """Return the ablation's costs, one row a set of techniques."""
    rows = []
    for techniques, measured in ROWS:
        flop = FlopCosts(SHAPE_7B, techniques, TOKENS, MICRO_BATCHES * TOKENS).node_cost(2)
        slowdown = NO_FAULT.tokens_per_s_256 / measured.tokens_per_s_256
        at_512 = measured.tokens_per_s_512
        rows.append(
            CostRow(
                technique=techniques.name,
                flop=flop,
                measured=measured_costs(256, measured).doubled,
                measured_512=None if at_512 is None else measured_costs(512, measured).doubled,
                slowdown_by_flop=_closed_form(flop) / _closed_form(None),
                slowdown_measured=slowdown,
                measured_first=cost_at_place(slowdown, 0),
                measured_last=cost_at_place(slowdown, STAGES - 2),
            )
        )
    return rows


def cost_at_place(slowdown: float, place: int) -> float:
    """Return the cost that slows an exact 1F1B pipeline by so much, at a place from the front."""
    healthy_s = pipeline_timeline([proportional_work(1.0)] * STAGES, MICRO_BATCHES).iteration_s

    def too_slow(cost: float) -> float:
        costs = [1.0] * (STAGES - 1)
        costs[place] = cost
        stages = [proportional_work(each) for each in costs]
        return pipeline_timeline(stages, MICRO_BATCHES).iteration_s / healthy_s - slowdown

    return float(brentq(too_slow, 1e-6, 10.0))


def attention_over_ffn_time() -> float:
    """Return the time of attention over that of the network, as the row with skip alone has it.

    Two tasks without attention's backward pass are ``2 (a + 3 b)`` of ``3 (a + b)``; the measured
    cost x gives ``a/b = (6 - 3 x)/(3 x - 2)``. By FLOP it is 0.51.
    """
    cost = measured_costs(256, SKIP).doubled
    return (6 - 3 * cost) / (3 * cost - 2)


def implied_rank() -> float:
    """Return the rank at which a low-rank weight gradient saves what was measured.

    Recomputation adds as much time as an exact weight gradient takes; of that, low rank takes back
    ``1 - rho``.
    """
    skip, recompute, full = (
        measured_costs(256, row).doubled for row in (SKIP, SKIP_RECOMPUTE, FULL)
    )
    share = (full - skip) / (recompute - skip)
    return share / low_rank_share(SHAPE_7B, 1, TOKENS)


def _closed_form(doubled: float | None) -> float:
    costs = [1.0] * STAGES if doubled is None else [*[1.0] * (STAGES - 2), doubled]
    return approximate_iteration(costs, MICRO_BATCHES)
