"""What a snapshot in every iteration costs: calibrated on one model, predicted for the others.

The bytes of a rank's snapshot are not published by model. The state of a rank is proportional to
its parameters, and so is its compute, as long as ranks train the same number of tokens. A copy that
is slow because of how it is driven therefore lengthens an iteration by a fixed multiple of it; one
constant a mode, taken from one model, says by which. With a thread and a stream of its own the copy
itself is hidden, and what is left is a stall of fixed length. REFT's own mode needs no constant:
the copy is as long as the platform makes it, and costs what does not fit where the link is idle.
"""

from __future__ import annotations

import pandas as pd
from faultline.experiments.studies.reft.published import ITERATIONS_S, MODES, Mode
from faultline.experiments.studies.reft.snapshots import hidden_stall_s

CALIBRATED_ON = "13B"


def iteration_table(calibrated_on: str = CALIBRATED_ON) -> pd.DataFrame:
    """Predict every iteration of the published table.

    Returns
    -------
    DataFrame
        A row a mode and model: ``published_s``, ``predicted_s``, ``error`` of the iteration;
        ``published_overhead_s``, ``overhead_s`` and ``overhead_error`` (None where nothing is
        published as overhead: iterations with hidden snapshots were faster than without); and
        whether the row is the ``calibration``.
    """
    rows = []
    for mode in MODES:
        for model, (alone_s, measured_s) in ITERATIONS_S.items():
            published_s = measured_s[mode]
            overhead_s = predicted_overhead_s(mode, model, calibrated_on)
            known_s = published_s - alone_s
            rows.append(
                {
                    "mode": mode,
                    "model": model,
                    "published_s": published_s,
                    "predicted_s": alone_s + overhead_s,
                    "error": (alone_s + overhead_s) / published_s - 1.0,
                    "published_overhead_s": known_s,
                    "overhead_s": overhead_s,
                    "overhead_error": overhead_s / known_s - 1.0 if known_s > 0.0 else None,
                    "calibration": model == calibrated_on and mode != "hidden",
                }
            )
    return pd.DataFrame(rows)


def predicted_overhead_s(mode: Mode, model: str, calibrated_on: str) -> float:
    """Return by how many seconds snapshots lengthen an iteration of a model."""
    alone_s, _ = ITERATIONS_S[model]
    if mode == "hidden":
        return hidden_stall_s(alone_s)
    reference_s, measured_s = ITERATIONS_S[calibrated_on]
    constant_s = measured_s[mode] - reference_s
    return constant_s if mode == "thread and stream" else constant_s * alone_s / reference_s
