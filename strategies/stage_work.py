"""The work of a pipeline stage on one micro-batch, by pass and by half of the transformer layer.

For each token and layer of a model of hidden width d, inner width f and sequences of s tokens,
attention costs ``a = 8 d^2 + 4 s d`` FLOP forward and the gated feed-forward network ``b = 6 d f``.
The gradient of the inputs costs as much again, and so does that of the weights: a normal task is
``3 a + 3 b``. The scores of attention have no weights; their two products of the backward pass
are counted one to each gradient.

A node with several tasks leaves some of it out, computes it again, or approximates it: three
techniques (MeCeFO, NeurIPS 2025), each of which can be switched by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultline.strategies.errors import StrategyError


@dataclass(frozen=True, slots=True)
class Halves:
    """An amount of work (FLOP, or seconds) of attention and of the feed-forward network."""

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
    """What a stage does with one micro-batch, pass by pass: FLOP, or seconds.

    Attributes
    ----------
    forward : Halves
        The forward pass.
    recompute : Halves
        Activations that the backward pass computes again.
    input_gradient, weight_gradient : Halves
        The two gradients of the backward pass.
    """

    forward: Halves
    recompute: Halves
    input_gradient: Halves
    weight_gradient: Halves

    def __post_init__(self) -> None:
        for halves in (self.forward, self.recompute, self.input_gradient, self.weight_gradient):
            if not (halves.attention >= 0 and halves.ffn >= 0):
                raise StrategyError("stage", f"work of {halves.total:g} cannot be", "use 0 or more")

    @property
    def backward(self) -> float:
        """Recomputation and both gradients."""
        return self.recompute.total + self.input_gradient.total + self.weight_gradient.total

    @property
    def total(self) -> float:
        """Forward and backward."""
        return self.forward.total + self.backward

    def scaled(self, factor: float) -> StageWork:
        """Return the same work times a factor: layers, tokens, or seconds a FLOP."""
        return StageWork(
            self.forward.scaled(factor),
            self.recompute.scaled(factor),
            self.input_gradient.scaled(factor),
            self.weight_gradient.scaled(factor),
        )


@dataclass(frozen=True, slots=True)
class LayerShape:
    """The dimensions of a transformer layer that decide what it costs.

    Width of the residual stream (d), inner width of the gated feed-forward network (f), and tokens
    of a sequence (s).
    """

    hidden: int
    ffn_hidden: int
    sequence_tokens: int

    def __post_init__(self) -> None:
        for name in ("hidden", "ffn_hidden", "sequence_tokens"):
            if getattr(self, name) < 1:
                raise StrategyError(
                    f"layer.{name}", f"{getattr(self, name)} is too small", "use 1 or more"
                )

    @property
    def forward_flop(self) -> Halves:
        """FLOP a token of a forward pass: a and b of the module's formulas."""
        attention = 8.0 * self.hidden**2 + 4.0 * self.sequence_tokens * self.hidden
        return Halves(attention, 6.0 * self.hidden * self.ffn_hidden)

    @property
    def normal_flop(self) -> StageWork:
        """FLOP a token of a node with one task."""
        forward = self.forward_flop
        return StageWork(forward, Halves(), forward, forward)


def proportional_work(cost: float) -> StageWork:
    """Return work in the proportions 1 : 1 : 1 of a normal task, `cost` in all.

    For schedules that know of a stage only how long it takes.
    """
    third = Halves(ffn=cost / 3)
    return StageWork(third, Halves(), third, third)


@dataclass(frozen=True, slots=True)
class LowRank:
    """Gradients of feed-forward weights, projected on r directions of their input.

    With b tokens of a micro-batch and a matrix of n inputs and m outputs, ``2 b r n`` FLOP project
    the inputs, ``2 b r m`` multiply them by the gradients of the outputs and ``2 r m n`` lift the
    result: instead of ``2 b m n``. Every so many steps the directions are computed afresh, as
    right singular vectors.

    Attributes
    ----------
    rank : int
        Directions kept, r.
    refresh_steps : int
        Steps of training from one singular value decomposition to the next.
    """

    rank: int
    refresh_steps: int = 100

    def __post_init__(self) -> None:
        for name in ("rank", "refresh_steps"):
            if getattr(self, name) < 1:
                raise StrategyError(
                    f"low_rank.{name}", f"{getattr(self, name)} is too small", "use 1 or more"
                )


@dataclass(frozen=True, slots=True)
class Techniques:
    """Which techniques a node with several tasks uses; by default none, it does all the work.

    Attributes
    ----------
    skip_attention : bool
        The backward pass goes past attention along the residual connection: neither gradients of
        its inputs nor of its weights.
    recompute_ffn : bool
        Activations of the feed-forward network are computed again instead of kept.
    low_rank : LowRank or None
        Gradients of feed-forward weights at low rank; None for exact ones.
    """

    skip_attention: bool = False
    recompute_ffn: bool = False
    low_rank: LowRank | None = None

    @property
    def name(self) -> str:
        """What a table calls them."""
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


def task_flop(
    shape: LayerShape, techniques: Techniques, tokens: float, step_tokens: float | None = None
) -> StageWork:
    """Return the FLOP a token and layer of one task of a node that uses the techniques.

    With all three it is ``a + 4 b - (1 - rho) b`` where rho is `low_rank_share`: recomputation adds
    what an exact weight gradient costs, so that low rank takes back all but rho of it. Two tasks of
    the 7B model with all three thus cost at least 1.549 normal ones, what they cost without
    recomputation and low rank; that close only with r up to 3. With r = 1024 they cost 1.755.

    The lifting of a low-rank gradient spreads over the tokens of a micro-batch (`tokens`), a
    decomposition over `refresh_steps` times those of a pipeline's whole step (`step_tokens`); None
    leaves decompositions out.
    """
    forward = shape.forward_flop
    kept = Halves(0.0 if techniques.skip_attention else forward.attention, forward.ffn)
    weight_ffn = forward.ffn
    if techniques.low_rank is not None:
        weight_ffn *= low_rank_share(shape, techniques.low_rank.rank, tokens)
        if step_tokens is not None:
            spread = techniques.low_rank.refresh_steps * step_tokens
            weight_ffn += decomposition_flop(shape) / spread
    return StageWork(
        forward=forward,
        recompute=Halves(ffn=forward.ffn if techniques.recompute_ffn else 0.0),
        input_gradient=kept,
        weight_gradient=Halves(kept.attention, weight_ffn),
    )


def low_rank_share(shape: LayerShape, rank: int, tokens: float) -> float:
    """Return the FLOP of a low-rank weight gradient over those of the exact one.

    ``(2 b r n + 2 b r m + 2 r m n)/(2 b m n) = r/m + r/n + r/b``; it is above 1 where the rank is
    too high to save anything.
    """
    return rank / shape.hidden + rank / shape.ffn_hidden + rank / tokens


def decomposition_flop(shape: LayerShape) -> float:
    """Return the FLOP of the singular value decompositions of a layer's three matrices.

    ``2 m n^2 + 11 n^3`` for singular values and right vectors of an m x n matrix, m >= n (Golub and
    Van Loan, Matrix computations, R-SVD).
    """
    short, tall = sorted((shape.hidden, shape.ffn_hidden))
    return 3 * (2.0 * tall * short**2 + 11.0 * short**3)
