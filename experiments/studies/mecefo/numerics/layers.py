"""The parts of a transformer layer in numpy: each forward pass with its exact backward pass.

Arrays of activations have the shape (sequences, tokens, width); matrices are (inputs, outputs).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
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
