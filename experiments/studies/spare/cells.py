"""The cells of the study: which scheme, how many groups, which redundancy; and their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.spare.published import GROUPS, interval_steps
from faultline.simulator.job import Durations
from faultline.strategies.golomb import largest_redundancy

SCHEMES = ("replication", "spare")


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a curve.

    Attributes
    ----------
    rules : str
        Name of the scenario: ``spare-study`` or ``spare-sound``.
    scheme, groups, redundancy, distribution
        The point.
    """

    rules: str
    scheme: str
    groups: int
    redundancy: int
    distribution: str = "weibull"

    def settings(self) -> list[str]:
        """Return what sets this cell apart from its scenario, as ``key=value``."""
        chosen = [
            f"strategy.name={self.scheme}",
            f"job.groups={self.groups}",
            f"strategy.redundancy={self.redundancy}",
            f"failures.distribution={self.distribution}",
        ]
        interval = interval_steps(self.scheme, self.groups, self.redundancy)
        if interval is not None:
            chosen.append(f"checkpoint.interval_steps={interval}")
        return chosen


def default_cells() -> list[Cell]:
    """All redundancies up to 12; for replication at N = 600 and 1000, those up to 6."""
    around = {"replication": range(2, 7), "spare": range(2, 13)}
    return [
        Cell(rules, scheme, groups, redundancy)
        for rules in ("spare-study", "spare-sound")
        for groups in GROUPS
        for scheme in SCHEMES
        for redundancy in (range(2, 13) if groups == 200 else around[scheme])
    ]


def full_cells() -> list[Cell]:
    """Every redundancy that has a ruler, both distributions."""
    return [
        Cell(rules, scheme, groups, redundancy, distribution)
        for rules in ("spare-study", "spare-sound")
        for distribution in ("weibull", "exponential")
        for groups in GROUPS
        for scheme in SCHEMES
        for redundancy in range(2, largest_redundancy(groups) + 1)
    ]


def run_cells(
    cells: Iterable[Cell],
    seeds: int,
    workers: int | None,
    on_done: Callable[[], None] | None = None,
) -> pd.DataFrame:
    """Run every cell with every seed; returns a row a run, labelled with its ``rules``."""
    return pd.DataFrame(play(list(_tasks(cells, seeds)), workers=workers, on_done=on_done))


def _tasks(cells: Iterable[Cell], seeds: int) -> Iterator[Point]:
    # What is measured on the platform depends on the rules and the groups only.
    durations: dict[tuple[str, int], Durations] = {}
    for cell in cells:
        scenario = load_scenario(cell.rules, cell.settings())
        known = durations.get((cell.rules, cell.groups))
        question = resolve(scenario) if known is None else resolve(scenario, known)
        durations[cell.rules, cell.groups] = question.durations
        for seed in range(seeds):
            yield Point.of(question, seed, (("rules", cell.rules),))


@dataclass(frozen=True, slots=True)
class Shortcut:
    """One of the published simulator's shortcuts, undone.

    Attributes
    ----------
    name : str
        As in the table of published numbers.
    settings : tuple of str
        The sound choice, as ``key=value`` on top of ``spare-study``.
    schemes : tuple of str
        The schemes it concerns.
    """

    name: str
    settings: tuple[str, ...]
    schemes: tuple[str, ...] = SCHEMES


SHORTCUTS = (
    Shortcut("as published", ()),
    Shortcut("resume after the checkpointed step", ("restart.resume=after",)),
    Shortcut(
        "failed all-reduce in full",
        ("all_reduce.failed_fraction=1", "all_reduce.fixed_step=retries"),
    ),
    Shortcut("failures while waiting absorbed", ("restart.failure_while_waiting=absorbed",)),
    Shortcut(
        "restart takes 3600 s",
        ("restart.failure_while_waiting=absorbed", "restart.failure_during=absorbed"),
    ),
    Shortcut(
        "controller sees all failures",
        ("strategy.replication.controller_sees=all",),
        ("replication",),
    ),
    Shortcut(
        "all wait for the checkpoint",
        ("strategy.replication.checkpoint_waits=true",),
        ("replication",),
    ),
)


def run_shortcuts(
    seeds: int, workers: int | None, on_done: Callable[[], None] | None = None
) -> pd.DataFrame:
    """Run the study's N = 200 with one shortcut undone at a time; a row a run."""
    tasks = [
        Point.of(question, seed, (("shortcut", shortcut.name),))
        for shortcut in SHORTCUTS
        for scheme in shortcut.schemes
        for question in [_shortcut_question(shortcut, scheme)]
        for seed in range(seeds)
    ]
    return pd.DataFrame(play(tasks, workers=workers, on_done=on_done))


def _shortcut_question(shortcut: Shortcut, scheme: str) -> Any:
    cell = Cell("spare-study", scheme, 200, {"spare": 9, "replication": 3}[scheme])
    return resolve(load_scenario("spare-study", [*cell.settings(), *shortcut.settings]))


def runs_of_shortcuts(seeds: int) -> int:
    """Return the number of runs that `run_shortcuts` makes."""
    return seeds * sum(len(shortcut.schemes) for shortcut in SHORTCUTS)


def checkpoint_only(seeds: int, workers: int | None) -> pd.DataFrame:
    """Run checkpoint-only where the study leaves it out, and all schemes where it has a chance.

    At the study's scale the job gets 30 simulated days. The smaller scale is the study's own
    extrapolation: a failure every 3 hours, as on 16,384 GPUs.
    """
    study = ["strategy.name=checkpoint", f"job.time_limit_s={30 * 86400}"]
    small = ["failures.mtbf_s=10800", "job.gpus=16000"]
    settings = {
        "N=200, failure every 300 s, 30 days": [study],
        "N=200, failure every 3 h": [
            [*small, "strategy.name=checkpoint"],
            [*small, "strategy.name=replication", "strategy.redundancy=2"],
            [*small, "strategy.name=spare", "strategy.redundancy=2"],
        ],
    }
    tasks = [
        Point.of(resolve(load_scenario("spare-study", chosen)), seed, (("setting", setting),))
        for setting, choices in settings.items()
        for chosen in choices
        for seed in range(seeds)
    ]
    return pd.DataFrame(play(tasks, workers=workers))


def summary(runs: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean and standard deviation over seeds of the study's quantities, a row a cell."""
    quantities = ["time_to_train_ratio", "availability", "mean_stacks", "restarts", "failures"]
    grouped = runs.groupby(by, sort=False)[quantities].agg(["mean", "std"])
    grouped.columns = [f"{name}_{kind}".removesuffix("_mean") for name, kind in grouped.columns]
    return grouped.reset_index()
