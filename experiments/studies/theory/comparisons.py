"""Closed forms compared with recorded samples and simulated jobs.

Failures until a wipe-out, length of a life and work of a failure are compared with random samples
in the study's data; whole jobs with their prediction; and the best redundancy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.choices import predict_job, predictions
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.spare import cells as of_spare
from faultline.experiments.studies.stage import Stage
from faultline.simulator.failures.distributions import Weibull
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.plugins.registry import build_strategy, strategy_class
from faultline.strategies.schemes.spare.spare import Spare, SpareOptions, published_redundancy
from faultline.strategies.theory.lifetimes import GroupLifetimes, stationary_excess
from faultline.strategies.theory.stacked_types import StackedTypes, least_stacks
from faultline.strategies.theory.wipe_out import DisjointSets, WipeOutLaw, plain_mean_failures

PUBLISHED = (*((200, redundancy) for redundancy in range(2, 13)), (600, 8), (1000, 9))
"""(N, r) of SPARe in the published tables."""
PAPER_GROUPS = (200, 600, 1000)
LAWS: dict[str, type[WipeOutLaw]] = {"spare": StackedTypes, "replication": DisjointSets}
TIMES_GROUPS, MTBF_S = 200, 300.0
"""Groups of the recorded times, and the job's mean time between failures (Lee et al. 2026)."""
PATCH_OPTIONS = {
    "one_stack": SpareOptions(patch_compute="one-stack"),
    "as_needed": SpareOptions(patch_compute="as-needed"),
}


def with_interval(table: pd.DataFrame, column: str, standard_error: pd.Series) -> pd.DataFrame:
    """Return a table with the 95 % confidence interval of a column's Monte Carlo means."""
    half = 1.96 * standard_error
    ends = {f"{column}_low": table[column] - half, f"{column}_high": table[column] + half}
    return table.assign(**ends)


def compare_counts(sampled: dict[str, Any]) -> dict[str, Any]:
    """Compare the closed forms with a recorded cell (``data/counts.csv``).

    ``simulated`` is the mean number of failures including the wipe-out, ``standard_error`` that of
    the mean; ``plain`` is mu(N, r) of the paper, ``closed`` the law of the scheme. ``least_work``
    is the simulated mean of c(k) = ceil(N / (N - k)) over all failures, ``plain_work`` and
    ``closed_work`` the closed forms, all in stacks (SPARe only).
    """
    scheme, groups, redundancy = (sampled[name] for name in ("scheme", "groups", "redundancy"))
    law = LAWS[scheme](groups, redundancy)
    forms = {"plain": plain_mean_failures(groups, redundancy), "closed": law.mean_failures}
    if scheme == "spare":
        least, outliving = least_stacks(groups, redundancy), law.outliving
        forms["plain_work"] = build_strategy("spare", groups, redundancy).work_per_step()
        forms["closed_work"] = float(outliving @ least / outliving.sum())
    return sampled | forms


