"""How far published training steps are from their predictions, for commands that predict a step."""

from __future__ import annotations

from math import ceil

from faultline.experiments.studies.data import read_rows

_MOST = 0.8


def accuracy_text() -> str:
    """Return in a sentence how far most published steps are from their predictions.

    The predictions are those that the study has published: ``data/predictions.csv`` is a link to
    its results. As in the study, steps on which a software is fitted do not count, and each step
    counts in its first unit.
    """
    errors: dict[str, float] = {}
    for row in read_rows("step_time", "predictions"):
        if row["fitted"] == "False" and "error" in row:
            errors.setdefault(row["case"], abs(row["error"]))
    most = sorted(errors.values())[ceil(_MOST * len(errors)) - 1]
    return (
        f"Predicted step time: {100 * _MOST:.0f} % of {len(errors)} published ones "
        f"differ by at most {100 * most:.1f} %."
    )
