"""Cells that are published and simulated, and the study's constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.platform_files import generate_preset, traffic_of
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.data import read_rows
from faultline.simulator.job import Durations
from faultline.simulator.simgrid_engine.probes import cached_probe
from faultline.strategies.golomb import largest_redundancy

GROUPS = (200, 600, 1000)
STUDY_ALL_REDUCE_S = {200: 2.0, 600: 6.0, 1000: 10.0}
STUDY_SAVE_S = 58.8
"""2e13 bytes at 340 GB/s."""
SCHEMES = ("replication", "spare")
RULES = ("spare-study", "spare-sound")
DISTRIBUTIONS = ("weibull", "exponential")


def headline() -> pd.DataFrame:
    """Return the best redundancy of each scheme and N, as in the paper's table."""
    return pd.DataFrame(read_rows("spare", "spare_headline"))


def rows_with(table: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Return the rows of a table that have some values in some columns."""
    for column, value in values.items():
        table = table[table[column] == value]
    return table


def published_cells() -> pd.DataFrame:
    """Return all published cells: means of three trials at N = 200, and the headline of others.

    The columns of the values begin with ``published_``; the others are those of runs.
    """
    trials, others = pd.DataFrame(read_rows("spare", "spare_n200_weibull")), headline()
    cells = pd.concat([trials, others[others.groups > 200]], ignore_index=True)
    values = {name: cells[name] for name in ("time_to_train_ratio", "availability")}
    return cells[["groups", "redundancy"]].assign(
        strategy=cells.scheme,
        rules="spare-study",
        distribution="weibull",
        **{f"published_{name}": column for name, column in values.items()},
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a curve."""

    rules: str  # Name of the scenario: ``spare-study`` or ``spare-sound``.
    # The point.
    scheme: str
    groups: int
    redundancy: int
    distribution: str = "weibull"

    def settings(self) -> dict[str, Any]:
        """Return the changes of this cell to its scenario.

        The rules of the study include its checkpoint intervals; sound rules derive their own.
        """
        settings = {
            "strategy.name": self.scheme,
            "job.groups": self.groups,
            "strategy.redundancy": self.redundancy,
            "failures.distribution": self.distribution,
        }
        cell = {"scheme": self.scheme, "groups": self.groups, "redundancy": self.redundancy}
        for line in read_rows("spare", "spare_intervals"):
            if self.rules == "spare-study" and cell.items() <= line.items():
                settings["checkpoint.interval_steps"] = line["interval_steps"]
        return settings


def default_cells() -> list[Cell]:
    """Return the cells of ``data/cells.csv``."""
    return [
        Cell(line["rules"], line["scheme"], line["groups"], redundancy, line["distribution"])
        for line in read_rows("spare", "cells")
        for redundancy in range(line["least"], line["most"] + 1)
    ]


def full_cells() -> list[Cell]:
    """Return every redundancy that has a ruler, under both distributions."""
    return [
        Cell(rules, scheme, groups, redundancy, distribution)
        for rules, distribution, groups, scheme in product(RULES, DISTRIBUTIONS, GROUPS, SCHEMES)
        for redundancy in range(2, largest_redundancy(groups) + 1)
    ]


def cell_points(cells: Iterable[Cell], seeds: int) -> Iterator[Point]:
    """Yield the runs of every cell, labelled with its ``rules``."""
    # Measured values depend only on the rules and the groups.
    durations: dict[tuple[str, int], Durations] = {}
    for cell in cells:
        known = durations.get((cell.rules, cell.groups))
        job = resolve(load_scenario(cell.rules, cell.settings()), known)
        durations[cell.rules, cell.groups] = job.durations
        for seed in range(seeds):
            yield Point.of(job, seed, (("rules", cell.rules),))


def variant_points(part: str, seeds: int) -> Iterator[Point]:
    """Yield the runs of a part of ``data/variants.csv``, labelled by it."""
    keys = {"scheme": "strategy.name", "redundancy": "strategy.redundancy"}
    keys["interval_steps"] = "checkpoint.interval_steps"
    for line in read_rows("spare", "variants"):
        if line["part"] != part:
            continue
        stated = [f"{key}={line[column]}" for column, key in keys.items() if column in line]
        job = resolve(load_scenario(line["rules"], [*stated, *settings_of(line)]))
        for seed in range(seeds):
            yield Point.of(job, seed, ((part, line["label"]),))


def settings_of(variant: dict[str, Any]) -> list[str]:
    """Return the changes of a line of ``data/variants.csv`` to its rules, as ``key=value``."""
    return variant["settings"].split("; ") if "settings" in variant else []


def measure_fabric(setting: tuple[int, Path]) -> dict[str, Any]:
    """Generate ``spare-600k`` for N groups in a directory, and measure the job's phases on it.

    All-reduce, checkpoint write and load in SimGrid, in seconds, beside the study's constants.
    """
    groups, directory = setting
    path = generate_preset("spare-600k", groups, directory)
    settings = {"job.groups": groups, "platform.file": path.as_posix()}
    measured = cached_probe(path, traffic_of(load_scenario("spare-sound", settings), path))
    return {
        "groups": groups,
        "all_reduce_s": measured.all_reduce_s,
        "study_all_reduce_s": STUDY_ALL_REDUCE_S[groups],
        "save_s": measured.save_s,
        "study_save_s": STUDY_SAVE_S,
        "load_s": measured.load_s,
    }
