"""The simulation study of Lee et al. 2026 (SPARe, ICML 2026, arXiv 2603.00357).

SPARe against replication, both with checkpoints, on 600,000 GPUs in N = 200, 600, 1000 groups with
a failure every 300 s: once under the rules of the published simulator, once under sound ones. Then
both and checkpoints alone with a failure every minute to every day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.studies.base import Draw, Results, Row, Study, Tables, rows_by
from faultline.experiments.studies.spare import cells, rates, rates_figures, tables
from faultline.experiments.studies.spare.checks import SMALL_JOBS, compare_engines, measure_fabric
from faultline.experiments.studies.spare.crossings import (
    crossing_rows,
    crossing_sentence,
    crossings,
    printed_crossings,
)
from faultline.experiments.studies.spare.figures import draw_curves, draw_headline
from faultline.experiments.studies.spare.published import GROUPS, published
from faultline.experiments.studies.stage import Stage

_RATIO = "time_to_train_ratio"
_CELL = ["rules", "strategy", "groups", "redundancy", "distribution"]
_FABRIC = (
    "The study takes all-reduce times as constants: 2, 6, 10 s. spare-600k is a star whose "
    "bandwidth was chosen because it explains them: 2(N-1)/N of a rank's share at half a 12.5 GB/s "
    "NIC (2:1 oversubscribed core), plus 2(N-1) latencies. That the fabric gives them is no "
    "evidence for them.\n"
)


class SpareStudy(Study):
    """SPARe against replication, and what becomes of both at other failure rates."""

    def play(self, stage: Stage) -> Results:
        """Play the cells, the shortcuts, what sound rules lean on, and the failure rates."""
        fabric = [(groups, stage.directory / "platforms") for groups in GROUPS]
        measured = stage.calls("measuring the fabric", measure_fabric, fabric)
        engines = stage.calls("both engines", compare_engines, SMALL_JOBS)
        chosen = stage.pick(cells.default_cells(), cells.full_cells())
        runs = stage.runs("runs", list(cells.cell_points(chosen, stage.seeds)))
        shortcuts = stage.runs("shortcuts", list(cells.shortcut_points(stage.seeds)))
        sensitivity = stage.runs("sensitivity", list(cells.sensitivity_points(stage.seeds)))
        alone = stage.runs("checkpoint-only", list(cells.checkpoint_points(stage.seeds)))
        rate_runs, curves = rates.sweep(stage, rates.settings(stage.full))
        return {
            "runs": runs,
            "shortcuts": shortcuts,
            "sound_sensitivity": sensitivity,
            "checkpoint_only": alone.assign(completed_fraction=alone.completed_steps / alone.steps),
            "fabric": pd.DataFrame(measured),
            "engines": pd.DataFrame(engines),
            "headline": tables.headline_of(runs),
            "failure-rates-runs": rate_runs,
            "failure-rates": curves,
            "failure-rates-crossings": crossings(rates.best_runs(rate_runs), curves),
        }

    def tables(self, results: Results) -> Tables:
        """Return the results; of some runs only what they come to."""
        return {
            **results,
            "cells": tables.summary_of(results["runs"]),
            "shortcuts": tables.shortcuts_of(results["shortcuts"]),
            "sound_sensitivity": tables.best_of_sensitivity(results["sound_sensitivity"]),
            "checkpoint_only": tables.checkpoint_only_of(results["checkpoint_only"]),
        }

    def rows(self, results: Results) -> Iterator[Row]:
        """Return every cell beside its published value, the fabric, the shortcuts and the rest."""
        yield from cell_rows(results["runs"])
        yield from rows_by(
            results["fabric"],
            ["groups", "study_all_reduce_s", "study_save_s"],
            dict.fromkeys(("all_reduce_s", "save_s", "load_s"), "s"),
            "N={groups} spare-600k",
            "fabric",
            lambda column, **group: group.get(f"study_{column}"),
        )
        yield from rows_by(
            results["engines"].assign(engine_difference=lambda frame: frame.largest_difference),
            ["rules", "scheme", "same_events"],
            {"engine_difference": "1"},
            lambda rules, same_events, **_: f"N=24 {rules}, {_same(same_events)} events",
            "{scheme}",
        )
        known = tables.published_shortcuts()
        yield from rows_by(
            results["shortcuts"],
            ["shortcut", "strategy"],
            {_RATIO: "1"},
            "N=200 shortcut: {shortcut}",
            published=lambda _, shortcut, strategy: known.get((shortcut, strategy)),
        )
        yield from (row for row, _ in tables.at_best(results["sound_sensitivity"]))
        keys = ["setting", "strategy"]
        alone = results["checkpoint_only"]
        yield from rows_by(alone, keys, {"completed_fraction": "1"}, "{setting}")
        yield from crossing_rows(results["failure-rates-crossings"])

    def figures(self, results: Results) -> Mapping[str, Draw]:
        """Return the headline, the curves, and who trains soonest at which failure rate."""
        runs = results["runs"]
        drawn: dict[str, Draw] = {"headline.png": partial(draw_headline, results["headline"])}
        for (rules, distribution), _ in runs.groupby(["rules", "distribution"], sort=False):
            name = f"{rules.removeprefix('spare-')}-{distribution}.png"
            drawn[name] = partial(draw_curves, runs, rules, distribution)
        found = results["failure-rates"], results["failure-rates-crossings"]
        return {**drawn, **rates_figures.figures(*found)}

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterable[Printed | str]:
        """Return the tables, the headline after what it rests on."""
        made = self.tables(results)
        seconds = "{:.2f} s"
        yield Printed(
            "Fabric: measured in SimGrid on spare-600k",
            made["fabric"],
            {
                **dict.fromkeys(("all_reduce_s", "save_s", "load_s"), seconds),
                "study_all_reduce_s": "{:.0f} s",
                "study_save_s": "{:.1f} s",
            },
            {"all_reduce_s": "all-reduce", "study_all_reduce_s": "study", "save_s": "write",
             "study_save_s": "study", "load_s": "load"},
        )  # fmt: skip
        yield _FABRIC
        yield Printed(
            "Engines: 24 groups, 100 steps, no jitter; SimGrid against replay",
            made["engines"],
            {"same_events": lambda same: "yes" if same else "NO", "largest_difference": "{:.0e}"},
            {"same_events": "same events", "largest_difference": "times differ"},
        )
        yield tables.printed_shortcuts(made["shortcuts"])
        yield Printed(
            "Checkpoint and restart only",
            made["checkpoint_only"],
            {"done": "{:.2%}", _RATIO: lambda ratio: f"{ratio:.2f}" if ratio < 1e300 else "-"},
            {"strategy": "scheme", "done": "steps done", _RATIO: "time-to-train ratio"},
        )
        yield rates.printed_curves(made["failure-rates"])
        yield printed_crossings(made["failure-rates-crossings"])
        yield from tables.printed_headline(made["headline"])
        yield tables.printed_sensitivity(made["sound_sensitivity"])

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say where checkpoints overtake SPARe, and what the published gain comes to."""
        found = results["failure-rates-crossings"]
        return crossing_sentence(found), tables.closing_sentence(results["headline"])


def _same(events: bool) -> str:
    return "same" if events else "OTHER"


def cell_rows(runs: pd.DataFrame) -> Iterator[Row]:
    """Yield the rows of every cell, published beside simulated."""

    def known(column: str, rules: str, distribution: str, **cell: Any) -> float | None:
        comparable = rules == "spare-study" and distribution == "weibull"
        asked = cell["strategy"], cell["groups"], cell["redundancy"], column
        return published(*asked) if comparable else None

    quantities = {_RATIO: "1", "availability": "1", "mean_stacks": "stacks"}
    setting = "N={groups} r={redundancy} {distribution} {rules}"
    return rows_by(runs, _CELL, quantities, setting, published=known)
