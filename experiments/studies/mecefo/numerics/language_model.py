"""A small language model of such layers, and synthetic text whose next token needs attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from faultline.experiments.studies.mecefo.numerics.block import (
    EXACT,
    Backward,
    block_backward,
    block_forward,
    initial_weights,
)
from faultline.experiments.studies.mecefo.numerics.layers import (
    Weights,
    exact_weight_gradient,
    norm_backward,
    norm_forward,
    softmax,
)
from numpy.typing import NDArray

Tokens = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of the model; the defaults train in seconds."""

    hidden: int = 32
    ffn_hidden: int = 88
    heads: int = 4
    layers: int = 4
    sequence_tokens: int = 16
    vocabulary: int = 32


def initial_model(shape: Dimensions, rng: np.random.Generator) -> Weights:
    """Return random weights: those of layer 2 are ``2.query`` and so on."""
    weights = {
        f"{layer}.{name}": weight
        for layer in range(shape.layers)
        for name, weight in initial_weights(
            shape.hidden, shape.ffn_hidden, shape.layers, rng
        ).items()
    }
    scale = shape.hidden**-0.5
    return {
        **weights,
        "embedding": rng.normal(0.0, 1.0, (shape.vocabulary, shape.hidden)),
        "positions": rng.normal(0.0, 1.0, (shape.sequence_tokens, shape.hidden)),
        "last_norm": np.ones(shape.hidden),
        "head": rng.normal(0.0, scale, (shape.hidden, shape.vocabulary)),
    }


def layer_weights(weights: Weights, layer: int) -> Weights:
    """Return the weights of one layer by their names in it."""
    prefix = f"{layer}."
    return {
        name.removeprefix(prefix): weight
        for name, weight in weights.items()
        if name.startswith(prefix)
    }


def loss_and_gradients(
    weights: Weights,
    shape: Dimensions,
    tokens: Tokens,
    taken_over: Mapping[int, Backward] | None = None,
) -> tuple[float, Weights]:
    """Return the mean loss of the next token, in nats, and its gradients.

    Parameters
    ----------
    weights : dict of str to array
        The model.
    shape : Dimensions
        Its dimensions.
    tokens : array of int, shape (sequences, sequence_tokens + 1)
        Text; the last token is only predicted.
    taken_over : mapping of int to Backward, optional
        Layers that go backward in another way than exactly.

    Returns
    -------
    float
        The loss, which no technique changes.
    dict of str to array
        Gradients; attention has none in a layer where it is skipped.
    """
    how = [(taken_over or {}).get(layer, EXACT) for layer in range(shape.layers)]
    layers = [layer_weights(weights, layer) for layer in range(shape.layers)]
    read, wanted = tokens[:, :-1], tokens[:, 1:]
    stream = weights["embedding"][read] + weights["positions"]
    kept = []
    for layer, each in zip(layers, how, strict=True):
        stream, mine = block_forward(stream, layer, shape.heads, each)
        kept.append(mine)
    normed = norm_forward(stream, weights["last_norm"])
    shares = softmax(normed @ weights["head"])
    right = np.take_along_axis(shares, wanted[..., None], axis=-1)
    loss = float(-np.log(right).mean())

    logits = shares.copy()
    np.put_along_axis(logits, wanted[..., None], right - 1.0, axis=-1)
    logits /= wanted.size
    found = {"head": exact_weight_gradient("head", normed, logits)}
    gradient, found["last_norm"] = norm_backward(
        logits @ weights["head"].T, stream, weights["last_norm"]
    )
    for place in reversed(range(shape.layers)):
        gradient, mine_found = block_backward(gradient, kept[place], layers[place], how[place])
        found |= {f"{place}.{name}": value for name, value in mine_found.items()}
    found["embedding"] = np.zeros_like(weights["embedding"])
    np.add.at(found["embedding"], read, gradient)
    found["positions"] = gradient.sum(axis=0)
    return loss, found


def rank_average(by_rank: list[Weights]) -> Weights:
    """Return the mean gradient of each weight over the data-parallel ranks that have one."""
    names = sorted(set().union(*by_rank))
    return {
        name: np.mean([found[name] for found in by_rank if name in found], axis=0) for name in names
    }


def synthetic_text(
    shape: Dimensions, sequences: int, rng: np.random.Generator, *, noise: float = 0.1
) -> Tokens:
    """Return text: each token follows from the last one or from the one three before it.

    Which of the two is even chance. The earlier is out of reach of a network that sees one token at
    a time, so that attention has something to learn.

    Parameters
    ----------
    shape : Dimensions
        Vocabulary and length.
    sequences : int
        How many.
    rng : Generator
        Where first tokens, choices and noise come from.
    noise : float
        Share of tokens that follow from nothing.

    Returns
    -------
    array of int, shape (sequences, sequence_tokens + 1)
    """
    length = shape.sequence_tokens + 1
    tokens = rng.integers(shape.vocabulary, size=(sequences, length))
    chance = rng.random((sequences, length))
    for place in range(3, length):
        from_last = (5 * tokens[:, place - 1] + 7) % shape.vocabulary
        from_earlier = (11 * tokens[:, place - 3] + 3) % shape.vocabulary
        ruled = np.where(chance[:, place] < (1 - noise) / 2, from_last, from_earlier)
        tokens[:, place] = np.where(chance[:, place] < 1 - noise, ruled, tokens[:, place])
    return tokens
