"""What the study varies, its runs, and what each variant is worth.

Everything is on top of ``spare-sound``, with the times of all-reduce, checkpoint and load stated
instead of measured: the questions are about when to save and who comes back, not about the fabric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.base import changes_against

SCHEMES = ("spare", "replication")
REDUNDANCIES = {"spare": range(2, 13), "replication": range(2, 7)}
BASELINE = "plain"
METRICS = ("time_to_train_ratio", "gpu_hours_ratio")
_STATED = {
    "times.all_reduce_per_group_s": 0.01,
    "times.checkpoint_write_s": 58.8,
    "restart.readers": None,
}
_DYNAMIC = {"checkpoint.policy": "dynamic"}
_CELL = ["strategy", "groups", "redundancy"]
_AT = ["strategy", "groups", "variant"]


def _repair(hours: int) -> dict[str, Any]:
    return {"rejoin.when": "at-checkpoint", "rejoin.repair_s": hours * 3600.0}


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to run a scheme."""

    name: str  # What it is called in tables and legends.
    # What sets it apart from the plain scheme, by dotted keys.
    settings: Mapping[str, Any] = field(default_factory=dict)
    # Spare groups, as a fraction of the job's groups; they are hardware on top of the job's.
    spare_share: float = 0.0

    def spare_groups(self, groups: int) -> int:
        """Return the number of spare groups for a job of `groups` groups."""
        return round(self.spare_share * groups)


VARIANTS = (
    Variant(BASELINE),
    Variant("dynamic", _DYNAMIC),
    Variant("rejoin 1 h", _repair(1)),
    Variant("rejoin 3 h", _repair(3)),
    Variant("rejoin 24 h", _repair(24)),
    Variant("rejoin 3 h + 5 % spares", _repair(3), 0.05),
    Variant("rejoin 3 h + 10 % spares", _repair(3), 0.10),
    Variant("rejoin 3 h + 20 % spares", _repair(3), 0.20),
    Variant("dynamic + rejoin 3 h", {**_DYNAMIC, **_repair(3)}),
    Variant("dynamic + rejoin 3 h + 20 % spares", {**_DYNAMIC, **_repair(3)}, 0.20),
)


def points(groups: Sequence[int], steps: int, seeds: int) -> Iterator[Point]:
    """Yield every variant at every redundancy; one seed, one sequence of failures for all."""
    for n in groups:
        for scheme in SCHEMES:
            for redundancy in REDUNDANCIES[scheme]:
                for variant in VARIANTS:
                    changes = settings_of(variant, scheme, n, redundancy, steps)
                    job = resolve(load_scenario("spare-sound", changes))
                    for seed in range(seeds):
                        yield Point.of(job, seed, (("variant", variant.name),))


def settings_of(
    variant: Variant, scheme: str, groups: int, redundancy: int, steps: int
) -> dict[str, Any]:
    """Return what sets a cell of the study apart from ``spare-sound``."""
    settings = {
        **_STATED,
        "job.groups": groups,
        "job.steps": steps,
        "strategy.name": scheme,
        "strategy.redundancy": redundancy,
        **variant.settings,
    }
    spares = variant.spare_groups(groups)
    return {**settings, "rejoin.spare_groups": spares} if spares else settings


def with_spares(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with ``spare_groups`` and ``gpu_hours_ratio``, what is paid for the whole time.

    That is the time-to-train ratio times 1 + spares / N.
    """
    variants = {variant.name: variant for variant in VARIANTS}
    pairs = zip(runs.variant, runs.groups, strict=True)
    spares = pd.Series([variants[name].spare_groups(n) for name, n in pairs], runs.index)
    hours = runs.time_to_train_ratio * (1 + spares / runs.groups)
    # As in a sweep, whose analysis and charts read this table.
    return runs.assign(status="ok", spare_groups=spares, gpu_hours_ratio=hours)


def changes_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Compare every variant with the plain scheme at the same redundancy, seed by seed.

    Returns
    -------
    DataFrame
        A row a metric, variant, scheme, N and r: ``mean``, ``baseline_mean``, and ``change``,
        ``change_low``, ``change_high``: the mean difference and its 95 % interval by paired t, as
        fractions of the plain scheme's mean.
    """
    tables = [
        changes_against(runs, "variant", BASELINE, _CELL, metric).assign(metric=metric)
        for metric in METRICS
    ]
    columns = ["mean", "baseline_mean", "change", "change_low", "change_high", "pairs"]
    return pd.concat(tables, ignore_index=True)[["metric", "variant", *_CELL, *columns]]


def best_redundancies(runs: pd.DataFrame) -> pd.DataFrame:
    """Return each variant's redundancy of the least mean time to train, a row a scheme, N, variant.

    Spares are the same at every redundancy, so it is that of the fewest GPU-hours as well. With
    ``best_change``, ``best_change_low`` and ``best_change_high``: GPU-hours against the plain
    scheme at its own best redundancy, paired by seed. Since the best is chosen by the very runs
    that it is judged by, differences of close redundancies are part of the noise.
    """
    means = mean_over_seeds(runs, [*_AT, "redundancy"], METRICS[0])
    best = means.loc[means.groupby(_AT)["mean"].idxmin()].rename(columns={"mean": METRICS[0]})
    at_best = runs_at(runs, best)
    axes = ["strategy", "groups"]
    against = changes_against(at_best, "variant", BASELINE, axes, "gpu_hours_ratio")
    ends = {name: f"best_{name}" for name in ("change", "change_low", "change_high")}
    against = against.rename(columns=ends)[[*_AT, *ends.values()]]
    hours = at_best.groupby(_AT, as_index=False)[["gpu_hours_ratio", "restarts", "availability"]]
    table = best.merge(hours.mean(), on=_AT).merge(against, on=_AT, how="left")
    # In the order in which schemes and variants were played.
    places = {name: place for column in (runs.strategy, runs.variant)
              for place, name in enumerate(column.unique())}  # fmt: skip
    by = ["groups", "strategy", "variant"]
    return table.sort_values(by, key=lambda column: column.replace(places), ignore_index=True)


def runs_at(runs: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of each variant at its best redundancy."""
    keys = [*_AT, "redundancy"]
    return runs.merge(best[keys], on=keys)
