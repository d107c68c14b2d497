"""Closed forms beside recorded samples, SPARe's real matching and simulated jobs.

Failures until a wipe-out and length of a life, whose random samples are recorded in the study's
data; work of a step; whole jobs beside their prediction, and the best redundancy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.choices import predict_redundancies
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.spare import cells as of_spare
from faultline.experiments.studies.stage import Stage
from faultline.simulator.failures.distributions import Weibull
from faultline.strategies.base import WipeOut
from faultline.strategies.checkpoint_period import Costs, best_period_s
from faultline.strategies.closed_forms.lifetimes import (
    GroupLifetimes,
    availability_of_lives,
    best_period_of_lives_s,
    stationary_excess,
)
from faultline.strategies.closed_forms.stacked_types import (
    StackedTypes,
    independent_types_mean_failures,
    least_stacks,
    patch_types,
)
from faultline.strategies.closed_forms.wipe_out import (
    DisjointSets,
    WipeOutLaw,
    plain_mean_failures,
)
from faultline.strategies.registry import build_strategy, strategy_class
from faultline.strategies.spare import Spare, SpareOptions, published_redundancy

PUBLISHED = (*((200, redundancy) for redundancy in range(2, 13)), (600, 8), (1000, 9))
"""(N, r) of SPARe in the published tables."""
LAWS: dict[str, type[WipeOutLaw]] = {"spare": StackedTypes, "replication": DisjointSets}
TIMES_GROUPS = 200
STUDY = Costs(mtbf_s=300.0, save_s=58.8, restart_s=3600.0, compute_s=64.0, all_reduce_s=2.0)
"""Costs of Lee et al. 2026 (SPARe) for 200 groups, in seconds."""
PATCH_OPTIONS = {
    "one_stack": SpareOptions(patch_compute="one-stack"),
    "as_needed": SpareOptions(patch_compute="as-needed"),
}


def compare_counts(sampled: dict[str, Any]) -> dict[str, Any]:
    """Put the closed forms beside a recorded cell (``data/counts.csv``).

    ``simulated`` is the mean number of failures up to and with the wipe-out, ``standard_error``
    that of the mean; ``plain`` is mu(N, r) of the paper, ``closed`` the law of the scheme,
    ``independent`` the lower bound with independent types (SPARe only). ``least_work`` is the
    simulated mean of c(k) = ceil(N / (N - k)) over all failures, ``least_work_by_life`` the mean
    over lives of a life's mean, ``plain_work`` and ``closed_work`` the closed forms, all in stacks
    (SPARe only).
    """
    scheme, groups, redundancy = (sampled[name] for name in ("scheme", "groups", "redundancy"))
    law = LAWS[scheme](groups, redundancy)
    forms = {"plain": plain_mean_failures(groups, redundancy), "closed": law.mean_failures}
    if scheme == "spare":
        least, outliving = least_stacks(groups, redundancy), law.outliving
        forms["independent"] = independent_types_mean_failures(groups, redundancy)
        forms["plain_work"] = build_strategy("spare", groups, redundancy).work_per_step()
        forms["closed_work"] = float(outliving @ least / outliving.sum())
    return sampled | forms


_COUNTS = ["scheme", "groups", "redundancy", "trials", "simulated", "standard_error", "plain",
           "closed", "independent", "least_work", "least_work_standard_error",
           "least_work_by_life", "plain_work", "closed_work"]  # fmt: skip


def with_errors(compared: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return a row a cell of `compare_counts`, with relative errors: closed form / simulated - 1.

    ``plain_error_*`` read mu as an estimate of E[X] - 1 (failures outlived), E[X] - 1/2, and E[X].
    """
    rows = pd.DataFrame(compared, columns=_COUNTS)
    for name, offset in (("outlived", 1.0), ("middle", 0.5), ("fatal", 0.0)):
        rows[f"plain_error_{name}"] = rows.plain / (rows.simulated - offset) - 1
    for form in ("closed", "independent"):
        rows[f"{form}_error"] = rows[form] / rows.simulated - 1
    for form in ("plain", "closed"):
        rows[f"{form}_work_error"] = rows[f"{form}_work"] / rows.least_work - 1
    return rows


_REORDERINGS = 3
"""Part of what a seed means; it never changes."""


