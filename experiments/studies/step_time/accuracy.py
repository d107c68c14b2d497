"""How far published training steps are from their predictions, for commands that predict a step."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from faultline.experiments.studies.data import read_rows

MOST = 0.8
"""Share of published steps that the printed error holds."""


def error_of_most(errors: Iterable[float]) -> float:
    """Return the error that most steps do not exceed, whatever its sign."""
    known = sorted(map(abs, errors))
    return known[ceil(MOST * len(known)) - 1]


def accuracy_text() -> str:
    """Return in a sentence how far most published steps are from their predictions.

    The predictions are those that the study has published: ``data/predictions.csv`` is a link to
    its results. As in the study, steps on which a software is fitted do not count, and each step
    counts in its first unit.
    """
    errors: dict[str, float] = {}
    for row in read_rows("step_time", "predictions"):
        if row["fitted"] == "False" and "error" in row:
            errors.setdefault(row["case"], row["error"])
    most = error_of_most(errors.values())
    return (
        f"Predicted step time: {100 * MOST:.0f} % of {len(errors)} published ones "
        f"differ by at most {100 * most:.1f} %."
    )
