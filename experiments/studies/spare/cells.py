"""Cells that are published and simulated, and the study's constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.placement import traffic_of
from faultline.experiments.job.platform_files import generate_preset
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.point import Point
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies.data import parts_of, read_rows
from faultline.simulator.accounting.timeline import EventKind
from faultline.simulator.job.durations import Durations
from faultline.simulator.timing.transfer_times import probe
from faultline.strategies.schemes.spare.golomb import largest_redundancy

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
class SpareCell:
    """A job of the study: a point of a curve, or a line of ``data/variants.csv``."""

    rules: str  # Name of the scenario: ``spare-study`` or ``spare-sound``.
    scheme: str
    groups: int = 200
    redundancy: int | None = None
    distribution: str = "weibull"
    interval_steps: int | None = None  # Between checkpoints; derived if None.
    settings: str = ""  # Other changes to the scenario, as ``key=value`` separated by "; ".
    label: str = ""

    def changes(self) -> list[str]:
        """Return all changes of this cell to its scenario, as ``key=value``."""
        columns = {
            "strategy.name": self.scheme,
            "job.groups": self.groups,
            "strategy.redundancy": self.redundancy,
            "failures.distribution": self.distribution,
            "checkpoint.interval_steps": self.interval_steps,
        }
        stated = [f"{key}={value}" for key, value in columns.items() if value is not None]
        return [*stated, *parts_of(self.settings)]

    def job(self, known: Durations | None = None) -> ResolvedJob:
        """Return the job, with durations that are already known."""
        return resolve(load_scenario(self.rules, self.changes()), known)


def cell_of(
    rules: str, scheme: str, groups: int, redundancy: int, distribution: str = "weibull"
) -> SpareCell:
    """Return a point of a curve.

    The rules of the study include its checkpoint intervals; sound rules derive their own.
    """
    cell = SpareCell(rules, scheme, groups, redundancy, distribution)
    for line in read_rows("spare", "spare_intervals") if rules == "spare-study" else ():
        if (scheme, groups, redundancy) == (line["scheme"], line["groups"], line["redundancy"]):
            return replace(cell, interval_steps=line["interval_steps"])
    return cell


def default_cells() -> list[SpareCell]:
    """Return the cells of ``data/cells.csv``."""
    return [
        cell_of(line["rules"], line["scheme"], line["groups"], redundancy, line["distribution"])
        for line in read_rows("spare", "cells")
        for redundancy in range(line["least"], line["most"] + 1)
    ]


def full_cells() -> list[SpareCell]:
    """Return every redundancy that has a ruler, under both distributions."""
    return [
        cell_of(rules, scheme, groups, redundancy, distribution)
        for rules, distribution, groups, scheme in product(RULES, DISTRIBUTIONS, GROUPS, SCHEMES)
        for redundancy in range(2, largest_redundancy(groups) + 1)
    ]


def variants(part: str) -> list[SpareCell]:
    """Return the cells of a part of ``data/variants.csv``."""
    lines = [dict(line) for line in read_rows("spare", "variants")]
    return [SpareCell(**line) for line in lines if line.pop("part") == part]


def cell_points(cells: Iterable[SpareCell], seeds: int, part: str = "") -> Iterator[Point]:
    """Yield the runs of every cell, labelled by the part of its variant, or with its ``rules``."""
    # Measured values do not depend on the scheme and its redundancy.
    durations: dict[tuple[str, int, str], Durations] = {}
    for cell in cells:
        measured = (cell.rules, cell.groups, cell.settings)
        job = cell.job(durations.get(measured))
        durations[measured] = job.durations
        label = (part, cell.label) if part else ("rules", cell.rules)
        for seed in range(seeds):
            yield Point.of(job, seed, (label,))


def measure_fabric(setting: tuple[int, Path]) -> dict[str, Any]:
    """Generate ``spare-600k`` for N groups in a directory, and measure the job's phases on it.

    All-reduce, checkpoint write and load in SimGrid, in seconds, beside the study's constants.
    """
    groups, directory = setting
    path = generate_preset("spare-600k", groups, directory)
    settings = {"job.groups": groups, "platform.file": path.as_posix()}
    measured = probe(path, traffic_of(load_scenario("spare-sound", settings), path))
    return {
        "groups": groups,
        "all_reduce_s": measured.all_reduce_s,
        "study_all_reduce_s": STUDY_ALL_REDUCE_S[groups],
        "save_s": measured.save_s,
        "study_save_s": STUDY_SAVE_S,
        "load_s": measured.load_s,
    }


def count_reorderings(seed: int) -> dict[str, float]:
    """Return the failures that SPARe masks with one seed, and the share that moves no shard type.

    The job has 200 groups and the published redundancy. Without a move, phase 0 of its controller
    has found each type among the stacks of a survivor.
    """
    counts = Counter[EventKind]()
    job = cell_of("spare-study", "spare", 200, 9).job()
    run(job, seed, record_event=lambda event: counts.update([event.kind]), records_steps=False)
    masked, moved = counts[EventKind.RECOVERED], counts[EventKind.REORDERED]
    shape = {"groups": job.scenario.job.groups, "redundancy": job.redundancy, "seed": seed}
    return {**shape, "masked": masked, "moved": moved, "settled": 1.0 - moved / masked}
