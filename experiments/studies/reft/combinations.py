"""Protections beneath schemes that mask failures, on 600,000 GPUs with a failure every 300 s.

On the cluster of Lee et al. 2026 (SPARe) under sound rules. The times of moving the state are
measured on its platform. Redundancy, where it is not scanned, is each scheme's own choice by its
closed form for what the protection costs, and so are the intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import product

import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.point import Labels, Point

SCHEMES = ("checkpoint", "replication", "spare")
PROTECTIONS = ("storage", "async-storage", "reft", "gemini", "just-in-time")
RESTARTS_S = (3600.0, 300.0)
SCANNED = ("storage", "reft")
REDUNDANCIES = range(1, 11)
"""The first is the control: SPARe that masks nothing."""

DOMAINS_MIX = files("faultline.experiments.studies.reft").joinpath("domains.toml")
_ALL_HARDWARE = {"failures.hardware_share": 1.0}
LARGE_FAILURES: dict[str, dict[str, object]] = {
    "hosts": {"failures.component": "host", **_ALL_HARDWARE},
    "whole groups": {"failures.component": "group", **_ALL_HARDWARE},
    "1 in 5 a domain": {
        "failures.model": "mix",
        "failures.mix": str(DOMAINS_MIX),
        "failures.rate": "mtbf",
        "failures.gpus_per_domain": 64,
    },
}
"""Components that a failure stops. All failures are of hardware: each takes memory away."""

PLACED = ("reft", "gemini")
PLACEMENTS = ("across-domains", "neighbours")
PERSIST_STEPS = (1, 20)

_LIMIT_S = 90 * 86_400.0
"""Checkpoints on storage alone make next to no progress: 90 days are enough of it."""

METRIC = "time_to_train_ratio"


def main_points(steps: int, seeds: int) -> Iterator[Point]:
    """Yield every scheme on every protection, for both restarts."""
    for restart_s, scheme, protection in product(RESTARTS_S, SCHEMES, PROTECTIONS):
        yield from _points("main", restart_s, scheme, protection, steps, seeds)


def scan_points(steps: int, seeds: int) -> Iterator[Point]:
    """Yield SPARe at every redundancy, with and without REFT beneath."""
    for restart_s, protection, redundancy in product(RESTARTS_S, SCANNED, REDUNDANCIES):
        more = {"strategy.redundancy": redundancy}
        yield from _points("scan", restart_s, "spare", protection, steps, seeds, more)


def placement_points(steps: int, seeds: int) -> Iterator[Point]:
    """Yield failures of several sizes against both placements: no failure is masked."""
    cells = product(LARGE_FAILURES.items(), PLACED, PLACEMENTS, PERSIST_STEPS)
    for (failures, struck), protection, placement, persisted in cells:
        more = {
            f"protection.{protection}.placement": placement,
            "checkpoint.interval_steps": persisted,
        }
        labels = {"failures_of": failures, "placement": placement, "persist_steps": str(persisted)}
        cell = "placement", 300.0, "checkpoint", protection, steps, seeds
        yield from _points(*cell, struck | more, tuple(labels.items()))


def _points(
    study: str,
    restart_s: float,
    scheme: str,
    protection: str,
    steps: int,
    seeds: int,
    more: Mapping[str, object] | None = None,
    labels: Labels = (),
) -> Iterator[Point]:
    """Yield a point per seed; all points of one seed have the same failures."""
    changes = {
        "job.steps": steps,
        "job.time_limit_s": _LIMIT_S,
        "job.give_up_after_restarts": 1_000_000,
        "strategy.name": scheme,
        "protection.name": protection,
        "times.restart_s": restart_s,
        **(more or {}),
    }
    # Resolved here: the platform is measured once for all seeds.
    question = resolve(load_scenario("spare-sound", changes))
    labels = (("study", study), *labels, ("restart_of_s", restart_s))
    for seed in range(seeds):
        yield Point.of(question, seed, labels)


def best_redundancies(scan: pd.DataFrame) -> pd.DataFrame:
    """Return SPARe's redundancy of the least mean ratio, a row per restart and protection.

    Close redundancies differ by less than seeds do; the best is judged by the runs that chose it.
    """
    means = mean_over_seeds(scan, ["restart_of_s", "protection", "redundancy"], METRIC)
    best = means.loc[means.groupby(["restart_of_s", "protection"])["mean"].idxmin()]
    return best.reset_index(drop=True)


def with_minutes(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the length of a restart in minutes."""
    return table.assign(minutes=table.restart_of_s / 60)


def combination_sentence(runs: pd.DataFrame, best: pd.DataFrame) -> str:
    """Return the effect of cheaper checkpoints, by the length of a restart."""
    mean = runs.groupby(["restart_of_s", "strategy", "protection"]).time_to_train_ratio.mean()

    def change(restart_s: float, scheme: str) -> str:
        before, after = (mean[restart_s, scheme, name] for name in SCANNED)
        return f"from {before:.3g} to {after:.3g} ({after / before - 1.0:+.0%})"

    def behind(restart_s: float) -> float:
        return float(mean[restart_s, "checkpoint", "reft"] / mean[restart_s, "spare", "reft"])

    long_s, short_s = RESTARTS_S
    chosen = best.set_index(["restart_of_s", "protection"])
    r, least = chosen.redundancy, chosen["mean"]
    return (
        "With restarts of 60 minutes REFT takes the time-to-train ratio of SPARe "
        f"{change(long_s, 'spare')}, of replication {change(long_s, 'replication')}, and of a job "
        f"that masks no failure {change(long_s, 'checkpoint')}, still {behind(long_s):.1f} times "
        "SPARe's: cheap checkpoints do not replace masking. With restarts of 5 minutes the latter "
        f"comes {change(short_s, 'checkpoint')}, {behind(short_s) - 1.0:.0%} above SPARe's "
        f"{mean[short_s, 'spare', 'reft']:.3g}. SPARe's best redundancy, storage and REFT: "
        f"{r[long_s, 'storage']} and {r[long_s, 'reft']} with restarts of 60 minutes, "
        f"{r[short_s, 'storage']} and {r[short_s, 'reft']} with 5 (ratio "
        f"{least[short_s, 'storage']:.3g} and {least[short_s, 'reft']:.3g})."
    )
