"""Training by the loop's plans: by hand, by seed, and as old as projections are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from faultline.experiments.studies.mecefo_convergence import language_model as lm  # noqa: E402
from faultline.experiments.studies.mecefo_convergence import training  # noqa: E402
from faultline.simulator.failures.random_streams import Purpose, stream  # noqa: E402
from faultline.simulator.workload.transformer import Transformer  # noqa: E402
from faultline.strategies.interface.scheme import StepPlan, Task  # noqa: E402
from faultline.strategies.interface.stage_work import LowRank  # noqa: E402

SHAPE = Transformer(8, 12, heads=2, layers=2, sequence_tokens=6, vocabulary=256)
SETTINGS = training.Settings(SHAPE, 2, 2, 2, LowRank(2, 3))
EXACT = StepPlan((0, 1), 1, stages=2)
TAKEN_OVER = EXACT._replace(approximate=(Task(1, 0, 0), Task(1, 1, 0)))


def columns(rows: list[dict[str, float]]) -> dict[str, list[float]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_two_steps_by_hand() -> None:
    """AdamW of a published formula, in numpy; one seed is one model, and another is another."""
    trained, rows = training.train(SETTINGS, [EXACT, EXACT], 5)
    weights = lm.initial_weights(SHAPE, stream(5, Purpose.MODEL_WEIGHTS))
    numbers = {name: np.asarray(one, np.float64) for name, one in weights.items()}
    mean, square = (dict.fromkeys(numbers, 0.0) for _ in range(2))
    of = jax.jit(lambda weights, text: lm.gradients(weights, text, 2, np.ones((2, 2))))
    for step in (1, 2):
        rng = stream(5, Purpose.TRAINING_TEXT, step - 1)
        text = training.sequences(training.library_text()[0], 4, 6, rng).reshape(2, 2, 7)
        found = of({name: one.astype(np.float32) for name, one in numbers.items()}, text)
        rate = 3e-3 * (1.0, 0.55 + 0.45 * np.cos(np.pi * 0.0))[step - 1]
        for name, one in found.items():
            gradient = np.asarray(one, np.float64)
            mean[name] = 0.9 * mean[name] + 0.1 * gradient
            square[name] = 0.999 * square[name] + 0.001 * gradient**2
            along = mean[name] / (1 - 0.9**step)
            along /= np.sqrt(square[name] / (1 - 0.999**step)) + 1e-8
            numbers[name] = numbers[name] - rate * (along + 0.01 * numbers[name])
    for name, one in trained.items():
        assert np.allclose(one, numbers[name], atol=2e-5), name
    assert columns(rows)["samples"] == [0, 4, 8]
    assert training.train(SETTINGS, [EXACT, EXACT], 5)[1] == rows
    other = columns(training.train(SETTINGS, [EXACT, EXACT], 6)[1])
    assert other["held_out"] != columns(rows)["held_out"]


def test_a_take_over_changes_what_is_learnt_and_nothing_before() -> None:
    exact = columns(training.train(SETTINGS, [EXACT, EXACT], 5)[1])["held_out"]
    found = columns(training.train(SETTINGS, [EXACT, TAKEN_OVER], 5)[1])
    assert found["held_out"][:2] == exact[:2]
    assert found["held_out"][2] != exact[2]
    assert found["approximate"] == [0.0, 0.0, 0.25]


def test_projections_are_computed_when_a_stage_moves_and_every_so_often() -> None:
    take_overs = training.TakeOvers(SETTINGS)
    random = [lm.initial_weights(SHAPE, np.random.default_rng(seed)) for seed in range(9)]

    def of_weights(step: int) -> Any:
        return np.linalg.svd(random[step]["gate"][0])[0][:, :2]

    # Taken over in step 1 by node 0, then by node 1 in step 5; refreshed every three steps.
    expected = [0, 1, 1, 1, 4, 5, 5, 5, 8]
    for step in range(1, 9):
        task = Task(1, 0, 0 if step < 5 else 1)
        plan = EXACT._replace(approximate=(task,))
        if step == 1:
            assert take_overs.at(0, random[0], EXACT) is None
        over = take_overs.at(step, random[step], plan)
        assert over is not None
        assert over.approximate.tolist() == [[0, 1], [0, 0]]
        found = np.asarray(over.directions["gate"])
        onto = found[0, 1] @ found[0, 1].T
        directions = of_weights(expected[step])
        assert np.allclose(onto, directions @ directions.T, atol=1e-4), step
        # Other ranks and layers have none.
        assert not np.any(found[0, 0])
        assert not np.any(found[1])


def test_smaller_batches_leave_out_idle_ranks_and_owe_shares_of_sequences() -> None:
    batches = training.TokenBatches(SETTINGS, 0)
    text, counts = batches.of(0, EXACT._replace(batch_share=0.5, idle=(0,)))
    assert (text.shape, counts.tolist()) == ((2, 2, 7), [[0, 0], [1, 1]])
    # 3.5 of 4 sequences: three, then four.
    nearly = EXACT._replace(batch_share=0.875)
    assert [int(batches.of(step, nearly)[1].sum()) for step in (1, 2, 3)] == [3, 4, 3]
    assert batches.given == 12
