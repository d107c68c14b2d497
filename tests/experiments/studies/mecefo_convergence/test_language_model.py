"""The approximate backward pass, held against models whose exact gradient is the same thing."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from faultline.experiments.studies.mecefo_convergence import language_model as lm  # noqa: E402
from faultline.simulator.workload.transformer import Transformer  # noqa: E402

SHAPE = Transformer(8, 12, heads=2, layers=2, sequence_tokens=5, vocabulary=11)
RANKS, EACH = 3, 2
RNG = np.random.default_rng(0)
WEIGHTS = lm.initial_weights(SHAPE, RNG)
TEXT = RNG.integers(SHAPE.vocabulary, size=(RANKS, EACH, SHAPE.sequence_tokens + 1))
ALL = np.ones((RANKS, EACH), np.float32)
ATTENTION = lm.ATTENTION_WEIGHTS
OTHERS = [name for name in WEIGHTS if name not in ATTENTION]

Gradients = dict[str, Any]


def _mean_loss(weights: lm.Weights, counts: Any) -> Any:
    return (lm.losses(weights, TEXT, SHAPE.heads) * counts).sum() / counts.sum()


plain = jax.jit(jax.value_and_grad(_mean_loss))
"""Gradients that JAX finds of the mean loss of some sequences: a model that has nothing else."""


def of_ranks(*ranks: int) -> Gradients:
    """Return the exact mean gradient of some ranks."""
    counts = np.zeros_like(ALL)
    counts[list(ranks)] = 1.0
    return plain(WEIGHTS, counts)[1]


@jax.jit
def _found(weights: Any, counts: Any, approximate: Any, directions: Any) -> Gradients:
    over = lm.TakeOver(approximate, directions)
    return lm.gradients(weights, TEXT, SHAPE.heads, counts, over)


def found_by(approximate: Any, rank: int, *, counts: Any = ALL) -> Gradients:
    directions = {}
    for name in lm.FFN_MATRICES:
        each = np.stack([directions_of(matrix, rank) for matrix in WEIGHTS[name]])
        # Columns of zeros project on nothing: one shape, so one program, for all ranks.
        padded = np.pad(each, ((0, 0), (0, 0), (0, 12 - each.shape[2])))
        directions[name] = np.repeat(padded[:, None], RANKS, axis=1)
    return _found(WEIGHTS, counts, np.array(approximate, np.float32), directions)


def directions_of(matrix: Any, rank: int) -> Any:
    left = np.linalg.svd(matrix)[0]
    return left[:, :rank].astype(np.float32)


def same(one: Gradients, other: Gradients, names: Iterable[str] = WEIGHTS) -> None:
    for name in names:
        assert np.allclose(one[name], other[name], rtol=1e-4, atol=1e-6), name


def test_with_nothing_approximate_gradients_are_those_of_jax() -> None:
    """A rank or a sequence that is not trained counts for nothing."""
    counts = np.array([[1, 1], [0, 0], [1, 0]], np.float32)
    of = jax.jit(partial(lm.gradients, heads=SHAPE.heads))
    same(of(WEIGHTS, TEXT, counts=counts), plain(WEIGHTS, counts)[1])
    same(found_by(np.zeros((2, RANKS)), 3, counts=counts), plain(WEIGHTS, counts)[1])


def test_skipped_attention_is_attention_that_goes_backward_as_the_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a model whose residual block is ``x + constant``; all directions keep the rest exact.

    Its weights are averaged over the ranks that have a gradient: three in layer 0, two in layer 1.
    """
    found = found_by([[0, 0, 0], [0, 0, 1]], 12)
    attention, layers = lm._attention, iter(range(SHAPE.layers))

    def constant(inputs: Any, weights: Any, heads: int) -> Any:
        mixed = attention(inputs, weights, heads)
        return jax.lax.stop_gradient(mixed) if next(layers) == 1 else mixed

    def unrolled(layer: Any, stream: Any, over: Any, **_: Any) -> Any:
        for number in range(SHAPE.layers):
            stream, _none = layer(stream, jax.tree.map(lambda one, n=number: one[n], over))
        return stream, None

    monkeypatch.setattr(lm, "_attention", constant)
    monkeypatch.setattr(lm.jax.lax, "scan", unrolled)
    third = jax.jit(jax.grad(lambda weights: lm.losses(weights, TEXT[2:], SHAPE.heads).mean()))
    approximate, exact = third(WEIGHTS), of_ranks(0, 1)
    same(found, {name: (2 * exact[name] + approximate[name]) / 3 for name in OTHERS}, OTHERS)
    for name in ATTENTION:
        assert not np.any(approximate[name][1])
        mean = (2 * exact[name][0] + approximate[name][0]) / 3
        assert np.allclose(found[name][0], mean, atol=1e-6)
        assert np.allclose(found[name][1], exact[name][1], atol=1e-6)
    assert not np.allclose(found["gate"][0], plain(WEIGHTS, ALL)[1]["gate"][0], atol=1e-4)


def test_where_no_group_has_a_gradient_attention_stays_as_it_is() -> None:
    found = found_by(np.ones((2, RANKS)), 3)
    assert not any(np.any(found[name]) for name in ATTENTION)
    assert np.any(found["gate"])


def test_low_rank_projects_the_gradients_of_the_approximate_ranks_orthogonally() -> None:
    """The mean is that of exact ranks, and of ``P P^T`` times the others'; inputs' are as without.

    Nothing is above the layer, so past its attention its gradients are those of the exact model.
    """
    approximate = [[0, 0, 0], [0, 1, 1]]
    found, whole = found_by(approximate, 3), found_by(approximate, 12)
    same(found, whole, [name for name in WEIGHTS if name not in lm.FFN_MATRICES])
    for name in lm.FFN_MATRICES:
        directions = np.asarray(lm.directions_of(WEIGHTS[name][1], 3))
        onto = directions @ directions.T
        assert np.allclose(directions.T @ directions, np.eye(3), atol=1e-5)
        assert np.allclose(onto @ onto, onto, atol=1e-5)
        rest = np.asarray(of_ranks(1, 2)[name][1])
        expected = (of_ranks(0)[name][1] + 2 * onto @ rest) / 3
        assert np.allclose(found[name][1], expected, atol=1e-6)
        assert np.linalg.norm(onto @ rest) < 0.99 * np.linalg.norm(rest)
        assert np.allclose(found[name][0], whole[name][0], atol=1e-6)


def test_the_strongest_directions_come_first() -> None:
    matrix = np.diag([1.0, 5.0, 3.0])
    assert np.abs(lm.directions_of(matrix, 2)) == pytest.approx(np.eye(3)[:, [1, 2]], abs=1e-6)
