"""All candidates of one cell, simulated with the same seeds; hopeless ones are stopped early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import half_width, mean_over_seeds
from faultline.experiments.config.errors import UserError
from faultline.experiments.job.choices import at_redundancy, choices_at
from faultline.experiments.job.job_shape import job_shape, scheme_options
from faultline.experiments.job.resolved_job import ResolvedJob, open_job
from faultline.experiments.job.sampled_job import chosen_as, values_under, with_values
from faultline.experiments.studies.head_to_head.failures import EnteredTraining
from faultline.experiments.studies.head_to_head.setting import (
    APPROXIMATE,
    Candidate,
    Cell,
    Ground,
    price,
)
from faultline.simulator.failures.distributions import Exponential
from faultline.simulator.failures.failure import Failure
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import simulate
from faultline.strategies.closed_forms.lifetimes import GroupLifetimes
from faultline.strategies.closed_forms.prediction import StepCosts, predict
from faultline.strategies.closed_forms.wipe_out import Predictable
from faultline.strategies.errors import StrategyError
from faultline.strategies.recovery import SHRINK
from faultline.strategies.registry import strategy_class

HOPELESS = 1.5
"""A run is stopped if its time and GPU-hours exceed the least so far by this factor."""

CONTESTED = 1.15
"""Candidates within this factor of the best, in time or GPU-hours, are simulated with all seeds."""

NEVER_RATIO = 40.0
"""A job whose time exceeds that without failures by this factor does not train."""

CELL = ["plane", "x", "y"]
METRICS = {"ratio": "time", "gpu_ratio": "gpu_hours"}

Row = dict[str, Any]
"""What came of one candidate and seed, by column."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What is unknown when redundancy and intervals are chosen."""

    mtbf_s: float  # Mean time between failures of the whole job, in seconds.
    values: Mapping[str, float]  # Of uncertain inputs, by their names (`job.sampled_job`).


