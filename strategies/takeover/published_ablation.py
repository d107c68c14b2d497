"""Measurements of the techniques, one by one: MeCeFO (NeurIPS 2025), ablation on 8 A100.

7B model, one pipeline of 8 stages, one of them failed, sequences of 256 tokens. Speed is of the
whole pipeline. Memory is at the smaller batch; of which GPU it is, and where in the pipeline the
failed stage was, is not stated. GB are taken as 1e9 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from faultline.strategies.takeover.stage_work import LayerShape

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
    """One row.

    Attributes
    ----------
    tokens_per_s_256, tokens_per_s_512 : float or None
        Throughput by batch; None where it ran out of memory.
    memory_bytes_256 : float
        Memory of a GPU.
    """

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
