"""A transformer layer whose backward pass is exact, or that of a node with several tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from faultline.experiments.studies.mecefo.numerics.layers import (
    Array,
    AttentionKept,
    FfnKept,
    Weights,
    attention_backward,
    attention_forward,
    exact_weight_gradient,
    ffn_backward,
    ffn_forward,
    flat,
    norm_backward,
    norm_forward,
)
from faultline.strategies.takeover.techniques import Techniques

FFN_MATRICES = ("gate", "up", "down")
ATTENTION_WEIGHTS = ("attention_norm", "query", "key", "value", "output")
"""What gets no gradient where attention's backward pass is skipped."""


@dataclass(frozen=True, slots=True)
class Backward:
    """How a layer goes backward.

    Attributes
    ----------
    techniques : Techniques
        What is skipped, computed again, or approximated.
    projections : mapping of str to array, shape (inputs, rank)
        For each feed-forward matrix, orthonormal directions of its inputs; needed for low rank.
    """

    techniques: Techniques = field(default_factory=Techniques)
    projections: Mapping[str, Array] = field(default_factory=dict)

    def weight_gradient(self, name: str, inputs: Array, gradient: Array) -> Array:
        """Return the gradient of a feed-forward matrix: exact, or ``P (x P)^T g``."""
        if self.techniques.low_rank is None:
            return exact_weight_gradient(name, inputs, gradient)
        directions = self.projections[name]
        found: Array = directions @ ((flat(inputs) @ directions).T @ flat(gradient))
        return found


EXACT = Backward()


@dataclass(frozen=True, slots=True)
class BlockKept:
    """What a layer keeps; of attention nothing where it is skipped, inputs where it is redone."""

    inputs: Array
    middle: Array
    attention: AttentionKept | None
    ffn: FfnKept | None


def initial_weights(hidden: int, ffn_hidden: int, layers: int, rng: np.random.Generator) -> Weights:
    """Return random weights of a layer; those that end in the residual stream are smaller."""
    square = dict.fromkeys(("query", "key", "value", "output"), (hidden, hidden))
    shapes = {**square, "gate": (hidden, ffn_hidden), "up": (hidden, ffn_hidden)}
    shapes["down"] = (ffn_hidden, hidden)
    weights = {
        name: rng.normal(0.0, shape[0] ** -0.5, shape) for name, shape in sorted(shapes.items())
    }
    for name in ("output", "down"):
        weights[name] /= np.sqrt(2 * layers)
    return {**weights, "attention_norm": np.ones(hidden), "ffn_norm": np.ones(hidden)}


def block_forward(
    inputs: Array, weights: Weights, heads: int, how: Backward = EXACT
) -> tuple[Array, BlockKept]:
    """Return a layer's outputs and what its backward pass will need.

    ``y = x + attention(norm(x))``, then ``y + ffn(norm(y))``.
    """
    normed = norm_forward(inputs, weights["attention_norm"])
    mixed, attention = attention_forward(normed, weights, heads)
    middle = inputs + mixed
    outputs, ffn = ffn_forward(norm_forward(middle, weights["ffn_norm"]), weights)
    kept = BlockKept(
        inputs,
        middle,
        None if how.techniques.skip_attention else attention,
        None if how.techniques.recompute_ffn else ffn,
    )
    return middle + outputs, kept


def block_backward(
    gradient: Array, kept: BlockKept, weights: Weights, how: Backward = EXACT
) -> tuple[Array, Weights]:
    """Return the gradients of a layer's inputs and of its weights.

    Where attention is skipped the gradient goes along its residual connection, and none of
    `ATTENTION_WEIGHTS` has a gradient.
    """
    ffn = kept.ffn
    if ffn is None:
        _, ffn = ffn_forward(norm_forward(kept.middle, weights["ffn_norm"]), weights)
    normed_gradient, found = ffn_backward(gradient, ffn, weights, how.weight_gradient)
    middle, found["ffn_norm"] = norm_backward(normed_gradient, kept.middle, weights["ffn_norm"])
    middle += gradient
    if kept.attention is None:
        return middle, found
    normed_gradient, attention = attention_backward(middle, kept.attention, weights)
    inputs, norm = norm_backward(normed_gradient, kept.inputs, weights["attention_norm"])
    return middle + inputs, {**found, **attention, "attention_norm": norm}


def directions_of(matrix: Array, rank: int) -> Array:
    """Return the strongest directions of a matrix's inputs, orthonormal.

    Parameters
    ----------
    matrix : array, shape (inputs, outputs)
        A weight, or a past gradient of it.
    rank : int
        How many; at most all there are.

    Returns
    -------
    array, shape (inputs, rank)
        Singular vectors of the largest singular values.
    """
    left, _, _ = np.linalg.svd(matrix, full_matrices=False)
    return left[:, :rank]
