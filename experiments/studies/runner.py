"""Runs a study, writes its results to files, and prints a summary of a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
from faultline.experiments.analysis.quantities import counted, quantity
from faultline.experiments.figures.style import figure_style, save_figure
from faultline.experiments.report.tables import Table, on_screen
from faultline.experiments.screen import print_names
from faultline.experiments.studies.base import Study
from faultline.experiments.studies.claims import BOUNDS, OF_PUBLISHED, judged, judged_rows
from faultline.experiments.studies.stage import Stage
from faultline.platforms.files import write_file

_MOST_LISTED = 3
"""Misses that the summary names; ``rows.csv`` has all."""


def run_study(study: Study, stage: Stage) -> list[dict[str, Any]]:
    """Run a study: tables and figures into the stage's directory, a summary on its console.

    Returns the records for programs: every result beside its published value.
    """
    with stage:
        results = study.simulate(stage)
    rows = study.compared(results)
    tables = dict(study.tables(results))
    listed = study.claims()
    beside = rows
    if rows:
        judgements = judged_rows(listed, rows, study.within)
        tables["rows"] = judgements
        known = judgements.published.astype(object).where(judgements.published.notna(), None)
        beside = [replace(row, published=value) for row, value in zip(rows, known, strict=True)]
    if listed:
        tables["claims"] = judged(listed, rows, study.within, set(tables))
    for name, table in tables.items():
        path = stage.directory / f"{name}.csv"
        write_file(path, table.to_csv(index=False, float_format=study.float_format))
    drawn = []
    for name, draw in study.figures(results).items():
        with figure_style():
            drawn.append(save_figure(draw(), stage.directory / name).name)
    for part in study.headline(results, beside):
        shown = on_screen(part, 12, rows_shown=None) if isinstance(part, Table) else part
        stage.console.print(shown, soft_wrap=isinstance(part, str))
    print_names(stage.console, summary_lines(tables["rows"]) if rows else ())
    files = ["rows.csv"] * bool(rows) + ["claims.csv"] * bool(listed)
    others = counted(len(tables) - len(files), "more table" if files else "table")
    named = ", ".join([*files, others, *drawn])
    stage.console.print(f"Files: {stage.directory} ({named})", soft_wrap=True)
    return study.records(results, rows)


def summary_lines(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the largest misses among `judged_rows`, and the published bounds that are not met."""
    compared = rows[rows.published.notna() & rows.verdict.isin(OF_PUBLISHED)]
    missed = compared[compared.verdict == "outside"]
    of_bounds = missed[missed.test.isin(BOUNDS) | (missed.published == 0)]
    others = missed.drop(of_bounds.index)
    if compared.empty:
        return
    if missed.empty:
        predicted = int((compared.kind == "prediction").sum())
        yield f"Met: all of {counted(len(compared), 'published value')}; {predicted} predicted."
    if not others.empty:
        errors = others.simulated / others.published.astype(float) - 1.0
        largest = others.assign(error=errors).sort_values("error", key=abs, ascending=False)
        # One of each kind says more than three of one kind.
        largest = largest.drop_duplicates(["quantity", "scheme"]).head(_MOST_LISTED)
        yield f"Largest misses ({len(others)} of {len(compared)} published values are missed):"
        for row in largest.itertuples():
            yield f"  {_percent(row.error):>7}  {_name_of(row)}"
    if not of_bounds.empty:
        yield f"Not met ({counted(len(of_bounds), 'bound')}):"
        named = of_bounds.drop_duplicates(["quantity", "scheme"]).head(_MOST_LISTED)
        for row in named.itertuples():
            yield f"  {_name_of(row)}: {_beside(row)}"


def _percent(error: float) -> str:
    return f"{100 * error:+.{0 if abs(error) >= 0.1 else 1}f} %"


def _name_of(row: Any) -> str:
    scheme = "" if row.setting.startswith(row.scheme) else row.scheme
    places = ", ".join(filter(None, (scheme, row.setting)))
    return f"{quantity(row.quantity).label} ({places})" if places else quantity(row.quantity).label


def _beside(row: Any) -> str:
    unit = "" if row.unit == "1" else f" {row.unit}"
    bound = f"{row.test} " if row.test in BOUNDS else ""
    return f"{row.simulated:.3g}{unit} (published: {bound}{row.published:.3g}{unit})"