@dataclass(frozen=True, slots=True)
class Match:
    """A cell to be simulated."""

    cell: Cell  # The circumstances, as far as they are known.
    candidates: tuple[Candidate, ...]  # Who takes part.
    seeds: tuple[int, ...]  # Seeds, the same for all.
    ground: Ground  # What all cells have in common.
    # Whether the hopeless are stopped early; otherwise everybody is simulated with every seed.
    races: bool = True
    # The circumstances as they are, where redundancy and intervals are chosen for those of `cell`.
    truth: Truth | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A candidate, prepared for a cell."""

    candidate: Candidate  # Who.
    question: ResolvedJob  # Its job; redundancy and intervals are the best by closed forms.
    # The scheme's plain closed form of the time to train, by which the fastest are tried first.
    predicted: float
    closed_form: float  # The full closed form; NaN where there is none, or it does not hold.


def enter(candidate: Candidate, cell: Cell, ground: Ground) -> Entry | str:
    """Prepare a candidate for a cell, or say why it cannot take part."""
    scheme = strategy_class(candidate.scheme)
    scenario = ground.scenario_of(candidate, cell)
    durations = ground.durations_in(cell, scenario)
    try:
        opened, _ = open_job(scenario, durations, ground.process(cell).model)
        met = opened.protected.costs_of_memory(opened.costs())
        known = scheme.redundancies(cell.groups, scheme_options(scenario))
        best = known[0]
        if len(known) > 1:
            best = choices_at(opened, known)[0].redundancy
        opened = replace(opened, redundancy=best)
        opened.strategy().plan()
    except (StrategyError, UserError) as error:
        return str(error)
    question = at_redundancy(opened, best)
    closed_form = closed_form_ratio(question, cell.mtbf_s)
    # Intervals are chosen as if it cost no more without failures than others do.
    compute_s = scenario.compute_s * (1.0 + price(candidate.scheme, job_shape(scenario)))
    dearer = scenario.times.model_copy(update={"compute_s": compute_s})
    priced = replace(question, scenario=scenario.model_copy(update={"times": dearer}))
    predicted = question.strategy().normalised_time_to_train(met)
    return Entry(candidate, priced, predicted, closed_form)


def in_truth(entry: Entry, cell: Cell, truth: Truth, ground: Ground) -> Entry:
    """Return an entry in circumstances that it was not chosen for.

    `cell` has the truth's mean time between failures.
    """
    question = entry.question
    values: dict[str, object] = {**values_under(truth.values, entry.candidate.scheme)}
    values |= {"failures.mtbf_s": truth.mtbf_s, "strategy.redundancy": question.redundancy}
    scenario = with_values(question.scenario, values)
    durations = ground.durations_in(cell, scenario)
    opened, _ = open_job(scenario, durations, ground.process(cell).model)
    return replace(entry, question=chosen_as(opened, question))


def closed_form_ratio(question: ResolvedJob, mtbf_s: float) -> float:
    """Return the predicted time to train over that without failures (`prediction.predict`).

    Groups fail each by itself, memoryless: so they do here, as neither a GPU nor a domain is shared
    by two groups. NaN where there is no closed form: for a scheme that goes on with broken groups,
    for one that masks failures, as spares take the places of groups that it dropped, and for a
    state that is saved after the failure; and where it does not hold: for a job of fewer than
    `LEAST_LIVES` lives, or of lives that keep fewer than `LEAST_KEPT` checkpoints
    (`Prediction.holds_for`).
    """
    strategy, protected = question.strategy(), question.protected
    if strategy.tracks_components or not isinstance(strategy, Predictable):
        return nan
    saves_ahead = not protected.in_background or question.snapshot_interval_steps > 0
    if strategy.failure_course().law.mean_failures > 1.0 or not saves_ahead:
        return nan
    job, groups = question.scenario.job, strategy.groups
    costs = replace(question.costs(), mtbf_s=mtbf_s)
    failed_s = costs.all_reduce_s + question.durations.recovery.duration_s(SHRINK)
    prediction = predict(
        strategy.failure_course(),
        GroupLifetimes(groups, Exponential(costs.mtbf_s * groups).survival),
        protected.costs_of_memory(costs) if protected.in_background else costs,
        StepCosts(job.compute_jitter, failed_s, undisturbed_s=question.ideal_step_s),
        question.kept_every_steps,
    )
    return prediction.ratio_of_job(job.steps)


def simulate_match(match: Match) -> list[Row]:
    """Run all candidates of a cell, the fastest ones first.

    A row a candidate and seed, in the order of the candidates; those that cannot take part have one
    row with the reason under ``absent``.
    """
    entries: dict[str, Entry] = {}
    rows: dict[str, list[Row]] = {}
    truth, ground = match.truth, match.ground
    cell = match.cell if truth is None else replace(match.cell, mtbf_s=truth.mtbf_s)
    for candidate in match.candidates:
        made = enter(candidate, match.cell, ground)
        if truth is not None and isinstance(made, Entry):
            made = in_truth(made, cell, truth, ground)
        named = _names_of(candidate)
        rows[candidate.name] = [] if isinstance(made, Entry) else [{**named, "absent": made}]
        if isinstance(made, Entry):
            entries[candidate.name] = made
    past = cache(ground.process(cell).past)

    best = dict.fromkeys(METRICS, inf)
    for name in sorted(entries, key=lambda name: _slowness(entries[name])):
        # The GPUs are at least those of the job: GPU-hours are at least in proportion to the time,
        # and beyond this ratio a run can win neither in time nor in GPU-hours.
        limit = min(NEVER_RATIO, HOPELESS * max(best.values())) if match.races else NEVER_RATIO
        rows[name] = [
            _simulated(cell, ground, entries[name], past(seed), seed, limit) for seed in match.seeds
        ]
        # The best are those that train on exact gradients, in the memory that there is.
        if entries[name].candidate.scheme not in APPROXIMATE:
            for row in (one for one in rows[name] if one["fits_memory"]):
                best = {metric: min(best[metric], row[metric]) for metric in METRICS}
    common = {
        "plane": cell.plane,
        "x": cell.x,
        "y": cell.y,
        "mtbf_s": cell.mtbf_s,
        "restart_s": cell.restart_s,
        "gpus": cell.groups * ground.gpus_per_group,
        "domain_share": cell.domain_share,
        "steps": ground.steps_in(match.cell),
        "step_s": ground.undisturbed_step_s(cell),
    }
    return [{**common, **row} for one in match.candidates for row in rows[one.name]]


def _slowness(entry: Entry) -> tuple[bool, float]:
    """Return what sorts entries, the fastest first, by what is known before they run."""
    return strategy_class(entry.candidate.scheme).tracks_components, entry.predicted


def _simulated(
    cell: Cell, ground: Ground, entry: Entry, past: Sequence[Failure], seed: int, limit: float
) -> Row:
    """Run a candidate with a seed, until it is done or past the limit of the ratio."""
    # A job has as many steps as it was entered with, whatever the truth is.
    steps = entry.question.scenario.job.steps
    gpus = cell.groups * ground.gpus_per_group
    ideal_s = steps * ground.undisturbed_step_s(cell)
    strategy, job = entry.question.strategy(), entry.question.job(seed)
    # The clock starts with the start-up of what is left.
    limit_s = entry.question.restart_s + limit * ideal_s
    job = replace(job, work=replace(job.work, time_limit_s=limit_s))
    # What had failed before, standbys have replaced.
    has_standbys = cell.machines == "standbys"
    training = EnteredTraining(job, strategy, () if has_standbys else past)
    simulate(training, ReplayEngine(job))
    progress = training.progress
    time_s = progress.now_s - training.begun_s
    finished = progress.completed_batches >= steps - 1e-9
    ratio = time_s / ideal_s if finished else inf
    # What is repaired and handed back in time is never replaced.
    replaced = progress.restarts + progress.rejoined
    # A machine that takes a role over, and does not hand it back, is replaced.
    stays = "take-over" in strategy.recoveries and "hand-back" not in strategy.recoveries
    takes_spares = replaced or stays or not strategy.tracks_components
    has_spares = strategy.restart_replaces and takes_spares
    spares = ground.process(cell).spare_gpus() if has_spares else 0
    if cell.machines != "stated":
        # Standbys are there for each failure under every scheme; the queue's machines are others'.
        spares = entry.question.standbys * ground.process(cell).layout.gpus_per_host
    memory_bytes = ground.held_bytes(strategy.stages_held, strategy.activations_held)
    return {
        **_names_of(entry.candidate),
        "redundancy": entry.question.redundancy,
        "seed": seed,
        "ratio": ratio,
        "token_us": 1e6 * ratio * ground.undisturbed_step_s(cell) / ground.tokens_in(cell),
        "gpu_ratio": ratio * (gpus + spares) / gpus,
        "gpu_hours": (gpus + spares) * time_s / 3600.0 if finished else inf,
        "spare_gpus": spares,
        "availability": 1.0 - progress.downtime_s / time_s if time_s else 1.0,
        "restarts": progress.restarts,
        "rejoined": progress.rejoined,
        "gpu_memory_bytes": memory_bytes,
        "fits_memory": memory_bytes <= ground.memory_bytes,
        "batch_share": progress.samples / progress.completed_steps
        if progress.completed_steps
        else 1.0,
        "raised_power": progress.raised_power_s / time_s if time_s else 0.0,
        "failures": progress.failures,
        "simulated_ratio": time_s / ideal_s,
        "closed_form_ratio": entry.closed_form,
        "absent": "",
    }


def _names_of(one: Candidate) -> Row:
    return {"candidate": one.name, "scheme": one.scheme, "protection": one.protection}


_CIRCUMSTANCES = ["mtbf_s", "restart_s", "gpus", "domain_share", "steps", "step_s"]
_KEYS = [*CELL, "candidate"]


def candidate_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return means over seeds, a row a cell and candidate.

    Cell and its circumstances, candidate, ``seeds`` simulated, ``ratio`` (time to train over that
    without failures on the same platform) and ``gpu_ratio`` (GPU-hours, spares included, over those
    without failures) with ``_low`` and ``_high`` of their 95 % intervals over seeds; means of
    ``token_us`` (time per token that is trained, in microseconds: comparable between platforms),
    ``availability``, ``restarts``, ``rejoined``, ``spare_gpus``; ``closed_form_ratio``; the most
    that a GPU had to hold in any run, and whether its memory does (``fits_memory``); the columns of
    `_with_best`; ``note`` says why one was stopped or left out.
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
    """Return a table with the best of each cell, and each candidate beside it, paired by seed.

    ``best_time`` and ``best_gpu_hours`` mark the best candidates; ``sure_time`` and
    ``sure_gpu_hours`` tell whether their lead over the best of the other schemes is beyond the
    seeds' noise. ``above_best`` is the ratio above that of the best, and ``above_best_half`` half
    its 95 % interval.
    """
    flags = {f"{kind}_{name}": False for name in METRICS.values() for kind in ("best", "sure")}
    wider = table.assign(**flags, above_best=np.nan, above_best_half=np.nan)
    runs_of = dict(list(simulated.groupby(CELL, sort=False)))
    for cell, mine in table.groupby(CELL, sort=False):
        for metric, name in METRICS.items():
            ranked = mine[np.isfinite(mine[metric])].sort_values(metric, kind="stable")
            if ranked.empty:
                continue
            best = ranked.iloc[0]
            behind = _behind(runs_of[cell], best["candidate"], metric)
            wider.loc[best.name, f"best_{name}"] = True
            wider.loc[best.name, f"sure_{name}"] = _is_sure(best, ranked, behind, metric)
            if metric == "ratio":
                found = behind.loc[mine["candidate"]].to_numpy()
                wider.loc[mine.index, ["above_best", "above_best_half"]] = found
    return wider


def _behind(runs: pd.DataFrame, best: str, metric: str) -> pd.DataFrame:
    """Return by how much candidates of a cell are behind one, and half the 95 % interval of it."""
    wide = runs.pivot(index="seed", columns="candidate", values=metric)
    with np.errstate(invalid="ignore"):
        differences = wide.sub(wide[best], axis=0)
        half = half_width(differences.std(), differences.count())
    means = differences.mean()
    return pd.DataFrame({"mean": means, "half": np.where(np.isinf(means), 0.0, half)}, means.index)


def _is_sure(best: pd.Series, ranked: pd.DataFrame, behind: pd.DataFrame, metric: str) -> bool:
    """Return whether the best candidate surely beats all other schemes."""
    others = ranked[ranked["scheme"] != best["scheme"]]
    # A single seed cannot part a candidate from others that are near.
    near = others[metric] <= CONTESTED * best[metric]
    # The nearest few: one simulated with a single seed was far behind in that.
    rivals = behind.loc[others.loc[others["seeds"] > 1, "candidate"].head(3)]
    return bool((best["seeds"] > 1 or not near.any()) and (rivals["mean"] > rivals["half"]).all())
