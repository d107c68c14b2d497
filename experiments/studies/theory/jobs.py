"""Whole jobs beside what closed forms predict: the published cells, and the best redundancy."""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.choices import predict_redundancies
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.spare.cells import Cell
from faultline.experiments.studies.spare.published import GROUPS, headline
from faultline.experiments.studies.stage import Stage
from faultline.experiments.studies.theory.comparisons import PUBLISHED
from faultline.strategies.registry import strategy_class
from faultline.strategies.spare import Spare, SpareOptions

# The sound rules with the study's constants: nothing has to be measured on a platform.
_STATED = {
    "times.all_reduce_per_group_s": 0.01,
    "times.checkpoint_write_s": 58.8,
    "restart.readers": None,
}
_LARGEST = 14
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


def compare_jobs(stage: Stage, cells: list[Cell]) -> pd.DataFrame:
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
    points, predictions = [], []
    for cell in cells:
        stated = _STATED if cell.rules == "spare-sound" else {}
        job = resolve(load_scenario(cell.rules, {**cell.settings(), **stated}))
        prediction = job.predict()
        predicted = asdict(prediction)
        predicted["time_to_train_ratio"] = prediction.ratio_of_job(job.scenario.job.steps)
        predicted["mean_stacks"] = predicted["stacks_per_step"] + predicted["patch_per_step"]
        row = {f"predicted_{name}": value for name, value in predicted.items()}
        scheme = job.strategy()
        if isinstance(scheme, Spare):
            row["plain_work"] = scheme.work_per_step()
            row["work_by_failure"] = sum(scheme.failure_course().work_per_failure())
        for seed in range(stage.seeds):
            points.append(Point.of(job, seed, (("rules", cell.rules),)))
            predictions.append(row)
    return pd.concat([stage.runs("jobs", points), pd.DataFrame(predictions)], axis=1)


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


def compare_redundancies() -> pd.DataFrame:
    """Return the best r under the study's rules, a row a scheme and N, each with its ratio.

    ``rule`` is the scheme's own choice (for SPARe floor(log2 N + 0.833)), ``objective`` where J(r)
    from plain forms is least, ``predicted`` where the predicted time-to-train ratio is, with
    ``predicted_ratio``; ``near`` are all r predicted within 1 % of it. ``published`` is the best
    in the published tables.
    """
    known = headline().set_index(["scheme", "groups"]).redundancy
    return pd.DataFrame(
        [
            _best(scheme, groups, int(known[scheme, groups]))
            for groups in GROUPS
            for scheme in ("replication", "spare")
        ]
    )


def _best(name: str, groups: int, published: int) -> dict[str, object]:
    scheme = strategy_class(name)
    job = resolve(load_scenario("spare-study", {"strategy.name": name, "job.groups": groups}))
    costs = job.costs()
    options = job.scenario.strategy.options()
    candidates = [r for r in scheme.redundancies(groups, options) if r <= _LARGEST]
    ratios = {
        redundancy: prediction.time_to_train_ratio
        for redundancy, prediction in predict_redundancies(job, candidates).items()
    }
    best = min(ratios, key=ratios.__getitem__)
    near = [r for r, ratio in ratios.items() if ratio <= 1.01 * ratios[best]]
    objective = min(
        candidates, key=lambda r: scheme(groups, r, options).normalised_time_to_train(costs)
    )
    by_rule = SpareOptions(redundancies="published")
    return {
        "scheme": name,
        "groups": groups,
        "published": published,
        "rule": scheme.redundancies(groups, by_rule)[0] if scheme is Spare else objective,
        "objective": objective,
        "predicted": best,
        "near": f"{near[0]} to {near[-1]}",
        "predicted_ratio": ratios[best],
    }
