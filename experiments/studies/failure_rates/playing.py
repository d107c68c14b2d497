"""Play all settings, and find each scheme's best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, nan

import pandas as pd
from faultline.experiments.analysis.intervals import half_width
from faultline.experiments.job.resolved_job import durations_of
from faultline.experiments.runs import player
from faultline.experiments.runs.point import Call, Point
from faultline.experiments.runs.record import Record
from faultline.experiments.studies.failure_rates.choices import Choice, choices_of, to_be_played
from faultline.experiments.studies.failure_rates.settings import LIMIT_S, SCHEMES, STEPS, Setting
from faultline.experiments.studies.spare.published import headline
from faultline.simulator.job import Durations

SETTING = ["rules", "distribution", "groups", "mtbf_s"]
_PLAYED = ["redundancy", "checkpoint_interval_steps"]


def closed_forms(
    settings: Sequence[Setting],
    workers: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> list[list[Choice]]:
    """Return a list of choices for each setting and scheme, the best predicted first."""
    durations: dict[tuple[str, int], Durations] = {}
    for setting in settings:
        job = (setting.rules, setting.groups)
        if job not in durations:
            durations[job] = durations_of(setting.scenario(SCHEMES[0]))
    asked = [(setting, durations[setting.rules, setting.groups]) for setting in settings]
    return [
        [choice for choice in found if choice.scheme == scheme]
        for found in player.play(Call.each(choices_of, asked), workers=workers, on_done=on_done)
        for scheme in SCHEMES
    ]


def tasks_of(choices: Sequence[Sequence[Choice]], seeds: int, full: bool = False) -> list[Point]:
    """Return the runs: each choice that comes into question with each seed.

    Jobs are no longer than it takes (`Choice.steps_to_play`), and have the limit of `LIMIT_S` in
    proportion. Seeds are the same everywhere: under sound rules all schemes meet the same failures.
    """
    return [
        _task(choice, seed)
        for mine in choices
        for choice in to_be_played(mine, full)
        for seed in range(seeds)
    ]


def _task(choice: Choice, seed: int) -> Point:
    question, steps = choice.question, choice.steps_to_play()
    changed = {"steps": steps, "time_limit_s": LIMIT_S * steps / STEPS}
    job = question.scenario.job.model_copy(update=changed)
    question = replace(question, scenario=question.scenario.model_copy(update={"job": job}))
    labels = (("rules", choice.setting.rules), ("mtbf_s", repr(choice.setting.mtbf_s)))
    return Point.of(question, seed, labels)


def play(
    tasks: Sequence[Point], workers: int | None = None, on_done: Callable[[], None] | None = None
) -> pd.DataFrame:
    """Return a row a run; the ratio of a job that does not finish is infinite."""
    return as_runs(player.play(tasks, workers=workers, on_done=on_done))


def as_runs(records: Sequence[Record]) -> pd.DataFrame:
    """Return the records as a table."""
    runs = pd.DataFrame(records).astype({"mtbf_s": float})
    runs["finished"] = runs.completed_steps >= runs.steps
    runs["time_to_train_ratio"] = runs.time_to_train_ratio.where(runs.finished, inf)
    return runs


def best_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of each scheme at its best: the redundancy and interval of least mean ratio.

    The least of a few means is a little too low: by less than their standard error.
    """
    means = runs.groupby([*SETTING, "strategy", *_PLAYED], sort=False).time_to_train_ratio.mean()
    best = means.reset_index().sort_values("time_to_train_ratio", kind="stable")
    best = best.drop_duplicates([*SETTING, "strategy"])
    return runs.merge(best[[*SETTING, "strategy", *_PLAYED]])


def curves(best: pd.DataFrame, choices: Sequence[Sequence[Choice]]) -> pd.DataFrame:
    """Return a row a setting and scheme at its best.

    Returns
    -------
    DataFrame
        The setting, ``strategy``, ``redundancy``, ``interval_steps``; ``finished``, the share of
        the seeds; mean ratio, ``low`` and ``high`` (95 % interval) and ``availability``, empty
        where not all seeds finish; ``time_days`` of the whole job; the closed forms, empty outside
        their range; the published values.
    """
    predicted = {(mine[0].setting, mine[0].scheme): mine[0] for mine in choices}
    known = headline().set_index(["scheme", "groups"])
    rows = []
    for key, mine in best.groupby([*SETTING, "strategy"], sort=False):
        setting, scheme = Setting(*key[:-1]), key[-1]
        form, finished = predicted[setting, scheme], mine.finished.mean()
        ratios, there = mine.time_to_train_ratio, finished == 1.0
        mean = ratios.mean() if there else nan
        several = there and len(ratios) > 1
        half = float(half_width(ratios.std(), len(ratios))) if several else 0.0
        shown = (
            setting.rules == "spare-study"
            and setting.distribution == "weibull"
            and setting.mtbf_s == 300.0
            and (scheme, setting.groups) in known.index
        )
        published = known.loc[(scheme, setting.groups)] if shown else None
        rows.append(
            {
                **dict(zip(SETTING, key[:-1], strict=True)),
                "strategy": scheme,
                "redundancy": mine.redundancy.iloc[0],
                "interval_steps": mine.checkpoint_interval_steps.iloc[0],
                "finished": finished,
                "time_to_train_ratio": mean,
                "low": mean - half,
                "high": mean + half,
                "time_days": mean * form.ideal_s / 86_400.0,
                "availability": mine.availability.mean() if there else nan,
                "closed_form_ratio": form.ratio if form.in_range else nan,
                "closed_form_availability": form.availability if form.in_range else nan,
                "published_ratio": nan if published is None else published.time_to_train_ratio,
                "published_availability": nan if published is None else published.availability,
            }
        )
    return pd.DataFrame(rows).sort_values([*SETTING, "strategy"], ignore_index=True)
