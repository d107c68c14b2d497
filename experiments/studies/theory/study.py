"""Closed forms of Lee et al. 2026 (SPARe, arXiv 2603.00357) beside Monte Carlo and the simulator.

Mean failures masked, work of a step, time to a wipe-out, best redundancy: the paper's forms, the
forms derived here, and what random failures and simulated jobs say.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Call
from faultline.experiments.studies.base import Options, Reproduction, Row, row_of
from faultline.experiments.studies.theory import counts as counted
from faultline.experiments.studies.theory import figures, jobs, redundancies, tables, times, work
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PAPER_MEAN_FAILURES_ERROR = 0.0113
PAPER_LEAST_WORK_ERROR = 0.0060
PAPER_WORK_ERROR = 0.04
PAPER_GROUPS = (200, 600, 1000)
_CURVES = ((200, 9), (1000, 9))


def reproduce(options: Options) -> list[Row]:
    """Compare the closed forms with simulation: tables and figures into the directory.

    Returns
    -------
    list of Row
        Every cell of the Monte Carlo, of the matching, of the simulated jobs, and of the times,
        each followed by the relative error of the form derived here; a `published` value is the
        paper's closed form or stated accuracy.
    """
    cells = counted.all_cells() if options.full else counted.fewer_cells()
    chosen_jobs = jobs.all_cells() if options.full else jobs.published_cells()
    workers = options.workers
    with _progress(options) as progress:
        bar = progress.add_task("failures to a wipe-out", total=len(cells))
        counts = counted.compare_counts(
            cells, workers=workers, on_done=lambda: progress.advance(bar)
        )
        bar = progress.add_task("matching", total=len(work.PUBLISHED) + len(_CURVES))
        works = work.compare_work(
            list(work.PUBLISHED), workers=workers, on_done=lambda: progress.advance(bar)
        )
        curves = play(
            Call.each(work.patch_by_failure, _CURVES),
            workers=workers,
            on_done=lambda: progress.advance(bar),
        )
        bar = progress.add_task("jobs", total=len(chosen_jobs) * options.seeds)
        runs = jobs.compare_jobs(
            chosen_jobs, options.seeds, workers, on_done=lambda: progress.advance(bar)
        )
        bar = progress.add_task("times", total=len(times.SHAPES) * len(times.AGES))
        lives = times.compare_times(workers=workers, on_done=lambda: progress.advance(bar))
        bar = progress.add_task("best redundancy, figures", total=1)
        best = redundancies.compare_redundancies()
        by_cell = jobs.by_cell(runs)
        drawn = _draw(options.directory, counts, curves, by_cell, lives)
        progress.advance(bar)

    for name, content in (
        ("counts", counts),
        ("work", works),
        ("jobs", by_cell),
        ("times", lives),
        ("redundancies", best),
    ):
        content.to_csv(options.directory / f"{name}.csv", index=False)
    show = options.console.print
    show(tables.counts_table(counts))
    show(
        "X is the number of the failure that ends a life. μ is read as E[X] - 1 (failures "
        "outlived), as E[X] - 1/2, which its integral estimates, and as E[X]; 'here' are the forms "
        "that count hosts shared by types, and lives of all lengths.\n"
    )
    show(tables.replication_table(counts, 200))
    show(tables.work_table(works))
    for table in tables.jobs_tables(by_cell):
        show(table)
    show(tables.times_table(lives))
    show(
        f"T_f is within {_worst(lives.closed_s / lives.simulated_s - 1):.1%} of Monte Carlo "
        f"(standard error up to {_worst(lives.standard_error_s / lives.simulated_s):.1%}).\n"
    )
    show(tables.redundancies_table(best))
    show(f"Tables: {options.directory}/*.csv; figures: {', '.join(str(path) for path in drawn)}")
    show(closing_sentence(counts, by_cell), style="bold")
    return [
        *_accuracy_rows(counts, by_cell),
        *_count_rows(counts),
        *_work_rows(works),
        *_job_rows(runs),
        *_time_rows(lives),
    ]


REPRODUCTION = Reproduction(
    "theory", "closed forms beside Monte Carlo and simulated jobs (Lee et al. 2026)", reproduce
)


def closing_sentence(counts: pd.DataFrame, cells: pd.DataFrame) -> str:
    """Say how far the closed forms can be trusted, the paper's and those derived here."""
    spare = counts[counts.scheme == "spare"]
    paper = spare[spare.groups.isin(PAPER_GROUPS)]
    sets = counts[(counts.scheme == "replication") & (counts.groups % counts.redundancy == 0)]
    jobs_of_spare = cells[cells.strategy == "spare"]
    return (
        f"Failures to a wipe-out: the paper's μ is within {_worst(paper.plain_error_middle):.2%} "
        f"of Monte Carlo for its N (it reports {PAPER_MEAN_FAILURES_ERROR:.2%}), the form derived "
        f"here within {_worst(spare.closed_error):.2%} for all N; for replication μ is "
        f"{_worst(sets.plain_error_fatal):.0%} off, and the exact form within "
        f"{_worst(counts[counts.scheme == 'replication'].closed_error):.2%}. Mean stacks of "
        f"simulated jobs: predicted within {_worst(jobs_of_spare.stacks_error):.1%} "
        f"(the paper reports {PAPER_WORK_ERROR:.0%})."
    )


