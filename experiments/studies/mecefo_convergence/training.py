"""Training of the small model by the loop's plans, step by step."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    TakeOver,
    Weights,
    directions_of,
    gradients,
    initial_weights,
    losses,
)
from faultline.simulator.failures.random_streams import Purpose, stream
from faultline.simulator.workload.transformer import Transformer
from faultline.strategies.interface.scheme import StepPlan, Task
from faultline.strategies.interface.stage_work import LowRank
from numpy.typing import NDArray

_RATE, _DECAYS, _WEIGHT_DECAY, _TINY = 3e-3, (0.9, 0.999), 0.01, 1e-8
"""Learning rate of AdamW in MeCeFO's runs: after 10 % of warm-up, before a cosine to 10 %."""
_HELD_OUT_SEQUENCES, _HELD_OUT_ONE_IN = 32, 10
_EVALUATIONS = 20
"""Of a training, after its first."""

Bytes = NDArray[np.uint8]


@cache
def library_text() -> tuple[Bytes, Bytes]:
    """Return text that every machine with Python has: for training, and held out from other files.

    The text is the source of all top-level modules of the standard library, as bytes, ordered by
    digest. Digests also select the held-out files, one in ten. Equal Pythons have equal texts.
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
    """Settings of a training."""

    shape: Transformer  # The model; its layers are evenly divided among the stages of the plans.
    ranks: int  # Data-parallel ranks.
    sequences_per_rank: int  # Sequences of a rank in a whole batch.
    steps: int
    low_rank: LowRank  # Projections of a node with several tasks.


class TakeOvers:
    """Layers that plans make approximate, with projections as old as on their nodes.

    Projections are computed when a node takes over a stage, and periodically from then on.
    """

    def __init__(self, settings: Settings) -> None:
        shape, rank = settings.shape, settings.low_rank.rank
        self._shape, self._every = (shape.layers, settings.ranks), settings.low_rank.refresh_steps
        inputs = {"gate": shape.hidden, "up": shape.hidden, "down": shape.ffn_hidden}
        self._directions = {
            name: np.zeros((*self._shape, width, rank), np.float32)
            for name, width in inputs.items()
        }
        self._since: dict[Task, int] = {}
        self._arrays: dict[str, Array] = {}
        self._find = jax.jit(lambda matrix: directions_of(matrix, rank))

    def at(self, step: int, weights: Weights, plan: StepPlan) -> TakeOver | None:
        """Return the approximate layers of a step; None if there are none."""
        since = {task: self._since.get(task, step) for task in plan.approximate}
        self._since = since
        if not since:
            return None
        due = [task for task, begun in since.items() if (step - begun) % self._every == 0]
        for layer, ranks in self._ranks(due, plan.stages).items():
            for name in FFN_MATRICES:
                self._directions[name][layer, ranks] = self._find(weights[name][layer])
        if due:
            self._arrays = {name: jnp.array(one) for name, one in self._directions.items()}
        approximate = np.zeros(self._shape, np.float32)
        for layer, ranks in self._ranks(plan.approximate, plan.stages).items():
            approximate[layer, ranks] = 1.0
        return TakeOver(approximate, self._arrays)

    def _ranks(self, tasks: Iterable[Task], stages: int) -> dict[int, list[int]]:
        """Return the ranks that have tasks in each layer."""
        each, found = self._shape[0] // stages, dict[int, list[int]]()
        for task in tasks:
            for layer in range(task.stage * each, (task.stage + 1) * each):
                found.setdefault(layer, []).append(task.group)
        return found


class TokenBatches:
    """The sequences of each step; fractions of a sequence add up to whole ones over steps."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self._settings, self._seed = settings, seed
        self._owed = 0.0
        self._text = library_text()[0]
        self.given = 0

    def of(self, step: int, plan: StepPlan) -> tuple[Bytes, NDArray[np.float32]]:
        """Return the text of all ranks, and 1 for each trained sequence, 0 for others."""
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


def train(
    settings: Settings, plans: Sequence[StepPlan], seed: int
) -> tuple[Weights, list[dict[str, float]]]:
    """Train a model, a step per plan; the seed determines the text and the first weights.

    Returns the final weights, and a row per evaluation, from before the first step to the last:
    ``steps``, ``samples`` (sequences trained), ``held_out`` (loss on text of other files, nats per
    byte), ``approximate`` and ``missing``. These two are running means: the share of approximate
    gradients of stages, and the share of the batches that was not trained.
    """
    heads, tokens = settings.shape.heads, settings.shape.sequence_tokens
    weights = initial_weights(settings.shape, stream(seed, Purpose.MODEL_WEIGHTS))
    moments = jax.tree.map(jnp.zeros_like, (weights, weights))

    def step_of(
        weights: Weights, moments: Any, text: Array, counts: Array, rate: Array, over: Any
    ) -> tuple[Weights, Any]:
        return adamw(weights, moments, gradients(weights, text, heads, counts, over), rate)

    compiled = jax.jit(step_of)
    mean_loss = jax.jit(lambda weights, text: losses(weights, text, heads).mean())
    batches, take_overs = TokenBatches(settings, seed), TakeOvers(settings)
    # Held-out text, the same for all seeds, shaped like that of one rank.
    rng = stream(0, Purpose.HELD_OUT_TEXT)
    held_out = sequences(library_text()[1], _HELD_OUT_SEQUENCES, tokens, rng)[None]
    looks = set(np.linspace(0, settings.steps, _EVALUATIONS + 1).astype(int))
    rows: list[dict[str, float]] = []
    approximate = missing = 0.0
    for step, plan in enumerate([*plans, None]):
        if step in looks:
            rows.append(
                {
                    "steps": step,
                    "samples": batches.given,
                    "held_out": float(mean_loss(weights, held_out)),
                    "approximate": approximate / max(step, 1),
                    "missing": missing / max(step, 1),
                }
            )
        if plan is None:
            break
        approximate += plan.approximate_share
        missing += 1.0 - plan.batch_share
        text, counts = batches.of(step, plan)
        over = take_overs.at(step, weights, plan)
        rate = jnp.array([rate_at(settings, step), step + 1.0], jnp.float32)
        weights, moments = compiled(weights, moments, text, counts, rate, over)
    return weights, rows


def rate_at(settings: Settings, step: int) -> float:
    """Return the learning rate of a step, from 0."""
    warm_up = max(1.0, 0.1 * settings.steps)
    if step < warm_up:
        return _RATE * (step + 1) / warm_up
    done = (step - warm_up) / max(1.0, settings.steps - warm_up)
    return _RATE * (0.55 + 0.45 * cos(pi * done))


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
