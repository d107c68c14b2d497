"""Snapshots in host memory (REFT, Wang et al. 2023, arXiv 2310.12670), and beneath other schemes.

What is published: how long state in memory survives, what a snapshot costs an iteration, how fast
it is saved; and what FT-HSDP's shorter stalls are worth. What is not: REFT and its relatives
beneath SPARe, replication and plain checkpoints, and where restarted jobs find their state.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from faultline.experiments.studies.base import Options, Reproduction, Row
from faultline.experiments.studies.gemini.figures import draw_loss_over_time
from faultline.experiments.studies.reft import (
    combinations,
    effects,
    figures,
    iterations,
    recoveries,
    rows,
    snapshots,
    stalls,
    tables,
)
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

_TRIALS, _FULL_TRIALS = 40_000, 400_000
_STEPS, _FULL_STEPS = 2_000, 10_000
_SCAN_STEPS, _FULL_SCAN_STEPS = 3_000, 10_000
_PLACEMENT_STEPS, _FULL_PLACEMENT_STEPS = 500, 2_000
_STALL_STEPS, _FULL_STALL_STEPS = 40_000, 400_000
_RECOVERY_STEPS, _FULL_RECOVERY_STEPS = 3_000, 30_000


def reproduce(options: Options) -> list[Row]:
    """Reproduce the study: tables and figures into the directory, the headline on the console.

    Returns
    -------
    list of Row
        Every result beside its published value, where one is printed.
    """
    full = options.full
    seeds, workers = options.seeds, options.workers
    main = list(combinations.main_cells(_FULL_STEPS if full else _STEPS))
    scan = list(combinations.scan_cells(_FULL_SCAN_STEPS if full else _SCAN_STEPS))
    placed = list(combinations.placement_cells(_FULL_PLACEMENT_STEPS if full else _PLACEMENT_STEPS))
    jobs = len(main) + len(scan) + len(placed) + len(recoveries.CASES)
    jobs += len(stalls.STALLS_S) * len(stalls.TREATMENTS)
    with _progress(options) as progress:
        bar = progress.add_task("lifetimes", total=3 + jobs * seeds)

        def advance() -> None:
            progress.advance(bar)

        reliability = rows.reliability_rows(_FULL_TRIALS if full else _TRIALS, seed=0)
        advance()
        progress.update(bar, description="probes on hgx-a800")
        iteration, unhidden_s = iterations.iteration_table(), snapshots.unhidden_stall_s()
        advance()
        sharded, saving = snapshots.sharded_table(), snapshots.saving_table()
        advance()
        progress.update(bar, description="stalls")
        stalled = stalls.stall_table(
            _FULL_STALL_STEPS if full else _STALL_STEPS, seeds, workers, advance
        )
        progress.update(bar, description="recoveries")
        recovered = recoveries.recovery_table(
            _FULL_RECOVERY_STEPS if full else _RECOVERY_STEPS, seeds, workers, advance
        )
        progress.update(bar, description="schemes, protections")
        runs = combinations.run_cells(main, seeds, workers, advance)
        progress.update(bar, description="redundancies")
        scanned = combinations.run_cells(scan, seeds, workers, advance)
        progress.update(bar, description="placements")
        placements = combinations.run_cells(placed, seeds, workers, advance)
    changes, best = effects.changes(runs), effects.best_redundancies(scanned)

    results = [
        *reliability,
        *rows.iteration_rows(iteration),
        *rows.snapshot_rows(sharded, saving),
        *rows.stall_rows(stalled),
        *rows.combination_rows(runs, changes),
        *rows.scan_rows(scanned),
        *rows.placement_rows(placements),
        *rows.recovery_rows(recovered),
    ]
    directory = options.directory
    _write_tables(
        directory,
        rows=pd.DataFrame([row.as_dict() for row in results]),
        iterations=iteration,
        snapshots=sharded,
        saving=saving,
        stalls=stalled,
        combinations=runs,
        changes=changes,
        redundancies=scanned,
        placements=placements,
        recoveries=recovered,
    )
    drawn = [
        draw_loss_over_time(directory / "loss.png"),
        figures.draw_saving(saving, directory / "saving.png"),
        figures.draw_stalls(stalled, directory / "stalls.png"),
        figures.draw_combinations(runs, directory / "combinations.png"),
        figures.draw_scan(scanned, directory / "redundancies.png"),
    ]
    show = options.console.print
    show(tables.reliability_table(reliability))
    show(tables.iteration_table(iteration))
    show(tables.iteration_sentence(iteration, unhidden_s))
    show(tables.sharded_table(sharded))
    show(tables.saving_table(saving))
    show(tables.stall_table(stalled))
    show(tables.recovery_table(recovered))
    for restart_s in combinations.RESTARTS_S:
        show(tables.combination_table(runs, changes, restart_s))
    show(tables.placement_table(placements))
    show(f"Tables: {directory}/*.csv; figures: {', '.join(str(file) for file in drawn)}")
    show(tables.combination_sentence(runs, best), style="bold")
    return results


REPRODUCTION = Reproduction(
    "reft",
    "snapshots in host memory, and beneath other schemes (Wang et al. 2023)",
    reproduce,
)


def _write_tables(directory: Path, **contents: pd.DataFrame) -> None:
    for name, content in contents.items():
        content.to_csv(directory / f"{name}.csv", index=False)


def _progress(options: Options) -> Progress:
    return Progress(
        TextColumn("{task.description:22}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=options.console,
    )
