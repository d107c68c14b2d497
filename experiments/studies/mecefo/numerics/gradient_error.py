"""How far the gradients of a taken-over rank are off, and what is left of it in the mean.

The model is trained exactly for a while, so that gradients are not those of random weights. Then
the first of n ranks goes backward approximately, with directions that are half an interval old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.mecefo.numerics.layers import (
    ATTENTION_WEIGHTS,
    FFN_MATRICES,
    Array,
    Weights,
)
from faultline.experiments.studies.mecefo.numerics.training import (
    REFRESH_STEPS,
    Course,
    Settings,
    Source,
    TakeOver,
    all_techniques,
    backwards,
    loss_and_gradients,
    rank_average,
    rank_text,
    train,
)

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
    sources: Iterable[Source] = SOURCES,
    draws: int = 2,
    warm_up_steps: int = WARM_UP_STEPS,
) -> pd.DataFrame:
    """Return the errors of gradients, a row for each weight and setting.

    Parameters
    ----------
    settings : Settings, optional
        The model and its training.
    low_ranks : iterable of int
        Directions that low rank keeps.
    ranks : sequence of int
        Data-parallel ranks, of which one is approximate.
    sources : iterable of str
        Where the directions come from.
    draws : int
        Texts on which gradients are compared.
    warm_up_steps : int
        Steps of exact training before.

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
        for source in sources:
            for low_rank in low_ranks:
                take_over = TakeOver(all_techniques(low_rank), source=source)
                first = _first_rank(base, take_over, old_s, now, draw)
                for count in ranks:
                    labels = {"source": source, "low_rank": low_rank, "ranks": count, "draw": draw}
                    rows += [
                        {**labels, **row} for row in _errors(exact[:count], first, take_over.layers)
                    ]
    return pd.DataFrame(rows)


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
