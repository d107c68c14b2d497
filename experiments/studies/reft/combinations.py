"""Protections beneath schemes that mask failures, on 600,000 GPUs with a failure every 300 s.

On the cluster of Lee et al. 2026 (SPARe) under sound rules. The times of moving the state are
measured on its platform. Redundancy, where it is not scanned, is each scheme's own choice by its
closed form for what the protection costs, and so are the intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import ResolvedJob, resolve
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Point

SCHEMES = ("checkpoint", "replication", "spare")
PROTECTIONS = ("storage", "async-storage", "reft", "gemini", "just-in-time")
RESTARTS_S = (3600.0, 300.0)
SCANNED = ("storage", "reft")
REDUNDANCIES = range(2, 11)
_LIMIT_S = 90 * 86_400.0
"""Checkpoints on storage alone make next to no progress; what they do until then tells enough."""

_DOMAINS_MIX = files("faultline.experiments.studies.reft").joinpath("domains.toml")
LARGE_FAILURES = {
    "hosts": ("failures.component=host", "failures.hardware_share=1"),
    "whole groups": ("failures.component=group", "failures.hardware_share=1"),
    "1 in 5 a domain": (
        "failures.model=mix",
        f"failures.mix={_DOMAINS_MIX}",
        "failures.rate=mtbf",
        "failures.gpus_per_domain=64",
    ),
}
"""What a failure takes with it. All of them are of hardware: each takes memory away."""

PLACED = ("reft", "gemini")
PLACEMENTS = ("across-domains", "neighbours")
PERSIST_STEPS = (1, 20)


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting of the study, with what tells it from others."""

    labels: tuple[tuple[str, str], ...]
    settings: tuple[str, ...]

    def question(self) -> ResolvedJob:
        """Return it with every value filled in."""
        return resolve(load_scenario("spare-sound", list(self.settings)))


def main_cells(steps: int) -> Iterator[Cell]:
    """Yield every scheme on every protection, for both restarts."""
    for restart_s in RESTARTS_S:
        for scheme in SCHEMES:
            for protection in PROTECTIONS:
                yield _cell("main", restart_s, scheme, protection, steps)


def scan_cells(steps: int) -> Iterator[Cell]:
    """Yield SPARe at every redundancy, with and without REFT beneath."""
    for restart_s in RESTARTS_S:
        for protection in SCANNED:
            for redundancy in REDUNDANCIES:
                more = (f"strategy.redundancy={redundancy}",)
                yield _cell("scan", restart_s, "spare", protection, steps, more)


def placement_cells(steps: int) -> Iterator[Cell]:
    """Yield failures of several sizes against both placements: no failure is masked."""
    for failures, struck in LARGE_FAILURES.items():
        for protection in PLACED:
            for placement in PLACEMENTS:
                for persisted in PERSIST_STEPS:
                    more = (
                        *struck,
                        f"protection.{protection}.placement={placement}",
                        f"checkpoint.interval_steps={persisted}",
                    )
                    labels = (
                        ("failures_of", failures),
                        ("placement", placement),
                        ("persist_steps", str(persisted)),
                    )
                    yield _cell("placement", 300.0, "checkpoint", protection, steps, more, labels)


def run_cells(
    cells: Sequence[Cell],
    seeds: int,
    workers: int | None,
    on_done: Callable[[], None] | None = None,
) -> pd.DataFrame:
    """Run cells, with the same failures for all cells of one seed.

    Returns
    -------
    DataFrame
        A row a run: the record, the cells' labels, ``restart_of_s`` (how long a restart takes),
        and ``status`` as in a sweep.
    """
    tasks = []
    for cell in cells:
        question = cell.question()
        restart = str(question.scenario.restart.duration_s)
        tasks += [
            Point.of(question, seed, (*cell.labels, ("restart_of_s", restart)))
            for seed in range(seeds)
        ]
    runs = pd.DataFrame(play(tasks, workers=workers, on_done=on_done))
    runs["restart_of_s"] = runs.restart_of_s.astype(float)
    runs["status"] = "ok"
    return runs


def _cell(
    study: str,
    restart_s: float,
    scheme: str,
    protection: str,
    steps: int,
    more: tuple[str, ...] = (),
    labels: tuple[tuple[str, str], ...] = (),
) -> Cell:
    settings = (
        f"job.steps={steps}",
        f"job.time_limit_s={_LIMIT_S}",
        "job.give_up_after_restarts=1000000",
        f"strategy.name={scheme}",
        f"protection.name={protection}",
        f"restart.duration_s={restart_s}",
        *more,
    )
    return Cell((("study", study), *labels), settings)
