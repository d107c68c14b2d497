"""Plays a study and puts what comes of it where people and programs find it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from faultline.experiments.analysis.printing import Printed, printed
from faultline.experiments.studies.base import Row, Study, Tables
from faultline.experiments.studies.stage import Stage


def run_study(study: Study, stage: Stage) -> list[Row]:
    """Play a study: tables and figures into the stage's directory, the rest on its console.

    Returns
    -------
    list of Row
        Every result beside its published value.
    """
    with stage:
        results = study.play(stage)
    rows = list(study.rows(results))
    every_row = pd.DataFrame([row.as_dict() for row in rows])
    write_tables(stage.directory, {**study.tables(results), "rows": every_row})
    drawn = []
    for name, draw in study.figures(results).items():
        draw(stage.directory / name)
        drawn.append(str(stage.directory / name))
    for part in study.shown(results, rows):
        stage.console.print(printed(part) if isinstance(part, Printed) else part)
    stage.console.print(f"Tables: {stage.directory}/*.csv; figures: {', '.join(drawn)}")
    for sentence in study.headline(results, rows):
        stage.console.print(sentence, style="bold")
    return rows


def write_tables(directory: Path, tables: Tables) -> None:
    """Write each table as CSV, without its index."""
    for name, table in tables.items():
        table.to_csv(directory / f"{name}.csv", index=False)
