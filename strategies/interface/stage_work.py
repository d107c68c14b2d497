"""The work of a pipeline stage on one micro-batch, by pass and by half of the transformer layer.

For each token and layer of a model of hidden width d, inner width f and sequences of s tokens,
attention costs ``a = 8 d^2 + 4 s d`` FLOP forward and the gated feed-forward network ``b = 6 d f``.
The gradients of the inputs and of the weights each cost the same again: a normal task is
``3 a + 3 b``. The scores of attention have no weights; their two products in the backward pass
count one to each gradient.

A node with several tasks can skip, recompute or approximate parts of them. These three techniques
(MeCeFO, NeurIPS 2025) are switched independently.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Halves:
    """Work (FLOP or seconds) of attention and of the feed-forward network."""

    attention: float = 0.0
    ffn: float = 0.0

    @property
    def total(self) -> float:
        """Both halves."""
        return self.attention + self.ffn

    def scaled(self, factor: float) -> Halves:
        """Return the same work times a factor."""
        return Halves(self.attention * factor, self.ffn * factor)


@dataclass(frozen=True, slots=True)
class StageWork:
    """Work of a stage on one micro-batch, by pass: FLOP or seconds."""

    forward: Halves  # The forward pass.
    recompute: Halves  # Recomputation of activations in the backward pass.
    # The two gradients of the backward pass.
    input_gradient: Halves
    weight_gradient: Halves

    @property
    def backward(self) -> float:
        """Recomputation and both gradients."""
        return self.recompute.total + self.input_gradient.total + self.weight_gradient.total

    @property
    def total(self) -> float:
        """Forward and backward."""
        return self.forward.total + self.backward

    def scaled(self, factor: float) -> StageWork:
        """Return the same work times a factor: layers, tokens, or seconds per FLOP."""
        return StageWork(
            self.forward.scaled(factor),
            self.recompute.scaled(factor),
            self.input_gradient.scaled(factor),
            self.weight_gradient.scaled(factor),
        )


@dataclass(frozen=True, slots=True)
class LayerShape:
    """The dimensions of a transformer layer that determine its cost.

    Width of the residual stream (d), inner width of the gated feed-forward network (f), and tokens
    per sequence (s).
    """

    hidden: int
    ffn_hidden: int
    sequence_tokens: int

    @property
    def forward_flop(self) -> Halves:
        """FLOP per token of a forward pass: a and b of the module's formulas."""
        attention = 8.0 * self.hidden**2 + 4.0 * self.sequence_tokens * self.hidden
        return Halves(attention, 6.0 * self.hidden * self.ffn_hidden)

    @property
    def normal_flop(self) -> StageWork:
        """FLOP per token of a node with one task."""
        forward = self.forward_flop
        return StageWork(forward, Halves(), forward, forward)


@dataclass(frozen=True, slots=True)
class LowRank:
    """Gradients of feed-forward weights, projected on r directions of their input.

    With b tokens per micro-batch and a matrix of n inputs and m outputs, ``2 b r n`` FLOP project
    the inputs, ``2 b r m`` multiply them by the gradients of the outputs and ``2 r m n`` lift the
    result, instead of ``2 b m n``. Every `refresh_steps` steps the directions are recomputed as
    right singular vectors.
    """

    rank: int  # Directions kept, r.
    refresh_steps: int = 100  # Steps of training from one singular value decomposition to the next.


@dataclass(frozen=True, slots=True)
class Techniques:
    """The techniques of a node with several tasks; by default none."""

    # The backward pass bypasses attention along the residual connection and computes no gradients
    # of attention's inputs or weights.
    skip_attention: bool = False
    # Activations of the feed-forward network are recomputed instead of kept.
    recompute_ffn: bool = False
    # Low-rank gradients of feed-forward weights; None for exact gradients.
    low_rank: LowRank | None = None

    @property
    def name(self) -> str:
        """Label in tables."""
        parts = [
            name
            for name, used in (
                ("skip", self.skip_attention),
                ("recompute", self.recompute_ffn),
                ("low rank", self.low_rank is not None),
            )
            if used
        ]
        return " + ".join(parts) or "none"


def task_flop(shape: LayerShape, techniques: Techniques, tokens: float) -> StageWork:
    """Return the FLOP per token and layer of one task of a node that uses the techniques.

    With all three it is ``a + 4 b - (1 - rho) b``, where rho is `low_rank_share`. Recomputation
    adds the cost of an exact weight gradient; low rank saves all but rho of that. Two tasks of the
    7B model with all three thus cost at least 1.549 normal ones, as without recomputation and low
    rank. They come that close only with r up to 3; with r = 1024 they cost 1.755.

    The cost of lifting a low-rank gradient is divided by the tokens of a micro-batch (`tokens`).
    Decompositions are left out: they are rare, and add less than 0.2 % for the 7B model.
    """
    forward = shape.forward_flop
    kept = Halves(0.0 if techniques.skip_attention else forward.attention, forward.ffn)
    weight_ffn = forward.ffn
    if techniques.low_rank is not None:
        weight_ffn *= low_rank_share(shape, techniques.low_rank.rank, tokens)
    return StageWork(
        forward=forward,
        recompute=Halves(ffn=forward.ffn if techniques.recompute_ffn else 0.0),
        input_gradient=kept,
        weight_gradient=Halves(kept.attention, weight_ffn),
    )


def low_rank_share(shape: LayerShape, rank: int, tokens: float) -> float:
    """Return the FLOP of a low-rank weight gradient over those of the exact one.

    ``(2 b r n + 2 b r m + 2 r m n)/(2 b m n) = r/m + r/n + r/b``; above 1 if the rank is too high
    to save work.
    """
    return rank / shape.hidden + rank / shape.ffn_hidden + rank / tokens
