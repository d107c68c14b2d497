"""Nonuniform tensor parallelism (Arfeen et al. 2025, arXiv 2504.06095).

A 480B model on 32,768 B200 in NVLink domains of 32: what single failed GPUs cost if they take
their replica with them (DP-DROP), if it runs at a lower tensor-parallel degree (NTP), and if its
GPUs draw more power instead (NTP-PW).
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from experiments.ntp_study import figures, rows, tables
from experiments.ntp_study.gradient_sync import check_sync, resharding_table
from experiments.ntp_study.placements import (
    FRACTIONS,
    availability_table,
    blast_table,
    loss_table,
    pace_table,
)
from experiments.ntp_study.setting import study_job
from experiments.ntp_study.trace_study import course_table, trace_table
from experiments.reproductions.base import Options, Reproduction, Row

_SETS, _FULL_SETS = 1_000, 10_000
_TRACES, _FULL_TRACES = 40, 400
_HIGH_DEGREES = (64, 72)
_COURSES = (("5 days", 1), ("3 days", 1), ("5 days", 3))


def reproduce(options: Options) -> list[Row]:
    """Reproduce the study: tables and figures into the directory, the headline on the console.

    Returns
    -------
    list of Row
        Every result beside its published value, where one is printed.
    """
    seeds = range(options.seeds)
    sets = _FULL_SETS if options.full else _SETS
    count = _FULL_TRACES if options.full else _TRACES
    with _progress(options) as progress:
        bar = progress.add_task("placements", total=8)
        losses = loss_table(study_job(), FRACTIONS, seeds, sets)
        progress.advance(bar, 2)
        availability = availability_table(FRACTIONS, seeds, sets // 10)
        progress.advance(bar)
        high_tp = {n: loss_table(study_job(n), [0.001], seeds, sets) for n in _HIGH_DEGREES}
        paces = pace_table(0.004, seeds, sets)
        blasts = blast_table(study_job(), seeds, sets)
        progress.update(bar, advance=1, description="traces")
        traces = trace_table(seeds, count)
        courses = {course: course_table(*course, 0, count) for course in _COURSES}
        progress.update(bar, advance=3, description="gradient sync")
        resharding = resharding_table()
        checks = [check_sync(seed) for seed in seeds]
        progress.advance(bar)

    results = [
        *rows.availability_rows(availability),
        *rows.high_tp_rows(high_tp),
        *rows.loss_rows(losses),
        *rows.pace_rows(paces),
        *rows.trace_rows(traces),
        *rows.spare_rows(traces),
        *rows.blast_rows(blasts),
        *rows.power_rows(),
        *rows.sync_rows(resharding, checks),
    ]
    _write_tables(
        options.directory,
        rows=pd.DataFrame([row.as_dict() for row in results]),
        plans=tables.plan_frame(),
        losses=losses,
        availability=availability,
        high_tp=pd.concat(high_tp, names=["degree"]).reset_index(level=0),
        paces=paces,
        traces=traces,
        courses=pd.concat(courses, names=["repair", "rate_factor"]).reset_index(level=(0, 1)),
        blasts=blasts,
        resharding=resharding,
    )
    drawn = [
        figures.draw_availability(availability, options.directory / "availability.png"),
        figures.draw_losses(losses, options.directory / "losses.png"),
        figures.draw_courses(courses, options.directory / "trace.png"),
        figures.draw_spares(traces, options.directory / "spares.png"),
        figures.draw_blasts(blasts, options.directory / "blast-radius.png"),
    ]
    show = options.console.print
    show(tables.plan_table())
    show(tables.loss_table(losses))
    show(tables.trace_table(traces))
    show(tables.spare_table(traces))
    show(tables.published_table(results))
    show(f"Tables: {options.directory}/*.csv; figures: {', '.join(str(f) for f in drawn)}")
    show(tables.closing_sentence(losses, traces), style="bold")
    return results


REPRODUCTION = Reproduction(
    "ntp", "nonuniform tensor parallelism on 32K GPUs (Arfeen et al. 2025)", reproduce
)


def _write_tables(directory: Path, **contents: pd.DataFrame) -> None:
    for name, content in contents.items():
        content.to_csv(directory / f"{name}.csv", index=False)


def _progress(options: Options) -> Progress:
    return Progress(
        TextColumn("{task.description:22}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=options.console,
    )
