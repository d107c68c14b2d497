"""The runs of all candidates in one cell, with the same seeds; hopeless runs are stopped early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds, paired_differences
from faultline.experiments.config.errors import UserError
from faultline.experiments.job.choices import at_redundancy, choices_at
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import open_job
from faultline.experiments.job.sampled_job import chosen_as, fitting, values_under
from faultline.experiments.job.workload import workload_of
from faultline.experiments.studies.head_to_head.failures import SteadyStateTraining
from faultline.experiments.studies.head_to_head.setting import (
    APPROXIMATE,
    Candidate,
    Cell,
    MeasuredJob,
    extra_compute_share,
)
from faultline.simulator.failures.distributions import Exponential
from faultline.simulator.failures.failure import Failure
from faultline.simulator.loop.run import simulate
from faultline.simulator.replay.engine import ReplayEngine
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.recovery import SHRINK
from faultline.strategies.plugins.registry import strategy_class
from faultline.strategies.theory.lifetimes import GroupLifetimes
from faultline.strategies.theory.prediction import LoopCosts, predict
from faultline.strategies.theory.wipe_out import Predictable

HOPELESS = 1.5
"""A run is stopped if its time and GPU-hours exceed the least so far by this factor."""

NEVER_RATIO = 40.0
"""A job whose time exceeds that without failures by this factor does not train."""

CELL = ["plane", "x", "y"]
METRICS = {"ratio": "time", "gpu_ratio": "gpu_hours"}

Row = dict[str, Any]
"""The results of one candidate and seed, by column."""


@dataclass(frozen=True, slots=True)
class SampledInputs:
    """Values that are unknown when redundancy and intervals are chosen."""

    mtbf_s: float  # Mean time between failures of the whole job, in seconds.
    values: Mapping[str, float]  # Of uncertain inputs, by their names (`job.sampled_job`).


@dataclass(frozen=True, slots=True)
class CellTask:
    """A cell that all candidates are simulated in."""

    cell: Cell  # The circumstances that are known.
    candidates: tuple[Candidate, ...]
    seeds: tuple[int, ...]  # Seeds, the same for all.
    measured: MeasuredJob  # Common to all cells.
    # Whether hopeless runs are stopped early; otherwise each candidate runs with each seed.
    races: bool = True
    # The circumstances of the runs, if they differ from those of `cell`, which redundancy and
    # intervals are chosen for.
    sampled: SampledInputs | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A candidate whose job in a cell is set up."""

    candidate: Candidate
    resolved: ResolvedJob  # Its job; redundancy and intervals are the best by closed forms.
    # The scheme's plain closed form of the time to train: candidates run in its order.
    predicted: float
    closed_form: float  # The full closed form; NaN if there is none, or if it does not hold.


def prepare(candidate: Candidate, cell: Cell, measured: MeasuredJob) -> Prepared | str:
    """Set up a candidate's job in a cell, or return why the job is impossible."""
    scheme = strategy_class(candidate.scheme)
    scenario = measured.scenario_of(candidate, cell)
    durations = measured.durations_in(cell, scenario)
    try:
        opened, _ = open_job(scenario, durations, measured.process(cell).model)
        costs = opened.protected.costs_of_memory(opened.costs())
        known = scheme.redundancies(cell.groups, scenario.strategy.options())
        best = known[0]
        if len(known) > 1:
            best = choices_at(opened, known)[0].redundancy
        opened = replace(opened, redundancy=best)
        opened.strategy().plan()
    except (StrategyError, UserError) as error:
        return str(error)
    resolved = at_redundancy(opened, best)
    closed_form = closed_form_ratio(resolved, cell.mtbf_s)
    # Intervals are chosen without the compute that a scheme adds to undisturbed steps.
    extra = extra_compute_share(candidate.scheme, job_shape(scenario))
    dearer = scenario.change({"times.compute_s": resolved.compute_s * (1.0 + extra)})
    priced = replace(resolved, scenario=dearer, workload=workload_of(dearer))
    predicted = resolved.strategy().normalised_time_to_train(costs)
    return Prepared(candidate, priced, predicted, closed_form)


