"""Beyond the SPARe paper: what its rules leave on the table.

Checkpoints are written as the hazard of a restart asks for, and not at a fixed interval; groups
that failed come back at a checkpoint once they are repaired; spare groups stand in for them until
then. For SPARe and replication on the cluster of Lee et al. 2026 (SPARe), under sound rules.
"""

from __future__ import annotations

import pandas as pd
from faultline.experiments.studies.adaptive import effects, figures, tables
from faultline.experiments.studies.adaptive.variants import SCHEMES, number_of_runs, run_variants
from faultline.experiments.studies.base import Options, Reproduction, Row, row_of
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_GROUPS, _FULL_GROUPS = (200,), (200, 600)
_STEPS, _FULL_STEPS = 3_000, 10_000


def reproduce(options: Options) -> list[Row]:
    """Run the study: tables and figures into the directory, the effects on the console.

    Returns
    -------
    list of Row
        Ratios in time and in GPU-hours of every cell, and what each variant changes; nothing of it
        is published.
    """
    groups = _FULL_GROUPS if options.full else _GROUPS
    steps = _FULL_STEPS if options.full else _STEPS
    with _progress(options) as progress:
        bar = progress.add_task("runs", total=number_of_runs(groups, options.seeds))
        runs = run_variants(
            groups, steps, options.seeds, options.workers, lambda: progress.advance(bar)
        )
    changes = effects.changes(runs)
    best = effects.best_redundancies(runs)
    for name, content in {"runs": runs, "changes": changes, "best": best}.items():
        content.to_csv(options.directory / f"{name}.csv", index=False)

    show = options.console.print
    drawn = []
    for n in groups:
        drawn += [
            figures.draw_curves(runs, n, options.directory / f"curves-{n}.png"),
            figures.draw_changes(changes, n, options.directory / f"changes-{n}.png"),
            figures.draw_causes(runs, best, n, options.directory / f"badput-{n}.png"),
        ]
        for scheme in SCHEMES:
            show(tables.changes_table(changes, n, scheme))
        show(tables.best_table(best, n))
    show(f"Tables: {options.directory}/*.csv; figures: {', '.join(str(f) for f in drawn)}")
    for n in groups:
        show(tables.dynamic_sentence(changes, n), style="bold")
        show(tables.rejoin_sentence(best, n), style="bold")
    return [*cell_rows(runs), *change_rows(changes)]


REPRODUCTION = Reproduction(
    "adaptive",
    "beyond SPARe: dynamic checkpoints, groups that rejoin, spares",
    reproduce,
    default_seeds=5,
)


def cell_rows(runs: pd.DataFrame) -> list[Row]:
    """Return the rows of every cell: both ratios and the availability."""
    return [
        row_of(metric, scheme, f"N={n} r={r} {variant}", None, list(mine[metric]), "1")
        for (scheme, n, r, variant), mine in runs.groupby(
            ["strategy", "groups", "redundancy", "variant"], sort=False
        )
        for metric in (*effects.METRICS, "availability")
    ]


def change_rows(changes: pd.DataFrame) -> list[Row]:
    """Return the rows of the paired changes, in time and in GPU-hours, with their intervals."""
    return [
        Row(
            f"change_of_{row.metric}",
            row.strategy,
            f"N={row.groups} r={row.redundancy} {row.variant} against plain",
            None,
            row.change,
            # A single seed has no interval.
            row.change if pd.isna(row.change_low) else row.change_low,
            row.change if pd.isna(row.change_high) else row.change_high,
            "1",
        )
        for row in changes.itertuples()
    ]


def _progress(options: Options) -> Progress:
    return Progress(
        TextColumn("{task.description:22}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=options.console,
    )
