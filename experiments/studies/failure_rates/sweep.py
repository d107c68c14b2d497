"""The whole sweep: closed forms, runs, each scheme's best, crossings; tables and figures of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from faultline.experiments.studies.failure_rates.crossings import crossings
from faultline.experiments.studies.failure_rates.figures import draw_all, draw_overview
from faultline.experiments.studies.failure_rates.playing import (
    best_runs,
    closed_forms,
    curves,
    play,
    tasks_of,
)
from faultline.experiments.studies.failure_rates.settings import DISTRIBUTIONS, RULES, Setting

Begin = Callable[[str, int], Callable[[], None]]
"""Told what begins and of how many parts it is; returns what to call after each part."""


@dataclass(frozen=True, slots=True)
class FailureRates:
    """What the sweep found.

    Attributes
    ----------
    runs : DataFrame
        A row a run.
    curves : DataFrame
        A row a setting and scheme at its best.
    crossings : DataFrame
        A row a rate at which one scheme overtakes another.
    """

    runs: pd.DataFrame
    curves: pd.DataFrame
    crossings: pd.DataFrame

    def write(self, directory: Path) -> list[Path]:
        """Write the tables and draw the figures; returns the figures."""
        self.runs.to_csv(directory / "failure-rates-runs.csv", index=False)
        self.curves.to_csv(directory / "failure-rates.csv", index=False)
        self.crossings.to_csv(directory / "failure-rates-crossings.csv", index=False)
        figures = [
            draw_all(
                self.curves,
                self.crossings,
                rules,
                distribution,
                directory / f"failure-rates-{rules.removeprefix('spare-')}-{distribution}.png",
            )
            for rules in RULES
            for distribution in DISTRIBUTIONS
        ]
        overview = draw_overview(self.curves, self.crossings, directory / "failure-rates.png")
        return [overview, *figures]


def sweep(
    settings: Sequence[Setting],
    seeds: int,
    full: bool = False,
    workers: int | None = None,
    begin: Begin | None = None,
) -> FailureRates:
    """Play the settings, each scheme at its best redundancy and checkpoint interval.

    Parameters
    ----------
    settings : sequence of Setting
        Jobs and failure rates.
    seeds : int
        Seeds of each point.
    full : bool
        Search more redundancies, and intervals as well, by simulation.
    workers : int, optional
        Worker processes; as many as there are cores by default. The results do not depend on it.
    begin : callable, optional
        For progress displays.
    """
    choices = closed_forms(settings, workers, _told(begin, "closed forms", len(settings)))
    tasks = tasks_of(choices, seeds, full)
    runs = play(tasks, workers, _told(begin, "failure rates", len(tasks)))
    best = best_runs(runs)
    table = curves(best, choices)
    return FailureRates(runs, table, crossings(best, table))


def _told(begin: Begin | None, what: str, parts: int) -> Callable[[], None] | None:
    return begin(what, parts) if begin else None
