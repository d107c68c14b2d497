"""What each variant is worth: paired with the plain scheme, and each at its best redundancy."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.analysis.comparison import compare
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.studies.adaptive.variants import BASELINE

METRICS = ("time_to_train_ratio", "gpu_hours_ratio")
_CELL = ["strategy", "groups", "redundancy"]


def changes(runs: pd.DataFrame) -> pd.DataFrame:
    """Compare every variant with the plain scheme at the same redundancy, seed by seed.

    Returns
    -------
    DataFrame
        A row a metric, variant, scheme, N and r: ``mean``, ``baseline_mean``, and ``change``,
        ``change_low``, ``change_high``: the mean difference and its 95 % interval by paired t, as
        fractions of the plain scheme's mean.
    """
    tables = []
    for metric in METRICS:
        table = compare(runs, "variant", BASELINE, _CELL, metric)
        table["change_low"] = table["low"] / table["baseline_mean"]
        table["change_high"] = table["high"] / table["baseline_mean"]
        table.insert(0, "metric", metric)
        tables.append(table)
    columns = ["mean", "baseline_mean", "change", "change_low", "change_high", "pairs"]
    return pd.concat(tables, ignore_index=True)[["metric", "variant", *_CELL, *columns]]


def best_redundancies(runs: pd.DataFrame) -> pd.DataFrame:
    """Return each variant's redundancy of the least mean time to train, a row a scheme, N, variant.

    Spares are the same at every redundancy, so it is that of the fewest GPU-hours as well. With
    ``best_change``, ``best_change_low`` and ``best_change_high``: GPU-hours against the plain
    scheme at its own best redundancy, paired by seed. Since the best is chosen by the very runs
    that it is judged by, differences of close redundancies are part of the noise.
    """
    means = mean_over_seeds(runs, ["strategy", "groups", "variant", "redundancy"], METRICS[0])
    best = means.loc[means.groupby(["strategy", "groups", "variant"])["mean"].idxmin()]
    best = best.rename(columns={"mean": METRICS[0]})
    at_best = runs_at(runs, best)
    against = compare(at_best, "variant", BASELINE, ["strategy", "groups"], "gpu_hours_ratio")
    for end in ("low", "high"):
        against[f"best_change_{end}"] = against[end] / against["baseline_mean"]
    against = against.rename(columns={"mean": "gpu_hours_ratio", "change": "best_change"})
    keys = ["strategy", "groups", "variant"]
    kept = [*keys, "best_change", "best_change_low", "best_change_high"]
    hours = at_best.groupby(keys, as_index=False)[["gpu_hours_ratio", "restarts", "availability"]]
    table = best.merge(hours.mean(), on=keys).merge(against[kept], on=keys, how="left")
    order = {name: place for place, name in enumerate(dict.fromkeys(runs.variant))}
    schemes = {name: place for place, name in enumerate(dict.fromkeys(runs.strategy))}
    places = table.assign(scheme=table.strategy.map(schemes), place=table.variant.map(order))
    return places.sort_values(["groups", "scheme", "place"], ignore_index=True).drop(
        columns=["scheme", "place"]
    )


def runs_at(runs: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of each variant at its best redundancy."""
    keys = ["strategy", "groups", "variant", "redundancy"]
    return runs.merge(best[keys], on=keys)