def at_sampled_inputs(
    prepared: Prepared, cell: Cell, sampled: SampledInputs, measured: MeasuredJob
) -> Prepared:
    """Return a candidate under sampled inputs; its redundancy and intervals stay.

    `cell` has the sampled mean time between failures.
    """
    resolved = prepared.resolved
    values: dict[str, object] = {**values_under(sampled.values, prepared.candidate.scheme)}
    values |= {"failures.mtbf_s": sampled.mtbf_s, "strategy.redundancy": resolved.redundancy}
    scenario = resolved.scenario.change(fitting(resolved.scenario, values))
    durations = measured.durations_in(cell, scenario)
    opened, _ = open_job(scenario, durations, measured.process(cell).model)
    return replace(prepared, resolved=chosen_as(opened, resolved))


def closed_form_ratio(resolved: ResolvedJob, mtbf_s: float) -> float:
    """Return the predicted time to train over that without failures (`prediction.predict`).

    The closed form assumes groups that fail independently and without memory. This holds here,
    because no two groups share a GPU or a domain. The ratio is NaN without a closed form: for a
    scheme that continues with broken groups, for one that masks failures (spares replace the groups
    that it dropped), and for a state that is saved after the failure. It is also NaN if the closed
    form does not hold: for a job of fewer than `LEAST_LIVES` lives, or of lives that keep fewer
    than `LEAST_KEPT` checkpoints (`Prediction.holds_for`).
    """
    strategy, protected = resolved.strategy(), resolved.protected
    if strategy.tracks_components or not isinstance(strategy, Predictable):
        return nan
    saves_ahead = not protected.in_background or resolved.snapshot_interval_steps > 0
    if strategy.failure_course().law.mean_failures > 1.0 or not saves_ahead:
        return nan
    job, groups = resolved.scenario.job, strategy.groups
    costs = replace(resolved.costs(), mtbf_s=mtbf_s)
    failed_s = costs.all_reduce_s + resolved.durations.recovery.duration_s(SHRINK)
    prediction = predict(
        strategy.failure_course(),
        GroupLifetimes(groups, Exponential(costs.mtbf_s * groups).survival),
        protected.costs_of_memory(costs) if protected.in_background else costs,
        LoopCosts(job.compute_jitter, failed_s, undisturbed_s=resolved.ideal_step_s),
        resolved.kept_every_steps,
    )
    return prediction.ratio_of_job(job.steps)


def simulate_cell(task: CellTask) -> list[Row]:
    """Run all candidates of a cell, the fastest ones first.

    Returns a row per candidate and seed, in the order of the candidates. An impossible candidate
    has one row, with the reason under ``absent``.
    """
    prepared_by_name: dict[str, Prepared] = {}
    rows: dict[str, list[Row]] = {}
    sampled, measured = task.sampled, task.measured
    cell = task.cell if sampled is None else replace(task.cell, mtbf_s=sampled.mtbf_s)
    for candidate in task.candidates:
        prepared = prepare(candidate, task.cell, measured)
        if isinstance(prepared, str):
            rows[candidate.name] = [{**_names_of(candidate), "absent": prepared}]
            continue
        if sampled is not None:
            prepared = at_sampled_inputs(prepared, cell, sampled, measured)
        prepared_by_name[candidate.name] = prepared
    past = cache(measured.process(cell).past_failures)

    best = dict.fromkeys(METRICS, inf)
    for name in sorted(prepared_by_name, key=lambda name: _slowness(prepared_by_name[name])):
        # GPU-hours grow at least in proportion to the time, because spares only add GPUs. Beyond
        # this ratio a run can win neither in time nor in GPU-hours.
        limit = min(NEVER_RATIO, HOPELESS * max(best.values())) if task.races else NEVER_RATIO
        rows[name] = [
            _simulated(cell, measured, prepared_by_name[name], past(seed), seed, limit)
            for seed in task.seeds
        ]
        # Only runs on exact gradients that fit the memory set the limit.
        if prepared_by_name[name].candidate.scheme not in APPROXIMATE:
            fitting = [row for row in rows[name] if row["fits_memory"]]
            best = {
                metric: min([best[metric], *(row[metric] for row in fitting)]) for metric in METRICS
            }
    common = {
        "plane": cell.plane,
        "x": cell.x,
        "y": cell.y,
        "mtbf_s": cell.mtbf_s,
        "restart_s": cell.restart_s,
        "gpus": cell.groups * measured.gpus_per_group,
        "domain_share": cell.domain_share,
        "under_repair": measured.process(cell).machines_under_repair,
        "steps": measured.steps_in(task.cell),
        "step_s": measured.undisturbed_step_s(cell),
    }
    return [{**common, **row} for candidate in task.candidates for row in rows[candidate.name]]


