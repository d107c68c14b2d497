"""Nonuniform tensor parallelism (Arfeen et al. 2025, arXiv 2504.06095).

A 480B model on 32,768 B200 in NVLink domains of 32: what single failed GPUs cost if they take
their replica with them (DP-DROP), if it runs at a lower tensor-parallel degree (NTP), and if its
GPUs draw more power instead (NTP-PW). The same schemes in the training loop, through 15 days of
failures, repairs and restarts; and NTP inside SPARe and replication on 600,000 GPUs.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from faultline.experiments.studies.base import Options, Reproduction, Row
from faultline.experiments.studies.ntp import (
    figures,
    loop_figures,
    loop_rows,
    loop_tables,
    rows,
    tables,
)
from faultline.experiments.studies.ntp.failing_spares import (
    failing_spare_rows,
    failing_spares_table,
)
from faultline.experiments.studies.ntp.gradient_sync import check_sync, resharding_table
from faultline.experiments.studies.ntp.loop_setting import VARIANTS as LOOP_VARIANTS
from faultline.experiments.studies.ntp.loop_study import loop_table
from faultline.experiments.studies.ntp.placements import (
    FRACTIONS,
    availability_table,
    blast_table,
    loss_table,
    pace_table,
)
from faultline.experiments.studies.ntp.setting import study_job
from faultline.experiments.studies.ntp.trace_study import course_table, trace_table
from faultline.experiments.studies.ntp.within_study import VARIANTS as WITHIN_VARIANTS
from faultline.experiments.studies.ntp.within_study import within_table
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

_SETS, _FULL_SETS = 1_000, 10_000
_TRACES, _FULL_TRACES = 40, 400
_LOOP_TRACES, _FULL_LOOP_TRACES = 1, 10
_WITHIN_STEPS, _FULL_WITHIN_STEPS = 5_000, 10_000
_FAILING_REPAIR = "5 days"
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
        failing = failing_spares_table(_FAILING_REPAIR, seeds, count)
        courses = {course: course_table(*course, 0, count) for course in _COURSES}
        progress.update(bar, advance=3, description="gradient sync")
        resharding = resharding_table()
        checks = [check_sync(seed) for seed in seeds]
        progress.advance(bar)
        loop, within = _play_loops(options, progress)

    results = [
        *rows.availability_rows(availability),
        *rows.high_tp_rows(high_tp),
        *rows.loss_rows(losses),
        *rows.pace_rows(paces),
        *rows.trace_rows(traces),
        *rows.spare_rows(traces),
        *failing_spare_rows(failing, _FAILING_REPAIR),
        *rows.blast_rows(blasts),
        *rows.power_rows(),
        *rows.sync_rows(resharding, checks),
        *loop_rows.loop_rows(loop),
        *loop_rows.within_rows(within),
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
        failing_spares=failing,
        courses=pd.concat(courses, names=["repair", "rate_factor"]).reset_index(level=(0, 1)),
        blasts=blasts,
        resharding=resharding,
        loop=loop,
        within=within,
    )
    drawn = [
        figures.draw_availability(availability, options.directory / "availability.png"),
        figures.draw_losses(losses, options.directory / "losses.png"),
        figures.draw_courses(courses, options.directory / "trace.png"),
        figures.draw_spares(traces, options.directory / "spares.png"),
        figures.draw_blasts(blasts, options.directory / "blast-radius.png"),
        loop_figures.draw_loop(loop, options.directory / "goodput.png"),
        loop_figures.draw_within(within, options.directory / "within.png"),
    ]
    show = options.console.print
    show(tables.plan_table())
    show(tables.loss_table(losses))
    show(tables.trace_table(traces))
    show(tables.spare_table(traces, failing, _FAILING_REPAIR))
    show(loop_tables.loop_table(loop))
    show(loop_tables.within_table(within))
    show(tables.published_table(results))
    show(f"Tables: {options.directory}/*.csv; figures: {', '.join(str(f) for f in drawn)}")
    show(tables.closing_sentence(losses, traces, failing), style="bold")
    show(loop_tables.closing_sentences(loop, within), style="bold")
    return results


REPRODUCTION = Reproduction(
    "ntp", "nonuniform tensor parallelism on 32K GPUs (Arfeen et al. 2025)", reproduce
)


def _play_loops(options: Options, progress: Progress) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Play the schemes in the training loop, by themselves and inside others."""
    seeds = range(options.seeds)
    count = _FULL_LOOP_TRACES if options.full else _LOOP_TRACES
    steps = _FULL_WITHIN_STEPS if options.full else _WITHIN_STEPS
    runs = len(seeds) * (count * len(LOOP_VARIANTS) + len(WITHIN_VARIANTS))
    bar = progress.add_task("training loop", total=runs)

    def on_done() -> None:
        progress.advance(bar)

    loop = loop_table(options.directory / "failures", seeds, count, options.workers, on_done)
    return loop, within_table(seeds, steps, options.workers, on_done)


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