def _lives_for(groups: int) -> int:
    """Return a number of lives that takes about half a second of matching."""
    return max(50, 100_000 // groups)


def lives(groups: int, redundancy: int, trials: int, seed: int) -> pd.DataFrame:
    """Let groups fail one at a time, in random order, until a wipe-out, `trials` times.

    A row for each number of failures k that a life outlived: ``failures``, ``lives`` (that outlived
    k), ``stacks`` (mean S after the k-th failure), ``one_stack`` and ``as_needed`` (mean patch
    compute of the k-th failure under either option, in types of the busiest survivor; NaN at
    k = 0).
    """
    stream = np.random.SeedSequence(seed, spawn_key=(_REORDERINGS, groups, redundancy))
    rng = np.random.default_rng(stream)
    scheme = Spare(groups, redundancy, SpareOptions(patch_compute="as-needed"))
    sums = np.zeros((groups, 4))
    for _ in range(trials):
        for failures, (stacks, patch) in enumerate(_life(scheme, rng.permutation(groups).tolist())):
            sums[failures] += (1, stacks, patch > 0, patch)
    table = pd.DataFrame(sums, columns=["lives", "stacks", "one_stack", "as_needed"])
    table = table[table.lives > 0].rename_axis("failures").reset_index()
    means = ["stacks", "one_stack", "as_needed"]
    table[means] = table[means].div(table.lives, axis=0)
    table.loc[0, ["one_stack", "as_needed"]] = np.nan
    return table.astype({"lives": int})


def _life(scheme: Spare, order: Sequence[int]) -> list[tuple[int, int]]:
    """S and the busiest survivor's patch after each failure that was outlived; first without."""
    scheme.restart()
    course = [(scheme.plan().stacks, 0)]
    for group in order:
        verdict = scheme.on_failures([group])
        if isinstance(verdict, WipeOut):
            break
        course.append((scheme.plan().stacks, max(verdict.patch.values(), default=0)))
    return course


def work_per_failure(table: pd.DataFrame, option: str) -> tuple[float, float]:
    """Return mean stacks and mean patch compute over the failures of all lives, in types.

    The patch of the k-th failure goes with the state that it leaves, as in the closed form.
    """
    weights = table.lives / table.lives.sum()
    return float((weights * table.stacks).sum()), float((weights * table[option]).sum())


def compare_work(cell: tuple[int, int]) -> dict[str, Any]:
    """Return the mean stacks and patch compute over the failures of many lives of an (N, r).

    ``stacks``, ``one_stack``, ``as_needed`` are simulated with the real matching, in shard types;
    ``closed_*`` are closed forms; ``*_error`` are relative. ``work_error`` is that of stacks and
    patch compute together under 'one-stack'.
    """
    groups, redundancy = cell
    trials = _lives_for(groups)
    table = lives(groups, redundancy, trials, seed=0)
    row: dict[str, Any] = {"groups": groups, "redundancy": redundancy, "lives": trials}
    for option, choice in PATCH_OPTIONS.items():
        course = Spare(groups, redundancy, choice).failure_course()
        row["stacks"], row[option] = work_per_failure(table, option)
        row["closed_stacks"], row[f"closed_{option}"] = course.work_per_failure()
    for name in ("stacks", *PATCH_OPTIONS):
        row[f"{name}_error"] = row[f"closed_{name}"] / row[name] - 1
    closed = row["closed_stacks"] + row["closed_one_stack"]
    return {**row, "work_error": closed / (row["stacks"] + row["one_stack"]) - 1}


def patch_by_failure(cell: tuple[int, int]) -> pd.DataFrame:
    """Return rho_k beside Monte Carlo, a row a number of failures k that some lives outlived.

    The columns of `lives`, and ``least_stacks``, ``closed_one_stack``, ``closed_as_needed``.
    """
    groups, redundancy = cell
    # A seed of its own: the mean over all k is measured on other lives.
    table = lives(groups, redundancy, 2 * _lives_for(groups), seed=1)
    at = table.failures.to_numpy()
    closed = {
        "least_stacks": least_stacks(groups, redundancy),
        "closed_one_stack": patch_types(groups, redundancy, one_stack=True),
        "closed_as_needed": patch_types(groups, redundancy, one_stack=False),
    }
    return table.assign(**{name: np.asarray(values)[at] for name, values in closed.items()})


def compare_times(sampled: dict[str, Any]) -> dict[str, Any]:
    """Put the closed forms beside a recorded time to a wipe-out (``data/times.csv``).

    ``age`` is "new" (all groups are renewed by a restart) or "old" (their clocks run on).
    ``plain_s`` is mu(N, r) m as the paper has it, ``closed_s`` the integral of R(1 - S(t)),
    ``simulated_s`` Monte Carlo with ``standard_error_s``. ``plain_period_s`` is T_c* from
    ``plain_s``, ``best_period_s`` the best fixed period of such lives, ``availability`` and
    ``best_availability`` what a job reaches with either.
    """
    distribution = Weibull.from_mean(sampled["shape"], STUDY.mtbf_s * TIMES_GROUPS)
    new = distribution.survival
    survival = new if sampled["age"] == "new" else stationary_excess(new, distribution.mean_s)
    forms = _forms_of_life(
        sampled["scheme"], sampled["redundancy"], GroupLifetimes(TIMES_GROUPS, survival)
    )
    drawn = {name: sampled[name] for name in ("simulated_s", "standard_error_s")}
    rest = {name: value for name, value in sampled.items() if name not in drawn}
    return rest | forms | drawn


def _forms_of_life(scheme: str, redundancy: int, lifetimes: GroupLifetimes) -> dict[str, Any]:
    groups, costs = lifetimes.groups, STUDY
    life = lifetimes.life(LAWS[scheme](groups, redundancy))
    plain_s = plain_mean_failures(groups, redundancy) * costs.mtbf_s
    plain_period_s = best_period_s(costs.save_s, plain_s, costs.restart_s)
    period_s = best_period_of_lives_s(life, costs.save_s, 1.05 * costs.save_s)
    return {
        "plain_s": plain_s,
        "closed_s": life.mean_s,
        "plain_period_s": plain_period_s,
        "best_period_s": period_s,
        "availability": availability_of_lives(life, plain_period_s, costs.save_s, costs.restart_s),
        "best_availability": availability_of_lives(life, period_s, costs.save_s, costs.restart_s),
    }


# The sound rules with the study's constants: nothing has to be measured on a platform.
_STATED = {
    "times.all_reduce_per_group_s": 0.01,
    "times.checkpoint_write_s": 58.8,
    "restart.readers": None,
}
_LARGEST = 14


def published_jobs() -> list[of_spare.Cell]:
    """SPARe's published cells, and replication's headline, under the study's rules."""
    cells = [*(("spare", *cell) for cell in PUBLISHED)]
    cells += [("replication", groups, 3) for groups in of_spare.GROUPS]
    return [of_spare.Cell("spare-study", *cell) for cell in cells]


def all_jobs() -> list[of_spare.Cell]:
    """All published redundancies, under both sets of rules and both distributions."""
    replication = [*((200, redundancy) for redundancy in range(2, 13)), (600, 3), (1000, 3)]
    return [
        of_spare.Cell(rules, scheme, groups, redundancy, distribution)
        for rules, distribution in product(of_spare.RULES, of_spare.DISTRIBUTIONS)
        for scheme, chosen in (("spare", PUBLISHED), ("replication", replication))
        for groups, redundancy in chosen
    ]


def compare_jobs(stage: Stage, cells: list[of_spare.Cell]) -> pd.DataFrame:
    """Run every cell with every seed, and predict it.

    A row a run: the run's record, with ``rules``, and the prediction's fields as ``predicted_*``,
    its ratio NaN where it does not hold for a job of so many steps; ``predicted_mean_stacks`` is
    comparable with the record's ``mean_stacks``. For SPARe, ``plain_work`` is the paper's lower
    bound of Sbar and ``work_by_failure`` the closed Sbar with patch compute as a mean over
    failures, both in stacks.
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
    known = of_spare.headline().set_index(["scheme", "groups"]).redundancy
    cells = product(of_spare.GROUPS, ("replication", "spare"))
    return pd.DataFrame(_best(scheme, n, int(known[scheme, n])) for n, scheme in cells)


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
    return {
        "scheme": name,
        "groups": groups,
        "published": published,
        "rule": published_redundancy(groups) if scheme is Spare else objective,
        "objective": objective,
        "predicted": best,
        "near": f"{near[0]} to {near[-1]}",
        "predicted_ratio": ratios[best],
    }
