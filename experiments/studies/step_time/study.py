"""How long a training step takes: predicted, beside what has been published.

SimGrid plays a step of every row, on as much of the cluster as stands for all of it. The time comes
from published speeds of kernels and links and from one number a software: the efficiency of its
computations, which is fitted on one row while the study runs. Every other row is a prediction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import ClassVar

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.studies.base import Results, Row, Study, Verdicts
from faultline.experiments.studies.stage import Stage
from faultline.experiments.studies.step_time import collectives, figures, tables
from faultline.experiments.studies.step_time.predicting import Group, Predicted, play
from faultline.experiments.studies.step_time.published import Case, cases

_DEEP = 16
"""Stages of a pipeline above which a row is played for itself: it takes as long as many others."""


def _by_size(case: Case) -> tuple[str, int]:
    return case.software.fitted_on, case.layout.pipeline


class StepTimeStudy(Study):
    """Step times of published runs, from kernels, links and one efficiency a software."""

    default_seeds = 1
    within = 0.1
    charts: ClassVar = {
        "step-time.png": (figures.draw_agreement, "predictions"),
        "step-time-parts.png": (figures.draw_parts, "predictions"),
    }

    def play(self, stage: Stage) -> Results:
        """Fit every software on its row, and play all others."""
        every = cases()
        fitted = {case.label: case for case in every if case.is_fitted}
        groups = [
            Group(
                tuple(
                    case
                    for case in every
                    if case.software.fitted_on == label and case.layout.pipeline <= _DEEP
                ),
                case,
                sweeps=stage.full,
            )
            for label, case in fitted.items()
        ]
        known: dict[str, Predicted] = dict(
            zip(fitted, stage.calls("rows of a software", play, groups), strict=True)
        )
        deep = [
            Group(tuple(alike), fitted[label], known[label].efficiencies)
            for (label, _), alike in groupby(
                sorted((case for case in every if case.layout.pipeline > _DEEP), key=_by_size),
                key=_by_size,
            )
        ]
        found = [*known.values(), *stage.calls("deep pipelines", play, deep)]
        rings = stage.calls("collectives", collectives.bus_bandwidths, collectives.GPUS)
        rows = tables.predictions(every, pd.concat([one.rows for one in found]))
        return {"predictions": rows, "errors": tables.errors(rows), "collectives": pd.concat(rings)}

    def rows(self, results: Results) -> Iterator[Row]:
        """Return every output of every row, the errors of each section, and the collectives."""
        yield from tables.prediction_rows(results["predictions"])
        yield from tables.error_rows(results["errors"])
        yield from collectives.rows(results["collectives"])

    def verdicts(self, results: Results) -> Verdicts:
        """Return which rows an efficiency was fitted on."""
        table = results["predictions"]
        fitted = table[table.fitted & table.published.notna()]
        return {
            (row.quantity, row.scheme, row.setting): "calibrated"
            for row in tables.prediction_rows(fitted)
        }

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterable[Printed]:
        """Return a table a section, the errors, and the collectives."""
        table = results["predictions"]
        for section, mine in table.groupby("section", sort=False):
            yield tables.printed_section(str(section), mine)
        yield tables.printed_errors(results["errors"])
        yield collectives.printed(results["collectives"])

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say how far predictions are off."""
        return [tables.closing_sentence(results["predictions"])]
