"""The fastest scheme by failure rate: each scheme at its best, at many rates.

The schemes are checkpoints alone, replication and SPARe; rules, distribution and groups are those
of the study. Closed forms select candidates for redundancy and checkpoint interval; the least
simulated mean decides. Results include the rates at which one scheme overtakes another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, groupby, product
from math import ceil, inf, isnan, nan
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.crossings import Change, changes_of_lead
from faultline.experiments.analysis.intervals import half_width
from faultline.experiments.job.choices import Choice, at_interval, choices_at
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.spare.cells import (
    DISTRIBUTIONS,
    GROUPS,
    RULES,
    SpareCell,
    headline,
)
from faultline.experiments.studies.stage import Stage
from faultline.simulator.job.durations import Durations
from faultline.strategies.plugins.registry import build_strategy, strategy_class

REJOINING = "spare-rejoining"
"""SPARe with repair: failed groups rejoin at checkpoints. Without it, they wait for the next
restart."""
SCHEMES = ("checkpoint", "replication", "spare")
OVERVIEW = {"rules": "spare-sound", "distribution": "weibull", "groups": 200}
"""The job of the overview."""
STEPS = 10_000
"""Steps of the study's job."""
LIMIT_S = 365 * 86_400.0
"""Time limit of a job, in seconds (a year); a longer job counts as unfinished."""

RATES_S = tuple(60.0 * minutes for minutes in (1, 2, 5, 10, 30, 60, 120, 180, 360, 1440))
"""Mean times between failures of the whole job, in seconds; dense near the crossings."""

REPAIR_S = 3 * 3600.0
"""Repair of a group that rejoins, in seconds, as in the grid `adaptive`."""
_OF_REJOINING = (2, 12)
"""Redundancies for groups that rejoin: one of them is the best at each rate, within 1 %."""

_PREDICTED, _LARGEST = 3, 16
_SETTING = ["rules", "distribution", "groups", "mtbf_s"]
_CHOICE = ("redundancy", "checkpoint_interval_steps")


@dataclass(frozen=True, slots=True)
class RateSetting:
    """A job and its failures; the scheme is open."""

    rules: str  # Name of the scenario: ``spare-study`` or ``spare-sound``.
    distribution: str  # Of a group's time between failures.
    groups: int
    mtbf_s: float  # Mean time between failures of the whole job, in seconds.

    @property
    def schemes(self) -> tuple[str, ...]:
        """Simulated schemes: groups rejoin only in the job of the overview."""
        job = {"rules": self.rules, "distribution": self.distribution, "groups": self.groups}
        return (*SCHEMES, REJOINING) if job == OVERVIEW else SCHEMES

    def job(
        self, scheme: str = "checkpoint", redundancy: int = 1, known: Durations | None = None
    ) -> ResolvedJob:
        """Return the job under a scheme, with the best interval of its closed forms."""
        stated = [f"job.steps={STEPS}", f"failures.mtbf_s={self.mtbf_s}"]
        stated.append("checkpoint.period=of-lives")
        if scheme == REJOINING:
            stated += ["rejoin.when=at-checkpoint", f"rejoin.repair_s={REPAIR_S}"]
        name = "spare" if scheme == REJOINING else scheme
        cell = SpareCell(self.rules, name, self.groups, redundancy, self.distribution)
        return replace(cell, settings="; ".join(stated)).job(known)


def settings() -> list[RateSetting]:
    """Return all settings, grouped by job."""
    jobs = product(GROUPS, RULES, DISTRIBUTIONS, RATES_S)
    return [RateSetting(rules, lives, groups, mtbf_s) for groups, rules, lives, mtbf_s in jobs]


