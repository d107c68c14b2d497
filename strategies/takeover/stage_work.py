"""The work of a pipeline stage on one micro-batch, by pass and by half of the transformer layer.

For each token and layer of a model of hidden width d, inner width f and sequences of s tokens,
attention costs ``a = 8 d^2 + 4 s d`` FLOP forward and the gated feed-forward network ``b = 6 d f``.
The gradient of the inputs costs as much again, and so does that of the weights: a normal task is
``3 a + 3 b``. The scores of attention have no weights; their two products of the backward pass
are counted one to each gradient.
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