def with_errors(compared: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return a row per cell of `compare_counts`, with relative errors: closed form / simulated - 1.

    ``plain_error_*`` read mu as an estimate of E[X] - 1 (survived failures), of E[X] - 1/2, which
    its integral estimates, and of E[X]. X is the number of the failure that ends a life.
    """
    rows = pd.DataFrame(compared)
    for name, offset in (("outlived", 1.0), ("middle", 0.5), ("fatal", 0.0)):
        rows[f"plain_error_{name}"] = rows.plain / (rows.simulated - offset) - 1
    rows["closed_error"] = rows.closed / rows.simulated - 1
    for form in ("plain", "closed"):
        rows[f"{form}_work_error"] = rows[f"{form}_work"] / rows.least_work - 1
    rows = with_interval(rows, "simulated", rows.standard_error)
    return with_interval(rows, "closed_error", rows.standard_error / rows.simulated)


def compare_work(sampled: dict[str, Any]) -> dict[str, Any]:
    """Compare SPARe's closed patch compute with a recorded (N, r) (``data/work.csv``).

    ``one_stack`` and ``as_needed`` are means over the failures of many lives with the real
    matching, in shard types of the busiest survivor; ``*_error`` are relative errors of the closed
    forms.
    """
    groups, redundancy = sampled["groups"], sampled["redundancy"]
    errors = {}
    for option, choice in PATCH_OPTIONS.items():
        _, closed = (
            Spare(groups, redundancy, choice, JobShape()).failure_course().work_per_failure()
        )
        errors[f"{option}_error"] = closed / sampled[option] - 1
    return sampled | errors


def compare_times(sampled: dict[str, Any]) -> dict[str, Any]:
    """Compare the closed forms with a recorded time to a wipe-out (``data/times.csv``).

    ``age`` is "new" (a restart renews all groups) or "old" (their clocks continue). ``plain_s`` is
    mu(N, r) m as in the paper, ``closed_s`` the integral of R(1 - S(t)), ``simulated_s`` Monte
    Carlo with ``standard_error_s``.
    """
    distribution = Weibull.from_mean(sampled["shape"], MTBF_S * TIMES_GROUPS)
    new = distribution.survival
    survival = new if sampled["age"] == "new" else stationary_excess(new, distribution.mean_s)
    law = LAWS[sampled["scheme"]](TIMES_GROUPS, sampled["redundancy"])
    closed_s = GroupLifetimes(TIMES_GROUPS, survival).life(law).mean_s
    plain_s = plain_mean_failures(TIMES_GROUPS, sampled["redundancy"]) * MTBF_S
    error = closed_s / sampled["simulated_s"] - 1
    return sampled | {"plain_s": plain_s, "closed_s": closed_s, "closed_error": error}


def times_with_intervals(compared: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return a row per time of `compare_times`, with 95 % confidence intervals."""
    rows = pd.DataFrame(compared)
    rows = with_interval(rows, "simulated_s", rows.standard_error_s)
    return with_interval(rows, "closed_error", rows.standard_error_s / rows.simulated_s)


# The sound rules with the study's constants need no measurement on a platform.
_STATED = {
    "times.all_reduce_per_group_s": 0.01,
    "times.checkpoint_write_s": 58.8,
    "restart.readers": None,
}
_LARGEST = 14


def published_jobs() -> list[of_spare.SpareCell]:
    """SPARe's published cells, and replication's headline, under the study's rules."""
    cells = [*(("spare", *cell) for cell in PUBLISHED)]
    cells += [("replication", groups, 3) for groups in of_spare.GROUPS]
    return [of_spare.cell_of("spare-study", *cell) for cell in cells]


def all_jobs() -> list[of_spare.SpareCell]:
    """All published redundancies, under both sets of rules and both distributions."""
    replication = [*((200, redundancy) for redundancy in range(2, 13)), (600, 3), (1000, 3)]
    return [
        of_spare.cell_of(rules, scheme, groups, redundancy, distribution)
        for rules, distribution in product(of_spare.RULES, of_spare.DISTRIBUTIONS)
        for scheme, chosen in (("spare", PUBLISHED), ("replication", replication))
        for groups, redundancy in chosen
    ]


def compare_jobs(stage: Stage, cells: list[of_spare.SpareCell]) -> pd.DataFrame:
    """Run every cell with every seed, and compute its prediction.

    A row per run: the run's record, with ``rules``, the prediction's ``predicted_mean_stacks``,
    ``predicted_time_to_train_ratio`` (NaN if it does not hold for a job this short) and
    ``predicted_availability``, and the relative errors of the first two.
    """
    points, predicted = [], []
    for cell in cells:
        scenario = load_scenario(cell.rules, cell.changes())
        job = resolve(scenario.change(_STATED if cell.rules == "spare-sound" else {}))
        prediction = predict_job(job)
        row = {
            "predicted_mean_stacks": prediction.stacks_per_step + prediction.patch_per_step,
            "predicted_time_to_train_ratio": prediction.ratio_of_job(job.scenario.job.steps),
            "predicted_availability": prediction.availability,
        }
        for seed in range(stage.seeds):
            points.append(Point.of(job, seed, (("rules", cell.rules),)))
            predicted.append(row)
    runs = pd.concat([stage.runs("jobs", points), pd.DataFrame(predicted)], axis=1)
    for name in ("mean_stacks", "time_to_train_ratio"):
        runs[f"{name}_error"] = runs[f"predicted_{name}"] / runs[name] - 1
    return runs


def by_cell(runs: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds, a row per cell, with the relative errors of the predictions."""
    keys = ["rules", "distribution", "strategy", "groups", "redundancy"]
    rows = runs.groupby(keys, sort=False).mean(numeric_only=True).reset_index()
    return rows.assign(
        stacks_error=rows.predicted_mean_stacks / rows.mean_stacks - 1,
        ratio_error=rows.predicted_time_to_train_ratio / rows.time_to_train_ratio - 1,
    )


def largest_errors(counts: pd.DataFrame, jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the largest errors of SPARe's closed forms."""
    spare = counts[counts.scheme == "spare"]
    paper = spare[spare.groups.isin(PAPER_GROUPS)]
    where = "N=200, 600, 1000, all r"
    found = (
        ("plain_error_middle", where, paper),
        ("plain_error_outlived", where, paper),
        ("plain_work_error", where, paper),
        ("closed_error", "all N, all r", spare),
        ("closed_work_error", "all N, all r", spare),
        ("stacks_error", "simulated jobs", jobs[jobs.strategy == "spare"]),
    )
    return pd.DataFrame(
        {"quantity": f"largest_{name}", "setting": setting, "value": float(table[name].abs().max())}
        for name, setting, table in found
    )


def compare_redundancies() -> pd.DataFrame:
    """Return the best r under the study's rules, a row per scheme and N.

    ``rule`` is the scheme's own choice (for SPARe floor(log2 N + 0.833)). ``objective`` minimises
    J(r) from plain forms, ``predicted`` the predicted time-to-train ratio; ``near`` are all r
    predicted within 1 % of it. ``published`` is the best in the published tables.
    """
    known = of_spare.headline().set_index(["scheme", "groups"]).redundancy
    cells = product(of_spare.GROUPS, ("replication", "spare"))
    return pd.DataFrame(_best(scheme, n, int(known[scheme, n])) for n, scheme in cells)


def _best(name: str, groups: int, published: int) -> dict[str, object]:
    scheme = strategy_class(name)
    job = resolve(load_scenario("spare-study", {"strategy.name": name, "job.groups": groups}))
    costs = job.costs()
    options = job.scenario.strategy.options()
    candidates = [r for r in scheme.redundancies(groups, options) if r <= _LARGEST]
    found = predictions(job, [(redundancy, None) for redundancy in candidates])
    ratios = {r: one.time_to_train_ratio for r, one in zip(candidates, found, strict=True)}
    best = min(ratios, key=ratios.__getitem__)
    near = [r for r, ratio in ratios.items() if ratio <= 1.01 * ratios[best]]
    objective = min(
        candidates,
        key=lambda r: build_strategy(name, groups, r, options).normalised_time_to_train(costs),
    )
    return {
        "scheme": name,
        "groups": groups,
        "published": published,
        "rule": published_redundancy(groups) if scheme is Spare else objective,
        "objective": objective,
        "predicted": best,
        "near": f"{near[0]} to {near[-1]}",
    }