def sweep(stage: Stage, settings: Sequence[RateSetting]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the settings, each scheme at its best redundancy and checkpoint interval.

    All settings have the same seeds: under sound rules all schemes see the same failures. Returns a
    row per run, with an infinite ratio if it does not finish; and the curves.
    """
    jobs = [list(rates) for _, rates in groupby(settings, lambda at: replace(at, mtbf_s=0.0))]
    by_setting = chain.from_iterable(stage.calls("closed forms", choices_of, jobs))
    candidates = {
        (setting, scheme): choices
        for setting, by_scheme in zip(settings, by_setting, strict=True)
        for scheme, choices in zip(setting.schemes, by_scheme, strict=True)
    }
    points = [
        (scheme, point)
        for (setting, scheme), choices in candidates.items()
        for choice in to_simulate(choices)
        for point in points_of(setting, choice, stage.seeds)
    ]
    runs = with_finished(stage.runs("failure rates", [point for _, point in points]))
    runs = runs.assign(strategy=[scheme for scheme, _ in points])
    predicted = {
        cell: next((choice for choice in choices if choice.is_prediction), choices[0])
        for cell, choices in candidates.items()
    }
    curves = pd.DataFrame(_curves(best_runs(runs), predicted))
    return runs, curves.sort_values([*_SETTING, "strategy"], ignore_index=True)


def choices_of(settings: Sequence[RateSetting]) -> list[list[list[Choice]]]:
    """Return the candidates for each rate of a job and each scheme, the best by closed forms first.

    The job's times are the same at all rates.
    """
    durations = settings[0].job().durations
    return [[_likely(setting, name, durations) for name in setting.schemes] for setting in settings]


def _likely(setting: RateSetting, name: str, durations: Durations) -> list[Choice]:
    """Return the least redundancy, and the few best by the plain J(r) of Lee et al. 2026 (SPARe).

    J takes microseconds, the exact forms that select among these few take tens of milliseconds.
    """
    if name == REJOINING:
        job = setting.job(name, 2, durations)
        return [*map(_no_later_than_a_life, choices_at(job, _OF_REJOINING))]
    scheme, groups = strategy_class(name), setting.groups
    legal = [r for r in scheme.redundancies(groups, scheme.Options()) if r <= _LARGEST]
    job = setting.job(name, legal[0], durations)
    costs, options = job.costs(), job.scenario.strategy.options()
    plain = {
        r: build_strategy(name, groups, r, options).normalised_time_to_train(costs) for r in legal
    }
    likely = sorted({legal[0], *sorted(legal, key=plain.__getitem__)[:_PREDICTED]})
    return [_no_later_than_a_life(choice) for choice in choices_at(job, likely)]


def _no_later_than_a_life(choice: Choice) -> Choice:
    """Limit the interval: outside their range, forms may return more steps than a life has."""
    latest = max(1, min(choice.interval_steps, round(choice.steps_per_life)))
    return replace(choice, resolved=at_interval(choice.resolved, latest))


def to_simulate(choices: Sequence[Choice]) -> list[Choice]:
    """Return the choices of one scheme and setting to simulate; the least mean is its best.

    One is the best predicted. Another is the next best within 1 % that is not its neighbour: seeds
    differ by more than neighbours do, and of choices up to 3 % behind few turn out better. No form
    predicts groups that rejoin: each of their choices is simulated, also at 0.6 and 1.6 times the
    interval.
    """
    best, *others = choices
    if best.resolved.scenario.rejoin.when != "at-restart":
        return [
            replace(choice, resolved=at_interval(choice.resolved, interval))
            for choice in choices
            for interval in sorted(
                {max(1, round(choice.interval_steps * by)) for by in (0.6, 1.0, 1.6)}
            )
        ]
    apart = [
        other
        for other in others
        if abs(other.redundancy - best.redundancy) > 1 and other.ratio <= 1.01 * best.ratio
    ]
    return [best, *apart[:1]]


def points_of(setting: RateSetting, choice: Choice, seeds: int) -> Iterator[Point]:
    """Yield the runs of a choice; jobs are as short as possible, with a proportional time limit."""
    steps = steps_to_simulate(setting, choice)
    changes = {"job.steps": steps, "job.time_limit_s": LIMIT_S * steps / STEPS}
    job = replace(choice.resolved, scenario=choice.resolved.scenario.change(changes))
    for seed in range(seeds):
        yield Point.of(job, seed, (("rules", setting.rules), ("mtbf_s", setting.mtbf_s)))


def steps_to_simulate(setting: RateSetting, choice: Choice) -> int:
    """Return the number of steps to simulate: enough lives and failures, at most the whole job.

    Lives that end with their first failure vary most, so 200 of them run, and 15 of others. Groups
    are new at first, so a Weibull shape of 0.78 adds N / 3 failures to the expected number. 8
    failures per group make that excess small. If checkpoints alone are far behind, fewer suffice:
    restarts of all groups take long to simulate.
    """
    lives, failures = 15, 8 * setting.groups
    if choice.redundancy == 1:
        lives, failures = (50, 4 * setting.groups) if choice.ratio > 5.0 else (200, failures)
    step_s = choice.ratio * ideal_s(choice.resolved) / STEPS
    wanted = max(lives * choice.steps_per_life, failures * setting.mtbf_s / step_s)
    return max(100, min(STEPS, ceil(wanted)))


def ideal_s(job: ResolvedJob) -> float:
    """Return the time of the whole job without redundancy, failures and checkpoints, in seconds."""
    return STEPS * job.ideal_step_s


def with_finished(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with ``finished``, and an infinite ratio for unfinished jobs."""
    finished = runs.completed_steps >= runs.steps
    ratio = runs.time_to_train_ratio.where(finished, inf)
    return runs.assign(finished=finished, time_to_train_ratio=ratio)


def best_runs(
    runs: pd.DataFrame,
    keys: Sequence[str] = (*_SETTING, "strategy"),
    choice: Sequence[str] = _CHOICE,
) -> pd.DataFrame:
    """Return the runs of each setting and scheme (`keys`) at the choice of the least mean ratio.

    The least of a few means is biased low, by less than their standard error.
    """
    means = runs.groupby([*keys, *choice], sort=False).time_to_train_ratio.mean()
    best = means.reset_index().sort_values("time_to_train_ratio", kind="stable")
    return runs.merge(best.drop_duplicates(keys)[[*keys, *choice]])


def _curves(
    best: pd.DataFrame, predicted: dict[tuple[RateSetting, str], Choice]
) -> Iterator[dict[str, object]]:
    """Yield a row per setting and scheme at its best, with its closed form and published values.

    ``finished`` is the share of the seeds; ratio and availability are empty unless all finish.
    Closed forms are empty if they do not hold (`Prediction.holds_for`).
    """
    published = headline().set_index(["scheme", "groups"])
    for (*values, scheme), runs in best.groupby([*_SETTING, "strategy"], sort=False):
        setting = RateSetting(*values)
        form, finished = predicted[setting, scheme], runs.finished.mean()
        ratios, all_finish = runs.time_to_train_ratio, finished == 1.0
        mean = ratios.mean() if all_finish else nan
        several = all_finish and len(ratios) > 1
        half = float(half_width(ratios.std(), len(ratios))) if several else 0.0
        is_published = setting == RateSetting("spare-study", "weibull", setting.groups, 300.0)
        key = (scheme, setting.groups) if is_published else None
        yield {
            **dict(zip(_SETTING, values, strict=True)),
            "strategy": scheme,
            "redundancy": runs.redundancy.iloc[0],
            "interval_steps": runs.checkpoint_interval_steps.iloc[0],
            "finished": finished,
            "time_to_train_ratio": mean,
            "low": mean - half,
            "high": mean + half,
            "time_days": mean * ideal_s(form.resolved) / 86_400.0,
            "availability": runs.availability.mean() if all_finish else nan,
            "closed_form_ratio": form.ratio if form.is_prediction else nan,
            "closed_form_availability": form.availability if form.is_prediction else nan,
            "published_ratio": published.time_to_train_ratio.get(key, nan),
            "published_availability": published.availability.get(key, nan),
        }


_JOB = ["rules", "distribution", "groups"]
_CROSSING = ("often", "seldom", "mtbf_s", "low_s", "high_s", "closed_form_s")


def crossings(best: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Return the rates at which the lead changes between two schemes, each at its best.

    `best` has a row per run (`best_runs`), `curves` a row per setting and scheme (`sweep`). The
    frame has a row per crossing: ``often`` is the faster scheme at more frequent failures,
    ``seldom`` the other; ``mtbf_s`` has the 95 % interval ``low_s`` to ``high_s`` (at an end of the
    range if that is open); ``closed_form_s`` is empty if the closed forms have no crossing in their
    range. If the lead never changes, one row has no ``mtbf_s``, and its ``often`` leads throughout.
    """
    rows: list[dict[str, Any]] = []
    for job, runs in best.groupby(_JOB, sort=False):
        forms = curves[(curves[_JOB] == list(job)).all(axis=1)]
        ratios = runs.pivot_table("time_to_train_ratio", "mtbf_s", ["strategy", "seed"])
        closed = forms.pivot_table("closed_form_ratio", "mtbf_s", "strategy")
        for pair in combinations(SCHEMES, 2):
            changes = _of_pair(ratios, closed, *pair)
            rows += [{**dict(zip(_JOB, job, strict=True)), **change} for change in changes]
    return pd.DataFrame(rows)


def _of_pair(
    ratios: pd.DataFrame, closed: pd.DataFrame, first: str, second: str
) -> list[dict[str, Any]]:
    rates = np.log(ratios.index.to_numpy(dtype=float))
    with np.errstate(invalid="ignore"):
        leads = np.log(ratios[first].to_numpy()) - np.log(ratios[second].to_numpy())
    compared = ~np.isnan(leads).any(axis=1)
    changes = changes_of_lead(rates[compared], leads[compared])
    if not changes:
        changes = [Change(nan, nan, nan, not bool((leads[compared].mean(axis=1) < 0).all()))]
    forms = closed.reindex(columns=[first, second]).dropna()
    predicted = changes_of_lead(
        np.log(forms.index.to_numpy(dtype=float)),
        np.log(forms[[first]].to_numpy()) - np.log(forms[[second]].to_numpy()),
    )
    rows = []
    for at, low, high, first_leads_after in changes:
        alike = [form.at for form in predicted if form.first_leads_after == first_leads_after]
        nearest = min(alike, key=lambda form: abs(form - at), default=nan)
        often, seldom = (second, first) if first_leads_after else (first, second)
        times = (float(np.exp(end)) for end in (at, low, high, nan if isnan(at) else nearest))
        rows.append(dict(zip(_CROSSING, (often, seldom, *times), strict=True)))
    return rows
