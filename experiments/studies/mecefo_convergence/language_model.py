"""A decoder-only language model in JAX with an approximate backward pass for some layers.

The data-parallel ranks are an axis of the batch, so one backward pass gives the gradient that an
all-reduce would. `gradients` is the mean over all sequences. The gradient is exact, or that of
MeCeFO (NeurIPS 2025) if a node with several tasks computes a rank's layer. Its backward pass
bypasses attention along the residual connection. Attention's weights are averaged over the other
ranks; gradients of feed-forward matrices are projected on a few directions of their inputs.

Importing this module imports JAX, limited to one core: floating-point sums depend on the number of
cores. Compiled code is cached, separately for each machine.
"""

from __future__ import annotations

import os
import platform
from typing import Any, NamedTuple

import numpy as np
from faultline.platforms.cache_folder import cache_directory
from faultline.simulator.workload.transformer import Transformer
from numpy.typing import NDArray

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

jax.config.update(
    "jax_compilation_cache_dir", str(cache_directory() / "compiled" / platform.node())
)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

Array = Any
"""An array of JAX, or a tracer."""
Weights = dict[str, Array]
"""Weights of the model by name; those of layers have the layers as their first axis."""

ATTENTION_WEIGHTS = ("attention_norm", "query", "key", "value", "output")
"""Weights without a gradient if attention's backward pass is skipped."""
FFN_MATRICES = ("gate", "up", "down")
_LAYER_WEIGHTS = (*ATTENTION_WEIGHTS, *FFN_MATRICES, "ffn_norm")
_NORM_EPSILON = 1e-6
_ROTATION_BASE = 10_000.0


SMALL = Transformer(112, 304, heads=4, layers=8, sequence_tokens=64, vocabulary=256)
"""1.3 million parameters: a layer for each stage of the published pipelines; bytes are tokens."""
TINY = Transformer(32, 88, heads=2, layers=8, sequence_tokens=32, vocabulary=256)


class TakeOver(NamedTuple):
    """Layers with an approximate backward pass."""

    approximate: Array  # 1 for an approximate layer of a rank, 0 for others, shape (layers, ranks).
    # For each feed-forward matrix: orthonormal directions of its inputs, on which its gradient is
    # projected, shape (layers, ranks, inputs, rank); empty for exact gradients.
    directions: dict[str, Array]


def initial_weights(shape: Transformer, rng: np.random.Generator) -> Weights:
    """Return random weights; matrices that write to the residual stream start smaller."""
    hidden, layers = shape.hidden, shape.layers
    shapes = dict.fromkeys(("query", "key", "value", "output"), (hidden, hidden))
    shapes |= dict.fromkeys(("gate", "up"), (hidden, shape.ffn_hidden))
    shapes["down"] = (shape.ffn_hidden, hidden)
    weights = {
        name: rng.normal(0.0, size[0] ** -0.5, (layers, *size)) for name, size in shapes.items()
    }
    for name in ("output", "down"):
        weights[name] /= np.sqrt(2 * layers)
    for name in ("attention_norm", "ffn_norm"):
        weights[name] = np.ones((layers, hidden))
    weights["embedding"] = rng.normal(0.0, 1.0, (shape.vocabulary, hidden))
    weights["last_norm"] = np.ones(hidden)
    weights["head"] = rng.normal(0.0, hidden**-0.5, (hidden, shape.vocabulary))
    return {name: jnp.asarray(value, jnp.float32) for name, value in weights.items()}


def losses(
    weights: Weights, tokens: NDArray[Any] | Array, heads: int, take_over: TakeOver | None = None
) -> Array:
    """Return the mean loss of each sequence in nats per token, shape (ranks, sequences).

    Text is integers, shape (ranks, sequences, sequence_tokens + 1); the last token is only
    predicted. An approximate backward pass does not change the loss.
    """
    read, wanted = tokens[..., :-1].astype(int), tokens[..., 1:].astype(int)
    layers = {name: weights[name] for name in _LAYER_WEIGHTS}
    over = take_over or TakeOver(np.zeros((len(layers["gate"]), len(read))), {})

    def layer(stream: Array, of: tuple[Weights, Array, dict[str, Array]]) -> tuple[Array, None]:
        mine, approximate, directions = of
        mixed = _attention(_norm(stream, mine["attention_norm"]), mine, heads)
        if take_over:
            skipped = approximate[:, None, None, None] > 0
            mixed = jnp.where(skipped, jax.lax.stop_gradient(mixed), mixed)
        stream = stream + mixed
        normed = _norm(stream, mine["ffn_norm"])
        return stream + _feed_forward(normed, mine, approximate, directions), None

    stream = weights["embedding"][read]
    stream, _ = jax.lax.scan(layer, stream, (layers, *over), unroll=True)
    logits = _norm(stream, weights["last_norm"]) @ weights["head"]
    right = jnp.take_along_axis(jax.nn.log_softmax(logits), wanted[..., None], axis=-1)
    return -right[..., 0].mean(axis=-1)


