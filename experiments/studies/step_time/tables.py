"""What became of the rows: predictions, their errors, and what is printed of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
from faultline.experiments.analysis.printing import Printed, columns_of
from faultline.experiments.studies.base import Row
from faultline.experiments.studies.data import read_rows
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

SECTIONS = {row["section"]: row for row in read_rows("step_time", "sections")}
"""Tables of the rows: title, short name, and what errors were to be at most, mean and worst."""


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
    """Return the mean and the worst error of each section, in percent of what was published."""
    rows = []
    for section, mine in judged(table).groupby("section", sort=False):
        goals, worst = SECTIONS[str(section)], mine.loc[mine.error.abs().idxmax()]
        rows.append(
            {
                "section": section,
                "rows": len(mine),
                "mean": 100.0 * mine.error.abs().mean(),
                "mean_goal": goals.get("mean_goal"),
                "worst": 100.0 * abs(worst.error),
                "worst_goal": goals.get("worst_goal"),
                "worst_case": worst.case,
            }
        )
    return pd.DataFrame(rows).astype({"mean_goal": float, "worst_goal": float})


def judged(table: pd.DataFrame) -> pd.DataFrame:
    """Return what counts: rows that are published and not fitted, each in its first unit."""
    return table[~table.fitted & table.error.notna()].drop_duplicates("case")


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
    label = mine["case"].str.removeprefix(f"{section} ")
    frame = mine.assign(
        row=label,
        range=["" if low == high else f"{low:.4g} to {high:.4g}"
               for low, high in zip(mine.low, mine.high, strict=True)],
        error=mine.error.map("{:+.1%}".format, na_action="ignore").mask(
            mine.fitted & mine.error.notna(), "fitted"
        ),
    )  # fmt: skip
    columns: dict[str, str | tuple[str, str]] = {
        "row": "row",
        "gpus": "GPUs",
        "published": ("published", "{:.4g}"),
        "simulated": ("predicted", "{:.4g}"),
        "unit": "unit",
        "range": ("range", "{}"),
        "error": ("error", "{}"),
        "step_s": ("step, s", "{:.3g}"),
    }
    if (mine.unit == "s").any():
        del columns["step_s"]
    if (frame.range == "").all():
        del columns["range"]
    note = "; ".join(
        f"{cell.software}: efficiency {cell.efficiency:.3f}, fitted on {cell.fitted_on}"
        for cell in mine.drop_duplicates("software").itertuples()
    )
    return columns_of(SECTIONS[section]["title"], frame, columns, note)


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
    first = judged(table)
    worst = first.loc[first.error.abs().idxmax()]
    fits = table["case"][table.fitted].nunique()
    return (
        f"{len(first)} published steps are predicted with a mean error of "
        f"{first.error.abs().mean():.1%}; {(first.error.abs() <= 0.1).sum()} are within 10 %, the "
        f"worst is {worst.case} ({worst.error:+.1%}). {fits} more were fitted on."
    )