def _slowness(prepared: Prepared) -> tuple[bool, float]:
    """Return the sort key that puts the candidates with the least predicted time first."""
    return strategy_class(prepared.candidate.scheme).tracks_components, prepared.predicted


def _simulated(
    cell: Cell,
    measured: MeasuredJob,
    prepared: Prepared,
    past: Sequence[Failure],
    seed: int,
    limit: float,
) -> Row:
    """Run a candidate with a seed until the job ends or its ratio exceeds the limit."""
    # The number of steps does not depend on the sampled inputs.
    steps = prepared.resolved.scenario.job.steps
    gpus = cell.groups * measured.gpus_per_group
    ideal_s = steps * measured.undisturbed_step_s(cell)
    strategy, job = prepared.resolved.strategy(), prepared.resolved.job(seed)
    # The clock starts with the start-up of the working groups.
    limit_s = prepared.resolved.restart_s + limit * ideal_s
    job = replace(job, work=replace(job.work, time_limit_s=limit_s))
    training = SteadyStateTraining(job, strategy, past)
    simulate(training, ReplayEngine(job))
    progress = training.progress
    time_s = progress.now_s - training.begun_s
    finished = progress.completed_batches >= steps - 1e-9
    ratio = time_s / ideal_s if finished else inf
    # Hardware that is repaired and handed back in time is never replaced.
    replaced = progress.restarts + progress.rejoined
    # A machine that takes a role over, and does not hand it back, is replaced.
    stays = "take-over" in strategy.recoveries and "hand-back" not in strategy.recoveries
    takes_spares = replaced or stays or not strategy.tracks_components
    has_spares = strategy.restart_replaces and takes_spares
    spares = measured.process(cell).spare_gpus() if has_spares else 0
    if cell.machines != "stated":
        # Each scheme pays for the standbys; machines from the queue belong to others.
        spares = job.hardware.standbys * measured.process(cell).layout.gpus_per_host
    memory_bytes = measured.held_bytes(strategy.stages_held, strategy.activations_held)
    return {
        **_names_of(prepared.candidate),
        "redundancy": prepared.resolved.redundancy,
        "seed": seed,
        "ratio": ratio,
        "token_us": 1e6 * ratio * measured.undisturbed_step_s(cell) / measured.tokens_in(cell),
        "gpu_ratio": ratio * (gpus + spares) / gpus,
        "gpu_hours": (gpus + spares) * time_s / 3600.0 if finished else inf,
        "spare_gpus": spares,
        "availability": 1.0 - progress.downtime_s / time_s if time_s else 1.0,
        "restarts": progress.restarts,
        "rejoined": progress.rejoined,
        "gpu_memory_bytes": memory_bytes,
        "fits_memory": memory_bytes <= measured.memory_bytes,
        "batch_share": progress.samples / progress.completed_steps
        if progress.completed_steps
        else 1.0,
        "raised_power": progress.raised_power_s / time_s if time_s else 0.0,
        "hits": progress.hits,
        "simulated_ratio": time_s / ideal_s,
        "closed_form_ratio": prepared.closed_form,
        "absent": "",
    }


def _names_of(candidate: Candidate) -> Row:
    return {
        "candidate": candidate.name,
        "scheme": candidate.scheme,
        "protection": candidate.protection,
    }


_CIRCUMSTANCES = [
    *("mtbf_s", "restart_s", "gpus", "domain_share", "under_repair", "steps", "step_s")
]
_KEYS = [*CELL, "candidate"]