def gradients(
    weights: Weights,
    tokens: NDArray[Any] | Array,
    heads: int,
    counts: Array,
    take_over: TakeOver | None = None,
) -> Weights:
    """Return the gradients of the mean loss over sequences, as after an all-reduce.

    Arguments are those of `losses`; `counts`, shape (ranks, sequences), is 1 for a trained
    sequence, and 0 for one of an idle or dropped rank.
    """

    def mean_loss(weights: Weights) -> Array:
        each = losses(weights, tokens, heads, take_over)
        return (each * counts).sum() / counts.sum()

    found: Weights = jax.grad(mean_loss)(weights)
    if take_over:
        # Averaged over the ranks that have a gradient; if none has, it is zero.
        trained = counts.sum(axis=1)
        exact = ((1.0 - take_over.approximate) * trained).sum(axis=1)
        factor = jnp.where(exact > 0, trained.sum() / jnp.maximum(exact, 1.0), 0.0)
        for name in ATTENTION_WEIGHTS:
            found[name] = found[name] * factor.reshape(-1, *[1] * (found[name].ndim - 1))
    return found


def directions_of(matrix: Array, rank: int) -> Array:
    """Return the strongest directions of a matrix's inputs: its first left singular vectors.

    `matrix` has the shape (inputs, outputs), the directions have the shape (inputs, rank).
    """
    return jnp.linalg.svd(matrix, full_matrices=False)[0][:, :rank]


def _norm(inputs: Array, gain: Array) -> Array:
    """Return the root-mean-square norm (Zhang and Sennrich 2019) of each token, times a gain."""
    scale = jax.lax.rsqrt((inputs**2).mean(axis=-1, keepdims=True) + _NORM_EPSILON)
    return gain * inputs * scale


def _attention(inputs: Array, weights: Weights, heads: int) -> Array:
    """Return causal multi-head attention with rotary positions (Su et al. 2021)."""
    *outer, tokens, hidden = inputs.shape
    query, key, value = (
        (inputs @ weights[name]).reshape(*outer, tokens, heads, hidden // heads)
        for name in ("query", "key", "value")
    )
    query, key = _rotated(query), _rotated(key)
    scores = jnp.einsum("rsqhd,rskhd->rshqk", query, key) / np.sqrt(hidden // heads)
    shares = jax.nn.softmax(jnp.where(np.tri(tokens, dtype=bool), scores, -jnp.inf))
    mixed = jnp.einsum("rshqk,rskhd->rsqhd", shares, value)
    return mixed.reshape(inputs.shape) @ weights["output"]


def _rotated(by_head: Array) -> Array:
    """Turn pairs of numbers by angles that grow with the position of their token."""
    tokens, width = by_head.shape[-3], by_head.shape[-1] // 2
    angles = np.outer(np.arange(tokens), _ROTATION_BASE ** -(np.arange(width) / width))
    cosine, sine = (jnp.asarray(of(angles), jnp.float32)[:, None, :] for of in (np.cos, np.sin))
    first, second = by_head[..., :width], by_head[..., width:]
    return jnp.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    )


def _feed_forward(
    inputs: Array, weights: Weights, approximate: Array, directions: dict[str, Array]
) -> Array:
    """Return SwiGLU (Shazeer 2020): ``(silu(x gate) * (x up)) down``."""

    def product(inputs: Array, name: str) -> Array:
        if name in directions:
            return _low_rank_product(inputs, weights[name], approximate, directions[name])
        return inputs @ weights[name]

    inner = jax.nn.silu(product(inputs, "gate")) * product(inputs, "up")
    return product(inner, "down")


def _product(inputs: Array, matrix: Array, *_of_gradients: Array) -> Array:
    """Return ``inputs @ matrix``; its gradient is that of `_gradients_of_product`."""
    return inputs @ matrix


def _gradients_of_product(kept: Any, gradient: Array) -> tuple[Array, Array, None, None]:
    """Return the exact gradient of the inputs, and ``P ((x P)^T g)`` for the matrix.

    For a rank that is not approximate, the second part is ``x^T g``.
    """
    inputs, matrix, approximate, directions = kept
    ranks = inputs.shape[0]
    x, g = inputs.reshape(ranks, -1, inputs.shape[-1]), gradient.reshape(ranks, -1, matrix.shape[1])
    each = approximate[:, None, None]
    exact = jnp.einsum("ktn,ktm->nm", x * (1.0 - each), g)
    inner = jnp.einsum("ktr,ktm->krm", x @ directions, g * each)
    lifted = jnp.einsum("knr,krm->nm", directions, inner)
    return gradient @ matrix.T, exact + lifted, None, None


_low_rank_product = jax.custom_vjp(_product)
_low_rank_product.defvjp(lambda *given: (given[0] @ given[1], given), _gradients_of_product)
