"""A transformer layer in numpy, whose backward pass is exact, or that of a node with several tasks.

Each part has its forward pass and its exact backward pass, then the layer puts them together.
Arrays of activations have the shape (sequences, tokens, width); matrices are (inputs, outputs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from faultline.strategies.takeover.techniques import Techniques
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = dict[str, Array]

_NORM_EPSILON = 1e-6

WeightGradient = Callable[[str, Array, Array], Array]
"""Gradient of a matrix: from its name, its inputs, and the gradient of its outputs."""


def exact_weight_gradient(name: str, inputs: Array, output_gradient: Array) -> Array:
    """Return the sum over all tokens of input times gradient of the output."""
    del name
    return flat(inputs).T @ flat(output_gradient)


def flat(activations: Array) -> Array:
    """Return activations as (all tokens, width)."""
    return activations.reshape(-1, activations.shape[-1])


def norm_forward(inputs: Array, gain: Array) -> Array:
    """Return the root-mean-square norm (Zhang and Sennrich 2019) of each token, times a gain."""
    return gain * inputs * _inverse_scale(inputs)


def norm_backward(gradient: Array, inputs: Array, gain: Array) -> tuple[Array, Array]:
    """Return the gradients of the inputs and of the gain."""
    inverse = _inverse_scale(inputs)
    normed = inputs * inverse
    scaled = gradient * gain
    inner = (scaled * normed).mean(axis=-1, keepdims=True)
    gain_gradient: Array = flat(gradient * normed).sum(axis=0)
    return inverse * (scaled - normed * inner), gain_gradient


def _inverse_scale(inputs: Array) -> Array:
    scale: Array = 1.0 / np.sqrt((inputs**2).mean(axis=-1, keepdims=True) + _NORM_EPSILON)
    return scale


def softmax(scores: Array) -> Array:
    """Return exponentials over their sum along the last axis."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Array = powers / powers.sum(axis=-1, keepdims=True)
    return shares


@dataclass(frozen=True, slots=True)
class AttentionKept:
    """What attention keeps for its backward pass; per head but for inputs and outputs."""

    inputs: Array
    query: Array
    key: Array
    value: Array
    shares: Array
    mixed: Array


def attention_forward(inputs: Array, weights: Weights, heads: int) -> tuple[Array, AttentionKept]:
    """Return causal multi-head attention of each sequence, and what its backward pass needs."""
    query, key, value = (
        _by_head(inputs @ weights[name], heads) for name in ("query", "key", "value")
    )
    tokens = inputs.shape[1]
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    shares = softmax(scores)
    mixed = _together(shares @ value)
    kept = AttentionKept(inputs, query, key, value, shares, mixed)
    return mixed @ weights["output"], kept


def attention_backward(
    gradient: Array, kept: AttentionKept, weights: Weights
) -> tuple[Array, Weights]:
    """Return the gradients of the inputs and of the four matrices."""
    heads = kept.query.shape[1]
    found = {"output": exact_weight_gradient("output", kept.mixed, gradient)}
    mixed = _by_head(gradient @ weights["output"].T, heads)
    shares = mixed @ kept.value.swapaxes(-1, -2)
    scores = kept.shares * (shares - (shares * kept.shares).sum(axis=-1, keepdims=True))
    scores = scores / np.sqrt(kept.query.shape[-1])
    by_head = {
        "query": scores @ kept.key,
        "key": scores.swapaxes(-1, -2) @ kept.query,
        "value": kept.shares.swapaxes(-1, -2) @ mixed,
    }
    inputs = np.zeros_like(kept.inputs)
    for name, part in by_head.items():
        projected = _together(part)
        found[name] = exact_weight_gradient(name, kept.inputs, projected)
        inputs += projected @ weights[name].T
    return inputs, found


def _by_head(activations: Array, heads: int) -> Array:
    sequences, tokens, width = activations.shape
    return activations.reshape(sequences, tokens, heads, width // heads).swapaxes(1, 2)


def _together(by_head: Array) -> Array:
    sequences, heads, tokens, width = by_head.shape
    return by_head.swapaxes(1, 2).reshape(sequences, tokens, heads * width)


@dataclass(frozen=True, slots=True)
class FfnKept:
    """What the feed-forward network keeps for its backward pass."""

    inputs: Array
    gate: Array
    up: Array
    inner: Array


def ffn_forward(inputs: Array, weights: Weights) -> tuple[Array, FfnKept]:
    """Return SwiGLU (Shazeer 2020): ``(silu(x gate) * (x up)) down``, and what is kept."""
    gate, up = inputs @ weights["gate"], inputs @ weights["up"]
    inner = gate * _sigmoid(gate) * up
    return inner @ weights["down"], FfnKept(inputs, gate, up, inner)


def ffn_backward(
    gradient: Array, kept: FfnKept, weights: Weights, weight_gradient: WeightGradient
) -> tuple[Array, Weights]:
    """Return the exact gradient of the inputs, and those of the matrices as asked."""
    sigmoid = _sigmoid(kept.gate)
    inner = gradient @ weights["down"].T
    up = inner * kept.gate * sigmoid
    gate = inner * kept.up * sigmoid * (1.0 + kept.gate * (1.0 - sigmoid))
    found = {
        "down": weight_gradient("down", kept.inner, gradient),
        "gate": weight_gradient("gate", kept.inputs, gate),
        "up": weight_gradient("up", kept.inputs, up),
    }
    return gate @ weights["gate"].T + up @ weights["up"].T, found


def _sigmoid(values: Array) -> Array:
    shares: Array = 1.0 / (1.0 + np.exp(-values))
    return shares


FFN_MATRICES = ("gate", "up", "down")
ATTENTION_WEIGHTS = ("attention_norm", "query", "key", "value", "output")
"""What gets no gradient where attention's backward pass is skipped."""


@dataclass(frozen=True, slots=True)
class Backward:
    """How a layer goes backward."""

    # What is skipped, computed again, or approximated.
    techniques: Techniques = field(default_factory=Techniques)
    # For each feed-forward matrix, orthonormal directions of its inputs; needed for low rank (shape
    # (inputs, rank)).
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
