"""Whole jobs: the simulator's runs of the published cells beside what closed forms predict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.spare.cells import Cell
from faultline.experiments.studies.theory.work import PUBLISHED
from faultline.strategies.spare import Spare

# The sound rules with the study's constants: nothing has to be measured on a platform.
_STATED = (
    "all_reduce.time=stated",
    "all_reduce.time_per_group_s=0.01",
    "checkpoint.write=stated",
    "checkpoint.write_s=58.8",
    "restart.load=included",
)
_HEADLINE_REPLICATION = ((200, 3), (600, 3), (1000, 3))


def published_cells() -> list[Cell]:
    """SPARe's published cells, and replication's headline, under the study's rules."""
    return [
        *(Cell("spare-study", "spare", *cell) for cell in PUBLISHED),
        *(Cell("spare-study", "replication", *cell) for cell in _HEADLINE_REPLICATION),
    ]


def all_cells() -> list[Cell]:
    """All published redundancies, under both sets of rules and both distributions."""
    replication = [*((200, redundancy) for redundancy in range(2, 13)), (600, 3), (1000, 3)]
    return [
        Cell(rules, scheme, groups, redundancy, distribution)
        for rules in ("spare-study", "spare-sound")
        for distribution in ("weibull", "exponential")
        for scheme, chosen in (("spare", PUBLISHED), ("replication", replication))
        for groups, redundancy in chosen
    ]


def compare_jobs(
    cells: list[Cell],
    seeds: int,
    workers: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> pd.DataFrame:
    """Run every cell with every seed, and predict it.

    Returns
    -------
    DataFrame
        A row a run: the run's record, with ``rules``, and the prediction's fields as
        ``predicted_*``, its ratio NaN where it does not hold for a job of so many steps;
        ``predicted_mean_stacks`` is comparable with the record's ``mean_stacks``.
        For SPARe, ``plain_work`` is the paper's lower bound of Sbar and ``work_by_failure`` the
        closed Sbar with patch compute as a mean over failures, both in stacks.
    """
    tasks, predictions = [], []
    for cell in cells:
        stated = _STATED if cell.rules == "spare-sound" else ()
        question = resolve(load_scenario(cell.rules, [*cell.settings(), *stated]))
        prediction = question.predict()
        predicted = asdict(prediction)
        predicted["time_to_train_ratio"] = prediction.ratio_of_job(question.scenario.job.steps)
        predicted["mean_stacks"] = predicted["stacks_per_step"] + predicted["patch_per_step"]
        row = {f"predicted_{name}": value for name, value in predicted.items()}
        scheme = question.strategy()
        if isinstance(scheme, Spare):
            row["plain_work"] = scheme.work_per_step()
            row["work_by_failure"] = sum(scheme.failure_course().work_per_failure())
        for seed in range(seeds):
            tasks.append(Point.of(question, seed, (("rules", cell.rules),)))
            predictions.append(row)
    runs = pd.DataFrame(play(tasks, workers=workers, on_done=on_done))
    return pd.concat([runs, pd.DataFrame(predictions)], axis=1)


def by_cell(runs: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds, a row a cell, with the relative errors of the predictions.

    ``stacks_error``, ``ratio_error``, ``availability_error`` (a difference, not relative), and
    ``plain_work_error`` and ``work_by_failure_error`` of the means over failures.
    """
    keys = ["rules", "distribution", "strategy", "groups", "redundancy"]
    rows = runs.groupby(keys, sort=False).mean(numeric_only=True).reset_index()
    return rows.assign(
        stacks_error=rows.predicted_mean_stacks / rows.mean_stacks - 1,
        ratio_error=rows.predicted_time_to_train_ratio / rows.time_to_train_ratio - 1,
        availability_error=rows.predicted_availability - rows.availability,
        plain_work_error=rows.plain_work / rows.mean_stacks - 1,
        work_by_failure_error=rows.work_by_failure / rows.mean_stacks - 1,
    )
