"""A small language model on data-parallel ranks, the first of which is exact or taken over.

It learns synthetic text whose next token needs attention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.mecefo.numerics.layers import (
    ATTENTION_WEIGHTS,
    EXACT,
    FFN_MATRICES,
    Array,
    Backward,
    Weights,
    block_backward,
    block_forward,
    directions_of,
    exact_weight_gradient,
    initial_weights,
    norm_backward,
    norm_forward,
    softmax,
)
from faultline.strategies.takeover.techniques import LowRank, Techniques
from numpy.typing import NDArray

Tokens = NDArray[np.int64]

Source = Literal["weight", "past gradient", "random"]
"""Where directions come from: the weight, its averaged gradient, or nowhere, for comparison."""

REFRESH_STEPS = 100


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

    As much as the `noise` of all tokens follows from nothing.

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


@dataclass(frozen=True, slots=True)
class TakeOver:
    """What is approximate on the first rank, in every step."""

    techniques: Techniques  # What its node with two tasks uses.
    layers: tuple[int, ...] = (1, 2)  # Layers on that node.
    # Where the directions of low rank come from. In the first interval there is no past gradient:
    # weights stand in for it (one of "weight", "past gradient", "random").
    source: Source = "weight"


@dataclass(frozen=True, slots=True)
class Settings:
    """How training goes: Adam (Kingma and Ba 2015), the same text for every scheme."""

    shape: Dimensions = field(default_factory=Dimensions)
    ranks: int = 4
    sequences_per_rank: int = 8
    steps: int = 300
    learning_rate: float = 3e-3
    seed: int = 0


@dataclass(slots=True)
class Course:
    """What came of a training."""

    losses: list[float]  # Mean loss over all ranks before each step, in nats a token.
    weights: Weights  # The model at the end.
    gradients: Weights  # The last averaged gradients.


def train(settings: Settings, take_over: TakeOver | None = None) -> Course:
    """Train, with all ranks exact or with the first one taken over."""
    shape = settings.shape
    weights = initial_model(shape, np.random.default_rng([settings.seed, 0]))
    course = Course([], weights, {})
    optimizer = _Adam(settings.learning_rate)
    first: dict[int, Backward] = {}
    for step in range(settings.steps):
        if take_over is not None and step % _refresh_steps(take_over) == 0:
            first = backwards(take_over, weights, course.gradients, settings.seed + step)
        by_rank, losses = [], []
        for rank in range(settings.ranks):
            text = rank_text(settings, step, rank)
            loss, found = loss_and_gradients(weights, shape, text, first if rank == 0 else None)
            by_rank.append(found)
            losses.append(loss)
        course.losses.append(float(np.mean(losses)))
        course.gradients = rank_average(by_rank)
        weights = optimizer.step(weights, course.gradients)
    course.weights = weights
    return course


def rank_text(settings: Settings, step: int, rank: int) -> Tokens:
    """Return what a rank reads in a step."""
    rng = np.random.default_rng([settings.seed, 1, step, rank])
    return synthetic_text(settings.shape, settings.sequences_per_rank, rng)


def backwards(
    take_over: TakeOver, weights: Weights, gradients: Mapping[str, Array], seed: int
) -> dict[int, Backward]:
    """Return how the layers of the node go backward, with directions from these arrays."""
    rng = np.random.default_rng([seed, 3])
    found = {}
    for layer in take_over.layers:
        projections: dict[str, Array] = {}
        if take_over.techniques.low_rank is not None:
            rank = take_over.techniques.low_rank.rank
            for name in FFN_MATRICES:
                matrix = weights[f"{layer}.{name}"]
                if take_over.source == "random":
                    matrix = rng.normal(size=matrix.shape)
                elif take_over.source == "past gradient":
                    matrix = gradients.get(f"{layer}.{name}", matrix)
                projections[name] = directions_of(matrix, rank)
        found[layer] = Backward(take_over.techniques, projections)
    return found


def all_techniques(rank: int) -> Techniques:
    """Return skipped attention, recomputation, and low rank."""
    return Techniques(True, True, LowRank(rank, REFRESH_STEPS))


def _refresh_steps(take_over: TakeOver) -> int:
    low_rank = take_over.techniques.low_rank
    return REFRESH_STEPS if low_rank is None else low_rank.refresh_steps


class _Adam:
    """Adam; weights without a gradient stay as they are."""

    def __init__(self, learning_rate: float) -> None:
        self._learning_rate = learning_rate
        self._steps = 0
        self._mean: Weights = {}
        self._square: Weights = {}

    def step(self, weights: Weights, gradients: Weights) -> Weights:
        self._steps += 1
        updated = dict(weights)
        for name, gradient in gradients.items():
            mean = 0.9 * self._mean.get(name, np.zeros_like(gradient)) + 0.1 * gradient
            square = 0.99 * self._square.get(name, np.zeros_like(gradient)) + 0.01 * gradient**2
            self._mean[name], self._square[name] = mean, square
            mean = mean / (1 - 0.9**self._steps)
            square = square / (1 - 0.99**self._steps)
            updated[name] = weights[name] - self._learning_rate * mean / (np.sqrt(square) + 1e-8)
        return updated


SOURCES: tuple[Source, ...] = ("weight", "past gradient", "random")
WARM_UP_STEPS = 200
SHOWN_RANK = 8
"""Directions kept where rows and figures have one rank: a quarter of the width."""

_FIRST_STEP = 1_000_000
"""Text from here on is not what the model was trained on."""


def gradient_errors(
    settings: Settings | None = None,
    *,
    low_ranks: Iterable[int] = (2, 4, 8, 16, 32),
    ranks: Sequence[int] = (2, 4, 8, 16),
    draws: int = 2,
    warm_up_steps: int = WARM_UP_STEPS,
) -> pd.DataFrame:
    """Return the errors of gradients, a row for each weight and setting.

    Of the data-parallel ranks one is approximate; `draws` are the texts on which gradients are
    compared, `low_ranks` the directions that low rank keeps.

    Returns
    -------
    DataFrame
        `source`, `low_rank`, `ranks`, `draw`, `weight`, `part` ("attention", "ffn" of the layers
        on the node, "other"); `local_angle_deg` and `local_error`, of the approximate rank alone
        (NaN where it has no gradient); `mean_angle_deg` and `mean_error`, of the mean over ranks;
        `dropped_error`, of the mean if the rank were left out altogether. Errors are norms of the
        difference over that of the exact gradient.
    """
    base = settings or Settings()
    old_s = train(replace(base, steps=max(1, warm_up_steps - REFRESH_STEPS // 2)))
    now = train(replace(base, steps=warm_up_steps))
    rows = []
    for draw in range(draws):
        texts = [rank_text(base, _FIRST_STEP + draw, rank) for rank in range(max(ranks))]
        exact = [loss_and_gradients(now.weights, base.shape, text)[1] for text in texts]
        for source in SOURCES:
            for low_rank in low_ranks:
                take_over = TakeOver(all_techniques(low_rank), source=source)
                first = _first_rank(base, take_over, old_s, now, draw)
                for count in ranks:
                    labels = {"source": source, "low_rank": low_rank, "ranks": count, "draw": draw}
                    rows += [
                        {**labels, **row} for row in _errors(exact[:count], first, take_over.layers)
                    ]
    return pd.DataFrame(rows)


def training_courses() -> dict[str, list[float]]:
    """Return losses by step: exact, one rank taken over, and all of the batch taken over."""
    base = Settings()
    techniques = all_techniques(SHOWN_RANK)
    sequences = base.ranks * base.sequences_per_rank
    whole = replace(base, ranks=1, sequences_per_rank=sequences)
    return {
        f"all {base.ranks} ranks exact": train(base).losses,
        f"1 of {base.ranks} taken over, weight": train(base, TakeOver(techniques)).losses,
        f"1 of {base.ranks} taken over, past gradient": train(
            base, TakeOver(techniques, source="past gradient")
        ).losses,
        "all of the batch taken over": train(whole, TakeOver(techniques)).losses,
    }


def error_table(errors: pd.DataFrame) -> pd.DataFrame:
    """Return means over weights and draws: a row for each part, source, low rank and ranks."""
    keys = ["part", "source", "low_rank", "ranks"]
    return errors.groupby(keys, as_index=False).mean(numeric_only=True).drop(columns="draw")


def gradient_rows(errors: pd.DataFrame) -> Iterator[Row]:
    """Return the angle of approximate gradients, and errors of the mean over ranks."""
    table = error_table(errors)
    shown = table[(table.low_rank == SHOWN_RANK) & (table.source == "weight")]
    for row in shown.itertuples():
        setting = f"{row.part}, r = {SHOWN_RANK} of 32, one of {row.ranks} ranks"
        if row.part == "ffn" and row.ranks == shown.ranks.min():
            angle = [float(row.local_angle_deg)]
            yield row_of("angle to the exact gradient", "mecefo", setting, None, angle, "degrees")
        error = [100 * float(row.mean_error)]
        yield row_of("error of the mean gradient", "mecefo", setting, None, error, "%")


def angle_deg(one: Array, other: Array) -> float:
    """Return the angle between two arrays as vectors, in degrees."""
    cosine = np.vdot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other))
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


def _first_rank(
    settings: Settings, take_over: TakeOver, old: Course, now: Course, draw: int
) -> Weights:
    """Return the gradients of the first rank, approximately."""
    how = backwards(take_over, old.weights, old.gradients, settings.seed)
    text = rank_text(settings, _FIRST_STEP + draw, 0)
    return loss_and_gradients(now.weights, settings.shape, text, how)[1]


def _errors(
    exact: Sequence[Weights], first: Weights, layers: Sequence[int]
) -> list[dict[str, object]]:
    true_mean = rank_average(list(exact))
    mean = rank_average([first, *exact[1:]])
    dropped = rank_average(list(exact[1:]))
    rows: list[dict[str, object]] = []
    for name, gradient in true_mean.items():
        mine = first.get(name)
        rows.append(
            {
                "weight": name,
                "part": _part(name, layers),
                "local_angle_deg": np.nan if mine is None else angle_deg(mine, exact[0][name]),
                "local_error": np.nan if mine is None else _error(mine, exact[0][name]),
                "mean_angle_deg": angle_deg(mean[name], gradient),
                "mean_error": _error(mean[name], gradient),
                "dropped_error": _error(dropped[name], gradient),
            }
        )
    return rows


def _error(found: Array, exact: Array) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def _part(name: str, layers: Sequence[int]) -> str:
    layer, _, weight = name.partition(".")
    if layer.isdigit() and int(layer) in layers:
        if weight in ATTENTION_WEIGHTS:
            return "attention"
        if weight in FFN_MATRICES:
            return "ffn"
    return "other"
