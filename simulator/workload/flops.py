"""Floating-point operations of training a transformer, by pass and by half of the layer.

A multiplication and an addition are two. Only matrix products count. Each weight costs 2 FLOP a
token forward, 2 for the gradient of the inputs, 2 for that of the weights. The scores of attention,
``Q K^T`` and their product with V, have no weights: they cost ``4 s h`` forward and twice that for
the gradient of their inputs. Masked positions count, as in the source.

References
----------
Narayanan et al. 2021, Efficient large-scale language model training on GPU clusters using
Megatron-LM, SC21, appendix: ``96 B s l h^2 (1 + s/(6 h) + V/(16 l h))`` for a batch of B sequences
with full recomputation.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultline.simulator.workload.transformer import Transformer
from faultline.strategies.stage_work import Halves


@dataclass(frozen=True, slots=True)
class TokenFlop:
    """FLOP for one token: of one layer in each pass, and of the output projection forward.

    The output projection costs `vocabulary` in each of the three passes.
    """

    forward: Halves
    input_gradient: Halves
    weight_gradient: Halves
    vocabulary: float

    @property
    def layer_total(self) -> float:
        """FLOP of one layer in all three passes."""
        return self.forward.total + self.input_gradient.total + self.weight_gradient.total


def token_flop(model: Transformer) -> TokenFlop:
    """Return the FLOP of a model for one token."""
    projections = 2.0 * model.attention_matrix_parameters
    scores = 4.0 * model.sequence_tokens * model.hidden
    ffn = 2.0 * model.active_ffn_parameters
    return TokenFlop(
        forward=Halves(projections + scores, ffn),
        input_gradient=Halves(projections + 2 * scores, ffn),
        weight_gradient=Halves(projections, ffn),
        vocabulary=2.0 * model.hidden * model.vocabulary,
    )


def training_flop_per_token(model: Transformer) -> float:
    """Return the FLOP of forward and backward for one token, without recomputation."""
    flop = token_flop(model)
    return model.layers * flop.layer_total + 3 * flop.vocabulary