def _worst(errors: pd.Series) -> float:
    return float(errors.abs().max())


def _accuracy_rows(counts: pd.DataFrame, cells: pd.DataFrame) -> list[Row]:
    spare = counts[counts.scheme == "spare"]
    paper = spare[spare.groups.isin(PAPER_GROUPS)]
    where = "N=200, 600, 1000, all r"
    claims = (
        ("plain_error_middle", where, PAPER_MEAN_FAILURES_ERROR, paper.plain_error_middle),
        ("plain_error_outlived", where, PAPER_MEAN_FAILURES_ERROR, paper.plain_error_outlived),
        ("plain_work_error", where, PAPER_LEAST_WORK_ERROR, paper.plain_work_error),
        ("closed_error", "all N, all r", None, spare.closed_error),
        ("closed_work_error", "all N, all r", None, spare.closed_work_error),
        (
            "stacks_error",
            "simulated jobs",
            PAPER_WORK_ERROR,
            cells[cells.strategy == "spare"].stacks_error,
        ),
    )
    return [
        row_of(f"largest_{name}", "spare", setting, reported, [_worst(errors)], "1")
        for name, setting, reported, errors in claims
    ]


def _count_rows(counts: pd.DataFrame) -> list[Row]:
    rows = []
    for cell in counts.itertuples():
        setting = f"N={cell.groups} r={cell.redundancy}"
        spread = (cell.simulated, cell.standard_error)
        rows.append(
            _estimate("mean_failures", cell.scheme, setting, cell.plain, *spread, "failures")
        )
        error = (cell.closed_error, cell.standard_error / cell.simulated)
        rows.append(
            _estimate("mean_failures_closed_error", cell.scheme, setting, None, *error, "1")
        )
    return rows


def _estimate(
    quantity: str,
    scheme: str,
    setting: str,
    published: float | None,
    mean: float,
    standard_error: float,
    unit: str,
) -> Row:
    """Return the row of a Monte Carlo mean with its 95 % confidence interval."""
    half_width = 1.96 * standard_error
    return Row(
        quantity, scheme, setting, published, mean, mean - half_width, mean + half_width, unit
    )


def _work_rows(works: pd.DataFrame) -> list[Row]:
    rows = []
    for cell in works.to_dict("records"):
        setting = f"N={cell['groups']:.0f} r={cell['redundancy']:.0f}"
        for option in ("one_stack", "as_needed"):
            for name, unit in ((option, "stacks"), (f"{option}_error", "1")):
                value = float(cell[name])
                rows.append(row_of(f"patch_{name}", "spare", setting, None, [value], unit))
    return rows


def _job_rows(runs: pd.DataFrame) -> list[Row]:
    keys = ["rules", "distribution", "strategy", "groups", "redundancy"]
    rows = []
    for (rules, distribution, scheme, groups, redundancy), mine in runs.groupby(keys, sort=False):
        setting = f"N={groups} r={redundancy} {distribution} {rules}"
        for quantity, unit in (("mean_stacks", "stacks"), ("time_to_train_ratio", "1")):
            simulated = mine[quantity]
            errors = mine[f"predicted_{quantity}"] / simulated - 1
            rows.append(row_of(quantity, scheme, setting, None, list(simulated), unit))
            rows.append(row_of(f"{quantity}_error", scheme, setting, None, list(errors), "1"))
    return rows


def _time_rows(lives: pd.DataFrame) -> list[Row]:
    rows = []
    for life in lives.itertuples():
        setting = f"N=200 r={life.redundancy} shape={life.shape:g} {life.age} groups"
        spread = (life.simulated_s, life.standard_error_s)
        rows.append(_estimate("time_to_wipe_out", life.scheme, setting, life.plain_s, *spread, "s"))
        error = life.closed_s / life.simulated_s - 1
        relative = life.standard_error_s / life.simulated_s
        rows.append(
            _estimate("time_to_wipe_out_error", life.scheme, setting, None, error, relative, "1")
        )
    return rows


def _draw(
    directory: Path,
    counts: pd.DataFrame,
    curves: list[pd.DataFrame],
    cells: pd.DataFrame,
    lives: pd.DataFrame,
) -> list[Path]:
    return [
        figures.draw_errors(counts, directory / "errors.png"),
        figures.draw_replication(counts, directory / "replication.png", (200, 1000)),
        figures.draw_work(dict(zip(_CURVES, curves, strict=True)), directory / "patch-compute.png"),
        figures.draw_stacks(cells, directory / "stacks.png"),
        figures.draw_times(lives, directory / "times.png"),
    ]


def _progress(options: Options) -> Progress:
    return Progress(
        TextColumn("{task.description:24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=options.console,
    )
