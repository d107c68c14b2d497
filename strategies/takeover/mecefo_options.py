"""Named choices of MeCeFO."""

from __future__ import annotations

from typing import Literal

from faultline.strategies.base import StrategyOptions
from faultline.strategies.takeover.node_costs import (
    CalibratedCosts,
    CostModel,
    FlopCosts,
    measured_costs_of,
)
from faultline.strategies.takeover.stage_work import LayerShape
from faultline.strategies.takeover.techniques import LowRank, Techniques
from pydantic import Field

_PAPER = "MeCeFO (NeurIPS 2025)"


class MecefoOptions(StrategyOptions):
    """Named choices of MeCeFO."""

    cost_model: Literal["calibrated", "flop"] = Field(
        "calibrated",
        description="What a node with several stages costs.",
        json_schema_extra={
            "source": "choice: counting FLOP alone predicts drops that are far too large",
            "choices": {
                "calibrated": "what the published throughput of one pipeline comes to, or "
                "doubled_cost",
                "flop": "its FLOP over those of a node with one stage",
            },
        },
    )
    doubled_cost: float | None = Field(
        None,
        gt=0,
        le=100,
        description="Cost of a node with two stages over that of one, in the calibrated model; "
        "unset: as measured for a 7B model.",
        json_schema_extra={
            "source": f"derived: 1.129 with all techniques ({_PAPER}, ablation)",
            "unit": "1",
            "only_with": {"strategy.mecefo.cost_model": "calibrated"},
        },
    )
    skip_attention: bool = Field(
        True,
        description="Whether a node with several stages goes backward past attention.",
        json_schema_extra={"source": _PAPER},
    )
    recompute_ffn: bool = Field(
        True,
        description="Whether it computes activations of the feed-forward network again.",
        json_schema_extra={"source": _PAPER},
    )
    low_rank: bool = Field(
        True,
        description="Whether its gradients of feed-forward weights are of low rank.",
        json_schema_extra={"source": _PAPER},
    )
    rank: int = Field(
        1024,
        ge=1,
        le=1_000_000,
        description="Directions that low rank keeps.",
        json_schema_extra={
            "source": "assumption: a quarter of the width, as GaLore has for 7B (Zhao et al. 2024, "
            "arXiv 2403.03507)",
            "unit": "1",
            "only_with": {"strategy.mecefo.cost_model": "flop"},
        },
    )
    takes_over: Literal["lighter", "before", "split", "rebalanced"] = Field(
        "lighter",
        description="Who does the stages of a failed node.",
        json_schema_extra={
            "source": "choice: the paper says that a neighbour does",
            "choices": {
                "lighter": "of the nearest live nodes on both sides the one with fewer stages",
                "split": "both of them, stage by stage the one with fewer",
                "before": "the nearest live node before it, or behind where there is none",
                "rebalanced": "all failed stages are dealt out anew to nodes next to them, so that "
                "the fullest node has as few as can be: a bound, moves are not paid for",
            },
        },
    )

    @property
    def techniques(self) -> Techniques:
        """What a node with several stages uses."""
        low_rank = LowRank(self.rank) if self.low_rank else None
        return Techniques(self.skip_attention, self.recompute_ffn, low_rank)

    def costs(self) -> CostModel:
        """Return what nodes cost.

        Raises
        ------
        StrategyError
            The techniques were not measured together, and no cost is stated.
        """
        if self.cost_model == "flop":
            job = self.job
            shape = LayerShape(job.hidden, job.ffn_hidden, job.sequence_tokens)
            return FlopCosts(shape, self.techniques, job.micro_batch_tokens)
        if self.doubled_cost is not None:
            return CalibratedCosts(self.doubled_cost)
        return measured_costs_of(self.techniques)