def candidate_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return means over seeds, a row per cell and candidate.

    Columns: the cell and its circumstances; the candidate; ``seeds``, the number of simulated
    seeds; ``ratio``, the time to train over that without failures on the same platform, and
    ``gpu_ratio``, the GPU-hours with spares over those without failures, both with ``_low`` and
    ``_high`` of their 95 % intervals over seeds; means of ``token_us`` (time per trained token, in
    microseconds, comparable between platforms), ``availability``, ``restarts``, ``rejoined`` and
    ``spare_gpus``; ``closed_form_ratio``; ``gpu_memory_bytes``, the most bytes that a GPU held in
    any run; ``fits_memory``; the columns of `_with_best`; ``note``, why a run was stopped or a
    candidate is impossible.
    """
    runs = pd.DataFrame(rows)
    runs["place"] = range(len(runs))
    simulated = runs[runs["absent"] == ""]
    grouped = simulated.groupby(_KEYS, sort=False)
    first = [*_CIRCUMSTANCES, "scheme", "protection", "redundancy", "closed_form_ratio", "place"]
    table = grouped[first].first()
    table["seeds"] = grouped.size()
    for metric in METRICS:
        means = mean_over_seeds(simulated, _KEYS, metric).set_index(_KEYS)
        table[[metric, f"{metric}_low", f"{metric}_high"]] = means[["mean", "low", "high"]]
    means = ["token_us", "availability", "restarts", "rejoined", "spare_gpus", "gpu_hours"]
    table[means] = grouped[means].mean()
    table["gpu_memory_bytes"] = grouped["gpu_memory_bytes"].max()
    table["fits_memory"] = grouped["fits_memory"].all()
    reached = grouped["simulated_ratio"].mean().map("stopped at {:.1f}".format)
    table["note"] = reached.where(table["ratio"] == inf, "")
    table = _with_best(table.reset_index(), simulated)
    absent = runs[runs["absent"] != ""].assign(seeds=0).rename(columns={"absent": "note"})
    if len(absent):
        columns = [*_KEYS, *_CIRCUMSTANCES, "scheme", "protection", "seeds", "place", "note"]
        table = pd.concat([table, absent[columns]], ignore_index=True)
    flags = [f"{kind}_{name}" for kind in ("best", "sure") for name in METRICS.values()]
    table[flags] = table[flags].astype("boolean").fillna(False).astype(bool)
    return table.sort_values("place").drop(columns="place").reset_index(drop=True)


def _with_best(table: pd.DataFrame, simulated: pd.DataFrame) -> pd.DataFrame:
    """Return a table that marks the best candidate of each cell and compares it with the others.

    ``best_time`` and ``best_gpu_hours`` mark the best candidates. ``sure_time`` and
    ``sure_gpu_hours`` are true if their lead over all other schemes exceeds the noise of the seeds.
    ``above_best`` is the difference of a candidate's ratio from the best one's, paired by seed;
    ``above_best_half`` is half its 95 % interval.
    """
    flags = {f"{kind}_{name}": False for name in METRICS.values() for kind in ("best", "sure")}
    wider = table.assign(**flags, above_best=np.nan, above_best_half=np.nan)
    runs_of = dict(list(simulated.groupby(CELL, sort=False)))
    for cell, candidates in table.groupby(CELL, sort=False):
        for metric, name in METRICS.items():
            ranked = candidates[np.isfinite(candidates[metric])].sort_values(metric, kind="stable")
            if ranked.empty:
                continue
            best = ranked.iloc[0]
            behind = _behind(runs_of[cell], best["candidate"], metric)
            wider.loc[best.name, f"best_{name}"] = True
            wider.loc[best.name, f"sure_{name}"] = _is_sure(best, ranked, behind)
            if metric == "ratio":
                differences = behind.loc[candidates["candidate"]].to_numpy()
                wider.loc[candidates.index, ["above_best", "above_best_half"]] = differences
    return wider


def _behind(runs: pd.DataFrame, best: str, metric: str) -> pd.DataFrame:
    """Return the mean differences from the best candidate, and half their 95 % intervals."""
    of_best = runs[runs["candidate"] == best].set_index("seed")[metric]
    pairs = runs.assign(ours=runs[metric], theirs=runs["seed"].map(of_best))
    table = paired_differences(pairs.dropna(subset="theirs"), ["candidate"])
    half = (table["high"] - table["low"]) / 2
    table["half"] = half.where(np.isfinite(table["difference"]), 0.0)
    return table.set_index("candidate")[["difference", "half"]]


def _is_sure(best: pd.Series, ranked: pd.DataFrame, behind: pd.DataFrame) -> bool:
    """Return whether the best candidate surely beats all other schemes."""
    others = ranked.loc[ranked["scheme"] != best["scheme"], "candidate"]
    # The nearest rivals decide. A single seed has no interval, so that nothing is sure.
    rivals = behind.loc[others.head(3)]
    return bool((rivals["difference"] > rivals["half"]).all())
