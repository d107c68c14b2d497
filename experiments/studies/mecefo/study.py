"""MeCeFO, Bamboo and Oobleck on 32 GPUs that keep failing (MeCeFO, NeurIPS 2025).

Throughput without failures is input; what failures take of it is simulated: 350M and 7B beside
published values, 1B predicted. The ablation of one pipeline, memory, and the numerics of the
approximate backward pass come with it.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from faultline.experiments.studies.base import Options, Reproduction, Row
from faultline.experiments.studies.mecefo import figures, rows, tables
from faultline.experiments.studies.mecefo.course import courses_of
from faultline.experiments.studies.mecefo.numerics.cost_comparison import cost_rows
from faultline.experiments.studies.mecefo.numerics.figures import (
    draw_gradient_error,
    draw_training_courses,
)
from faultline.experiments.studies.mecefo.numerics.gradient_error import gradient_errors
from faultline.experiments.studies.mecefo.numerics.memory_comparison import memory_rows
from faultline.experiments.studies.mecefo.runs import drop_table, number_of_runs
from faultline.experiments.studies.mecefo.setting import SYSTEMS
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_DRAWS, _FULL_DRAWS = 1, 4
_SHOWN_SCENARIO, _SHOWN_SEED, _SHOWN_HOURS = "high", 2, 36.0


def reproduce(options: Options) -> list[Row]:
    """Reproduce the comparison: tables and figures into the directory, the headline on the console.

    Returns
    -------
    list of Row
        Every result beside its published value, where one is printed.
    """
    with _progress(options) as progress:
        runs_of_all = number_of_runs(options.seeds, full=options.full)
        bar = progress.add_task("runs", total=runs_of_all + 2)
        runs = drop_table(
            range(options.seeds),
            options.workers,
            lambda: progress.advance(bar),
            full=options.full,
        )
        progress.update(bar, description="courses")
        courses = courses_of(SYSTEMS, _SHOWN_SCENARIO, _SHOWN_SEED, _SHOWN_HOURS)
        progress.update(bar, advance=1, description="numerics")
        errors = gradient_errors(draws=_FULL_DRAWS if options.full else _DRAWS)
        progress.advance(bar)

    results = [
        *rows.drop_rows(runs),
        *rows.throughput_rows(runs),
        *rows.resilience_rows(runs),
        *rows.plateau_rows(),
        *rows.ablation_rows(),
        *rows.memory_rows_of([*memory_rows(256), *memory_rows(512)]),
        *rows.numerics_rows(errors),
    ]
    _write_tables(
        options.directory,
        rows=pd.DataFrame([row.as_dict() for row in results]),
        runs=runs,
        costs=pd.DataFrame(cost_rows()),
        gradients=errors,
    )
    drawn = [
        figures.draw_drops(results, options.directory / "drops.png"),
        figures.draw_courses(courses, _SHOWN_SCENARIO, options.directory / "courses.png"),
        draw_gradient_error(options.directory / "gradients.png", errors),
    ]
    if options.full:
        drawn.append(draw_training_courses(options.directory / "training.png"))
    show = options.console.print
    show(tables.drop_table_of(results))
    show(tables.plateau_table(results))
    show(tables.pipeline_table(results))
    show(f"Tables: {options.directory}/*.csv; figures: {', '.join(str(f) for f in drawn)}")
    show(tables.account(results), style="bold")
    show(tables.headline(results), style="bold")
    return results


REPRODUCTION = Reproduction(
    "mecefo", "neighbour take-over, with Bamboo and Oobleck (MeCeFO, NeurIPS 2025)", reproduce
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
