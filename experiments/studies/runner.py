"""Plays a study and puts what comes of it where people and programs find it."""

from __future__ import annotations

from typing import Any

import pandas as pd
from faultline.experiments.analysis.printing import Columns, Printed, columns_of, printed
from faultline.experiments.figures.style import figure_style, save_figure
from faultline.experiments.studies.base import Study
from faultline.experiments.studies.stage import Stage
from faultline.platforms.files import write_file

_CLAIMS: Columns = {
    "claim": "claim",
    "published": ("published", str),
    "beside": "quantity beside it",
    "not_simulated": "not simulated: why",
}


def run_study(study: Study, stage: Stage) -> list[dict[str, Any]]:
    """Play a study: tables and figures into the stage's directory, the rest on its console.

    Returns
    -------
    list of dict
        What programs read: every result beside its published value.
    """
    with stage:
        results = study.play(stage)
    rows = list(study.rows(results))
    tables = dict(study.tables(results))
    if rows:
        tables["rows"] = pd.DataFrame([row.as_dict() for row in rows])
    claims = study.claims()
    if len(claims):
        tables["claims"] = claims
    for name, table in tables.items():
        path = stage.directory / f"{name}.csv"
        write_file(path, table.to_csv(index=False, float_format=study.float_format))
    drawn = []
    for name, draw in study.figures(results).items():
        with figure_style():
            drawn.append(str(save_figure(draw(), stage.directory / name)))
    for part in study.shown(results, rows):
        stage.console.print(printed(part) if isinstance(part, Printed) else part)
    if len(claims):
        stage.console.print(printed(columns_of("What is claimed", claims.fillna(""), _CLAIMS)))
    stage.console.print(f"Tables: {stage.directory}/*.csv; figures: {', '.join(drawn)}")
    for sentence in study.headline(results, rows):
        stage.console.print(sentence, style="bold")
    return study.records(results, rows)
