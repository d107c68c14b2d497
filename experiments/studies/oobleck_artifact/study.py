"""Oobleck's public artifact: what losing 15 of 30 nodes costs Oobleck, Varuna and Bamboo.

Five models, a loss every 6 h to every 10 min, with the constants of the artifact's simulators (Jang
et al. 2023, Oobleck, SOSP 2023): effective time and throughput beside what its code prints. And the
planner: the speed of 6.7B by nodes from FLOP alone, beside the speeds that the artifact has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.figures.palette import title_of
from faultline.experiments.studies.base import Draw, Results, Row, Study
from faultline.experiments.studies.oobleck_artifact import figures, tables
from faultline.experiments.studies.oobleck_artifact.losses import System
from faultline.experiments.studies.oobleck_artifact.published import EFFECTIVE_PERCENT, INTERVALS
from faultline.experiments.studies.stage import Stage

SYSTEMS: tuple[System, ...] = ("oobleck", "varuna", "bamboo")


class OobleckArtifactStudy(Study):
    """Effective time and throughput of three systems that lose nodes one by one."""

    default_seeds = 1

    def play(self, stage: Stage) -> Results:
        """Play every system and model at all rates; nothing of it is random."""
        rows = [(system, model) for system in SYSTEMS for known, model in EFFECTIVE_PERCENT
                if known == system]  # fmt: skip
        cells = stage.calls("systems and models", tables.cells_of, rows)
        with stage.step("planner"):
            planned = tables.planner_table()
        return {"cells": pd.concat(cells, ignore_index=True), "planner": planned}

    def rows(self, results: Results) -> Iterator[Row]:
        """Return every cell, the whole steps of 6.7B, and what the planner says of it."""
        yield from tables.cell_rows(results["cells"])
        yield from tables.step_rows(results["cells"])
        yield from tables.own_rendezvous_rows()
        yield from tables.planner_rows(results["planner"])

    def figures(self, results: Results) -> Mapping[str, Draw]:
        """Return the cells, and the planner's speeds."""
        return {
            "oobleck-artifact.png": partial(figures.draw_cells, results["cells"]),
            "oobleck-planner.png": partial(figures.draw_planned, results["planner"]),
        }

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterator[Printed]:
        """Return effective time and throughput, published ones in brackets."""
        for name, digits in (("effective time", 1), ("samples/s", 3)):
            yield _shown(
                f"{name} (published)", [row for row in rows if row.quantity == name], digits
            )

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say how far each system is off."""
        return [_account(system, rows) for system in SYSTEMS]


def _shown(title: str, rows: Sequence[Row], digits: int) -> Printed:
    told: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        model, interval = row.setting.split(" ", 1)
        known = "" if row.published is None else f" ({row.published:g})"
        value = f"{row.simulated:.1f}" if digits == 1 else f"{row.simulated:.{digits}g}"
        told.setdefault((row.scheme, model), {})[interval] = value + known
    frame = pd.DataFrame(
        {"system": title_of(system), "model": model, **cells}
        for (system, model), cells in told.items()
    )
    return Printed(title, frame, dict.fromkeys(INTERVALS, "{}"))


def _account(system: str, rows: Sequence[Row]) -> str:
    """Return how many of a system's printed values are met, and how far the others are off."""
    mine = [row for row in rows if row.scheme == system and row.published is not None]
    points = [
        abs(row.simulated - row.published)
        for row in mine
        if row.quantity == "effective time" and row.published is not None
    ]
    errors = [
        abs(row.simulated / row.published - 1)
        for row in mine
        if row.quantity == "samples/s" and row.published is not None
    ]
    return (
        f"{title_of(system)}: effective time within 3 points in {sum(p <= 3 for p in points)} of "
        f"{len(points)} cells (worst {max(points):.1f}); samples/s within 5 % in "
        f"{sum(e <= 0.05 for e in errors)} of {len(errors)} (worst {max(errors):.0%})."
    )
