"""Training of the small model as the loop's plans say: who computes what, and how, step by step."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import cos, pi
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from faultline.experiments.studies.mecefo_convergence.language_model import (
    FFN_MATRICES,
    Array,
    Dimensions,
    TakeOver,
    Weights,
    directions_of,
    gradients,
    initial_weights,
    losses,
)
from faultline.simulator.random_streams import Purpose, stream
from faultline.strategies.base import StepPlan, Task
from faultline.strategies.stage_work import Techniques
from numpy.typing import NDArray

_DECAYS, _WEIGHT_DECAY, _TINY = (0.9, 0.999), 0.01, 1e-8
_HELD_OUT_SEQUENCES, _HELD_OUT_ONE_IN = 32, 10
_EVALUATIONS = 20
"""How often the model is looked at."""

Bytes = NDArray[np.uint8]


@cache
def library_text() -> tuple[Bytes, Bytes]:
    """Return text that every machine with a Python has: to train on, and of other files, held out.

    The sources of all modules at the top of the standard library, as bytes, in the order of their
    digests, which also say what is held out: one file in ten. The same Python has the same text.
    """
    folder = Path(sysconfig.get_paths()["stdlib"])
    sources = (path.read_bytes() for path in folder.glob("*.py"))
    by_digest = sorted((hashlib.sha256(source).digest(), source) for source in sources)
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for digest, source in by_digest:
        parts[digest[0] % _HELD_OUT_ONE_IN == 0].append(source)
    train, held_out = (np.frombuffer(b"".join(part), np.uint8) for part in parts)
    return train, held_out


def sequences(text: Bytes, count: int, tokens: int, rng: np.random.Generator) -> Bytes:
    """Return random pieces of a text, shape (count, tokens + 1): the last is only predicted."""
    starts = rng.integers(len(text) - tokens, size=count)
    pieces: Bytes = text[starts[:, None] + np.arange(tokens + 1)]
    return pieces


@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is trained."""

    shape: Dimensions  # The model; its layers are dealt out evenly to the stages of the plans.
    ranks: int  # Data-parallel ranks.
    sequences_per_rank: int  # What each trains of a whole batch.
    steps: int
    techniques: Techniques  # What a node with several tasks does.
    # Peak learning rate of AdamW, after 10 % of warm-up and before a cosine to 10 %, as published
    # for MeCeFO.
    rate: float = 3e-3


@dataclass(slots=True)
class Course:
    """What came of a training; a value an evaluation, before the first step and up to the last."""

    weights: Weights  # The model at the end.
    samples: list[int] = field(default_factory=list)  # Sequences trained.
    steps: list[int] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)  # Loss on text of other files, nats a byte.
    # Shares of the gradients of stages that were approximate, and of batches that were not trained,
    # on average so far.
    approximate: list[float] = field(default_factory=list)
    missing: list[float] = field(default_factory=list)


class Projections:
    """Directions of low rank for each stage that is taken over, as old as its node has them.

    They are computed when the stage comes to a node, and every so many steps from then on.
    """

    def __init__(self, settings: Settings) -> None:
        self._low_rank = settings.techniques.low_rank
        self._since: dict[Task, int] = {}
        self._directions: dict[str, NDArray[np.float32]] = {}
        self._arrays: dict[str, Array] = {}
        if self._low_rank is not None:
            shape, rank = settings.shape, self._low_rank.rank
            inputs = {"gate": shape.hidden, "up": shape.hidden, "down": shape.ffn_hidden}
            self._directions = {
                name: np.zeros((shape.layers, settings.ranks, width, rank), np.float32)
                for name, width in inputs.items()
            }
            self._find = jax.jit(lambda matrix: directions_of(matrix, rank))

    def at(self, step: int, weights: Weights, plan: StepPlan) -> dict[str, Array]:
        """Return the directions of a step, shape (layers, ranks, inputs, rank)."""
        if self._low_rank is None:
            return {}
        every = self._low_rank.refresh_steps
        since = {task: self._since.get(task, step) for task in plan.approximate}
        due = [task for task, begun in since.items() if (step - begun) % every == 0]
        for layer, ranks in _layers(due, plan.stages, len(self._directions["gate"])).items():
            for name in FFN_MATRICES:
                self._directions[name][layer, ranks] = self._find(weights[name][layer])
        if due or not self._arrays:
            self._arrays = {name: jnp.array(one) for name, one in self._directions.items()}
        self._since = since
        return self._arrays


def _layers(tasks: Sequence[Task], stages: int, layers: int) -> dict[int, list[int]]:
    """Return the ranks that have tasks in each layer."""
    each, found = layers // stages, dict[int, list[int]]()
    for task in tasks:
        for layer in range(task.stage * each, (task.stage + 1) * each):
            found.setdefault(layer, []).append(task.group)
    return found


