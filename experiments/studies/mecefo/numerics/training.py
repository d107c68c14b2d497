"""Trains the small language model on data-parallel ranks, the first exactly or taken over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from faultline.experiments.studies.mecefo.numerics.block import (
    FFN_MATRICES,
    Backward,
    directions_of,
)
from faultline.experiments.studies.mecefo.numerics.language_model import (
    Dimensions,
    Tokens,
    initial_model,
    loss_and_gradients,
    rank_average,
    synthetic_text,
)
from faultline.experiments.studies.mecefo.numerics.layers import Array, Weights
from faultline.strategies.takeover.techniques import LowRank, Techniques

Source = Literal["weight", "past gradient", "random"]
"""Where directions come from: the weight, its averaged gradient, or nowhere, for comparison."""

REFRESH_STEPS = 100


@dataclass(frozen=True, slots=True)
class TakeOver:
    """What is approximate on the first rank, in every step.

    Attributes
    ----------
    techniques : Techniques
        What its node with two tasks uses.
    layers : tuple of int
        Layers on that node.
    source : {"weight", "past gradient", "random"}
        Where the directions of low rank come from. In the first interval there is no past gradient:
        weights stand in for it.
    """

    techniques: Techniques
    layers: tuple[int, ...] = (1, 2)
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
    """What came of a training.

    Attributes
    ----------
    losses : list of float
        Mean loss over all ranks before each step, in nats a token.
    weights : dict of str to array
        The model at the end.
    gradients : dict of str to array
        The last averaged gradients.
    """

    losses: list[float]
    weights: Weights
    gradients: Weights


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


def held_out_loss(settings: Settings, weights: Weights, sequences: int = 256) -> float:
    """Return the loss on text that no rank has seen, in nats a token."""
    rng = np.random.default_rng([settings.seed, 2])
    text = synthetic_text(settings.shape, sequences, rng)
    return loss_and_gradients(weights, settings.shape, text)[0]


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
