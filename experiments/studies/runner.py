"""Runs a study, prints its results, and writes them to files."""

from __future__ import annotations

from typing import Any

from faultline.experiments.figures.style import figure_style, save_figure
from faultline.experiments.report.tables import Table, on_screen
from faultline.experiments.studies.base import Study
from faultline.experiments.studies.claims import judged, judged_rows, printed_claims, tally_text
from faultline.experiments.studies.stage import Stage
from faultline.platforms.files import write_file


def run_study(study: Study, stage: Stage) -> list[dict[str, Any]]:
    """Run a study: tables and figures into the stage's directory, the rest on its console.

    Returns the records for programs: every result beside its published value.
    """
    with stage:
        results = study.simulate(stage)
    rows = study.compared(results)
    tables = dict(study.tables(results))
    listed = study.claims()
    if rows:
        tables["rows"] = judged_rows(listed, rows, study.within)
    if listed:
        tables["claims"] = judged(listed, rows, study.within, set(tables))
    for name, table in tables.items():
        path = stage.directory / f"{name}.csv"
        write_file(path, table.to_csv(index=False, float_format=study.float_format))
    drawn = []
    for name, draw in study.figures(results).items():
        with figure_style():
            drawn.append(str(save_figure(draw(), stage.directory / name)))
    for part in (*study.shown(results, rows), *printed_claims(tables.get("claims"))):
        shown = on_screen(part, 12, rows_shown=None) if isinstance(part, Table) else part
        stage.console.print(shown)
        stage.console.print()
    if listed and rows:
        stage.console.print(f"{tally_text(tables['rows'])}.")
    figures = f"; figures: {', '.join(drawn)}" if drawn else ""
    stage.console.print(f"Tables: {stage.directory}/*.csv{figures}")
    for sentence in study.headline(results, rows):
        stage.console.print(sentence, style="bold")
    return study.records(results, rows)