def take_over_of(
    plan: StepPlan, settings: Settings, directions: dict[str, Array]
) -> TakeOver | None:
    """Return what a plan makes approximate; None for nothing."""
    if not plan.approximate:
        return None
    approximate = np.zeros((settings.shape.layers, settings.ranks), np.float32)
    for layer, ranks in _layers(plan.approximate, plan.stages, settings.shape.layers).items():
        approximate[layer, ranks] = 1.0
    return TakeOver(approximate, settings.techniques.skip_attention, directions)


class Batches:
    """Which sequences a step trains; shares of a sequence add up over steps to whole ones."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self._settings, self._seed = settings, seed
        self._owed = 0.0
        self._text = library_text()[0]
        self.given = 0

    def of(self, step: int, plan: StepPlan) -> tuple[Bytes, NDArray[np.float32]]:
        """Return the text of all ranks, and 1 for each sequence that is trained."""
        ranks, each = self._settings.ranks, self._settings.sequences_per_rank
        tokens = self._settings.shape.sequence_tokens
        rng = stream(self._seed, Purpose.TRAINING_TEXT, step)
        text = sequences(self._text, ranks * each, tokens, rng).reshape(ranks, each, tokens + 1)
        self._owed += plan.batch_share * ranks * each
        count = max(1, int(self._owed - self.given + 1e-6))
        self.given += count
        working = [rank for rank in plan.members if rank not in plan.idle]
        counts = np.zeros((each, ranks), np.float32)
        counts[:, working] = (np.arange(each * len(working)) < count).reshape(each, -1)
        return text, counts.T


def train(settings: Settings, plans: Sequence[StepPlan], seed: int) -> Course:
    """Train a model, a step a plan; one seed is the same text and the same first weights.

    With fewer plans than steps it is left as it is by then.
    """
    heads = settings.shape.heads
    weights = initial_weights(settings.shape, stream(seed, Purpose.MODEL_WEIGHTS))
    moments = jax.tree.map(jnp.zeros_like, (weights, weights))
    skips = settings.techniques.skip_attention

    def step_of(
        weights: Weights, moments: Any, text: Array, counts: Array, rate: Array, over: Any
    ) -> tuple[Weights, Any]:
        take_over = None if over is None else TakeOver(over[0], skips, over[1])
        _, found = gradients(weights, text, heads, counts, take_over)
        return adamw(weights, moments, found, rate)

    compiled = jax.jit(step_of)
    mean_loss = jax.jit(lambda weights, text: losses(weights, text, heads).mean())
    batches, projections = Batches(settings, seed), Projections(settings)
    course, approximate, missing = Course(weights), 0.0, 0.0
    # Text that is not trained on, the same for all seeds, as one rank's.
    tokens, rng = settings.shape.sequence_tokens, stream(0, Purpose.HELD_OUT_TEXT)
    held_out = sequences(library_text()[1], _HELD_OUT_SEQUENCES, tokens, rng)[None]
    looks = set(np.linspace(0, settings.steps, _EVALUATIONS + 1).astype(int))
    for step in range(len(plans) + 1):
        if step in looks:
            course.steps.append(step)
            course.samples.append(batches.given)
            course.held_out.append(float(mean_loss(weights, held_out)))
            course.approximate.append(approximate / max(step, 1))
            course.missing.append(missing / max(step, 1))
        if step == len(plans):
            break
        plan = plans[step]
        approximate += plan.approximate_share
        missing += 1.0 - plan.batch_share
        text, counts = batches.of(step, plan)
        over = take_over_of(plan, settings, projections.at(step, weights, plan))
        arrays = None if over is None else (over.approximate, over.directions)
        rate = jnp.array([rate_at(settings, step), step + 1.0], jnp.float32)
        weights, moments = compiled(weights, moments, text, counts, rate, arrays)
    course.weights = weights
    return course


def rate_at(settings: Settings, step: int) -> float:
    """Return the learning rate of a step, from 0."""
    warm_up = max(1.0, 0.1 * settings.steps)
    if step < warm_up:
        return settings.rate * (step + 1) / warm_up
    done = (step - warm_up) / max(1.0, settings.steps - warm_up)
    return settings.rate * (0.55 + 0.45 * cos(pi * done))


def adamw(
    weights: Weights, moments: tuple[Weights, Weights], found: Weights, rate: Array
) -> tuple[Weights, tuple[Weights, Weights]]:
    """Return weights and moments after a step of AdamW (Loshchilov and Hutter 2019).

    `rate` is the learning rate and the number of the step, from 1; betas and weight decay are those
    of MeCeFO's runs.
    """
    first, second = (
        {name: decay * old[name] + (1.0 - decay) * found[name] ** power for name in found}
        for old, decay, power in zip(moments, _DECAYS, (1, 2), strict=True)
    )
    scales = [1.0 / (1.0 - decay ** rate[1]) for decay in _DECAYS]

    def moved(name: str) -> Array:
        step = first[name] * scales[0] / (jnp.sqrt(second[name] * scales[1]) + _TINY)
        return weights[name] - rate[0] * (step + _WEIGHT_DECAY * weights[name])

    return {name: moved(name) for name in weights}, (first, second)
