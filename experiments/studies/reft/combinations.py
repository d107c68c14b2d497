"""Protections beneath schemes that mask failures, on 600,000 GPUs with a failure every 300 s.

On the cluster of Lee et al. 2026 (SPARe) under sound rules. The times of moving the state are
measured on its platform. Redundancy, where it is not scanned, is each scheme's own choice by its
closed form for what the protection costs, and so are the intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import product
from types import MappingProxyType

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.figures.palette import title_of
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.point import Point

SCHEMES = ("checkpoint", "replication", "spare")
PROTECTIONS = ("storage", "async-storage", "reft", "gemini", "just-in-time")
RESTARTS_MINUTES = (60, 5)
REDUNDANCIES = range(1, 11)
"""The first is the control: SPARe that masks nothing."""

DOMAINS_MIX = files("faultline.experiments.studies.reft").joinpath("domains.toml")
LARGE_FAILURES: dict[str, dict[str, object]] = {
    "hosts": {"failures.component": "host", "failures.hardware_share": 1.0},
    "whole groups": {"failures.component": "group", "failures.hardware_share": 1.0},
    "1 in 5 a domain": {
        "failures.model": "mix",
        "failures.mix": str(DOMAINS_MIX),
        "failures.rate": "mtbf",
        "failures.gpus_per_domain": 64,
    },
}
"""Components that a failure stops. All failures are of hardware: each takes memory away."""

METRIC = "time_to_train_ratio"


def main_points(steps: int, seeds: int) -> Iterator[Point]:
    """Yield every scheme on every protection, for both restarts."""
    for minutes, scheme, protection in product(RESTARTS_MINUTES, SCHEMES, PROTECTIONS):
        yield from _points(minutes, scheme, protection, steps, seeds)


def scan_points(steps: int, seeds: int) -> Iterator[Point]:
    """Yield SPARe at every redundancy, with and without REFT beneath."""
    cells = product(RESTARTS_MINUTES, ("storage", "reft"), REDUNDANCIES)
    for minutes, protection, redundancy in cells:
        more = {"strategy.redundancy": redundancy}
        yield from _points(minutes, "spare", protection, steps, seeds, more)


def placement_points(steps: int, seeds: int) -> Iterator[Point]:
    """Yield failures of several sizes against both placements: no failure is masked."""
    cells = product(LARGE_FAILURES, ("reft", "gemini"), ("across-domains", "neighbours"), (1, 20))
    for failures, protection, placement, persisted in cells:
        more = {
            f"protection.{protection}.placement": placement,
            "checkpoint.interval_steps": persisted,
        }
        labels = {"failures_of": failures, "placement": placement, "persist_steps": str(persisted)}
        more |= LARGE_FAILURES[failures]
        yield from _points(5, "checkpoint", protection, steps, seeds, more, labels)


def _points(
    minutes: int,
    scheme: str,
    protection: str,
    steps: int,
    seeds: int,
    more: Mapping[str, object] = MappingProxyType({}),
    labels: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Point]:
    """Yield a point per seed; all points of one seed have the same failures."""
    changes = {
        "job.steps": steps,
        # Checkpoints on storage alone make next to no progress: 90 days are enough of it.
        "job.time_limit_s": 90 * 86_400.0,
        "job.give_up_after_restarts": 1_000_000,
        "strategy.name": scheme,
        "protection.name": protection,
        "times.restart_s": 60.0 * minutes,
        **more,
    }
    # Resolved here: the platform is measured once for all seeds.
    question = resolve(load_scenario("spare-sound", changes))
    for seed in range(seeds):
        yield Point.of(question, seed, (*labels.items(), ("minutes", minutes)))


def combination_sentence(runs: pd.DataFrame) -> str:
    """Return the effect of cheaper checkpoints, by the length of a restart."""
    means = runs.groupby(["minutes", "strategy", "protection"])[METRIC].mean()

    def change(minutes: int, scheme: str) -> str:
        before, after = (means[minutes, scheme, name] for name in ("storage", "reft"))
        return f"{title_of(scheme)} from {before:.3g} to {after:.3g} ({after / before - 1.0:+.0%})"

    changes = (
        f"With restarts of {minutes} minutes REFT takes the time-to-train ratio of "
        + ", of ".join(change(minutes, scheme) for scheme in reversed(SCHEMES))
        for minutes in RESTARTS_MINUTES
    )
    return ". ".join(changes) + "."
