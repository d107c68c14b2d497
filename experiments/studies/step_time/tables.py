"""What became of the rows: predictions, their errors, and what is printed of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.studies.base import Row
from faultline.experiments.studies.step_time.published import Case

PARTS = {
    "compute_s": "compute",
    "tensor_s": "tensor parallel",
    "context_s": "context parallel",
    "pipeline_s": "sends of stages",
    "bubble_s": "bubble",
    "data_parallel_s": "data parallel",
    "optimizer_s": "optimizer",
}
"""Columns of a step's time, and what they are called."""

QUANTITIES = {
    "s": "step time",
    "TFLOP/s": "model FLOP rate a GPU",
    "%": "MFU",
    "tokens/s": "training rate a GPU",
}

TITLES = {
    "A1": "A1  Megatron-LM, SC21: A100",
    "A1b": "A1b  Megatron-LM's repository, 2020: A100",
    "A2": "A2  Korthikanti et al. 2022: A100, two policies of recomputation",
    "A3": "A3  Llama 3 405B: H100",
    "A4": "A4  MegaScale, 175B: A100, two kinds of software",
    "A5": "A5  Megatron-Core 0.8: H100",
    "A6": "A6  MLPerf 3.1, GPT-3 175B in 8 bits: H100",
    "A7": "A7  NVIDIA's recipes 24.11: H100",
    "A8": "A8  Megatron-Bridge and torchtitan: GB200, H100",
}

_TARGETS = {
    "A1": (3.0, 7.0),
    "A2": (None, 8.0),
    "A3": (None, 10.0),
    "A4": (9.0, None),
    "A5": (9.0, None),
    "A6": (None, 15.0),
    "A7": (None, 15.0),
    "A8": (None, 15.0),
}
"""Errors in percent that were set as a goal before any row was predicted: mean and worst."""


def predictions(cases: Sequence[Case], played: pd.DataFrame) -> pd.DataFrame:
    """Return a row a case and unit: what was published, what is predicted, and of what parts.

    `low` and `high` are the extremes over the numbers of parts that a stage may have, where nobody
    says.
    """
    rows = []
    for case in cases:
        mine = played[played["case"] == case.label]
        (stated,) = mine[mine.stated].to_dict("records")
        for unit, published in case.outputs:
            values = [case.in_unit(step_s, unit) for step_s in mine.step_s]
            simulated = case.in_unit(stated["step_s"], unit)
            rows.append(
                {
                    "section": case.section,
                    "case": case.label,
                    "software": case.software.title,
                    "fitted_on": case.software.fitted_on,
                    "fitted": case.is_fitted,
                    "gpus": case.gpus,
                    "unit": unit,
                    "published": published,
                    "simulated": simulated,
                    "low": min(values),
                    "high": max(values),
                    "error": None if published is None else simulated / published - 1.0,
                    "efficiency": stated["efficiency"],
                    "parts_per_stage": stated["parts"],
                    "step_s": stated["step_s"],
                    **{part: stated[part] for part in PARTS},
                }
            )
    table = pd.DataFrame(rows)
    return table.astype({"published": float, "error": float})


def errors(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean and the worst error of each section, in percent of what was published.

    Fitted rows do not count, and of a row that is published in two units only the first does.
    """
    first = table[~table.fitted & table.error.notna()].drop_duplicates("case")
    rows = []
    for section in table.section.unique():
        mine = first[first.section == section]
        if len(mine):
            worst = mine.loc[mine.error.abs().idxmax()]
            mean_goal, worst_goal = _TARGETS.get(section, (None, None))
            rows.append(
                {
                    "section": section,
                    "rows": len(mine),
                    "mean": 100.0 * mine.error.abs().mean(),
                    "mean_goal": mean_goal,
                    "worst": 100.0 * abs(worst.error),
                    "worst_goal": worst_goal,
                    "worst_case": worst.case,
                }
            )
    return pd.DataFrame(rows).astype({"mean_goal": float, "worst_goal": float})


def prediction_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Return a row an output."""
    for cell in table.itertuples():
        published = None if pd.isna(cell.published) else float(cell.published)
        yield Row(
            QUANTITIES[cell.unit],
            f"{cell.software}, fitted on {cell.fitted_on}",
            cell.case,
            published,
            cell.simulated,
            cell.low,
            cell.high,
            cell.unit,
        )


def error_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Return the mean and the worst error of each section."""
    for cell in table.itertuples():
        setting = f"{cell.rows} predicted rows of {cell.section}"
        for name, value in (("mean error", cell.mean), ("worst error", cell.worst)):
            yield Row(name, cell.section, setting, None, value, value, value, "%")


def printed_section(section: str, mine: pd.DataFrame) -> Printed:
    """Return the rows of a section."""
    frame = pd.DataFrame(
        {
            "row": mine["case"].str.removeprefix(f"{section} "),
            "GPUs": mine.gpus,
            "published": mine.published,
            "predicted": mine.simulated,
            "unit": mine.unit,
            "range": [_range(cell) for cell in mine.itertuples()],
            "error": [_error(cell) for cell in mine.itertuples()],
            "step_s": mine.step_s,
        }
    )
    fits = mine.drop_duplicates("software")
    note = "; ".join(
        f"{cell.software}: efficiency {cell.efficiency:.3f}, fitted on {cell.fitted_on}"
        for cell in fits.itertuples()
    )
    if (mine.unit == "s").any():
        frame = frame.drop(columns="step_s")
    if (frame["range"] == "").all():
        frame = frame.drop(columns="range")
    return Printed(
        TITLES[section],
        frame,
        {
            "published": "{:.4g}",
            "predicted": "{:.4g}",
            "range": str,
            "error": str,
            "step_s": "{:.3g}",
        },
        {"step_s": "step, s"},
        note,
    )


def _error(cell: Any) -> str:
    if pd.isna(cell.error):
        return ""
    return "fitted" if cell.fitted else f"{cell.error:+.1%}"


def _range(cell: Any) -> str:
    return "" if cell.low == cell.high else f"{cell.low:.4g} to {cell.high:.4g}"


def printed_errors(table: pd.DataFrame) -> Printed:
    """Return the errors beside their goals."""
    return Printed(
        "Errors of the predicted rows, in %",
        table,
        dict.fromkeys(("mean", "mean_goal", "worst", "worst_goal"), "{:.1f}"),
        {"mean_goal": "goal", "worst_goal": "goal ", "worst_case": "worst row"},
    )


def closing_sentence(table: pd.DataFrame) -> str:
    """Say how far predictions are off, over all sections."""
    first = table[~table.fitted & table.error.notna()].drop_duplicates("case")
    worst = first.loc[first.error.abs().idxmax()]
    fits = table["case"][table.fitted].nunique()
    return (
        f"{len(first)} published steps are predicted with a mean error of "
        f"{first.error.abs().mean():.1%}; {(first.error.abs() <= 0.1).sum()} are within 10 %, the "
        f"worst is {worst.case} ({worst.error:+.1%}). {fits} more were fitted on."
    )
