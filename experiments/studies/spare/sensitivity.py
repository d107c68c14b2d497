"""How far the sound rules lean on what they state: noticing, shrinking, and the size of the state.

Under `spare-sound` a hang is noticed within one all-reduce, 600,000 GPUs shrink their communicators
in 0.1 s, and a checkpoint is the 16-bit weights alone. Each is replaced by itself here, and each
scheme is taken at its best redundancy among a few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.base import Row, row_of

GROUPS = 200
CANDIDATES = {"replication": (2, 3), "spare": (7, 9, 11)}
"""Redundancies among which each scheme's best is sought."""
_PARAMETERS = 1e13


@dataclass(frozen=True, slots=True)
class Assumption:
    """One assumption of the sound rules, replaced.

    Attributes
    ----------
    name : str
        What the tables call it.
    settings : tuple of str
        What is assumed in its place, as ``key=value`` on top of ``spare-sound``.
    """

    name: str
    settings: tuple[str, ...] = ()


ASSUMPTIONS = (
    Assumption("sound rules as they are"),
    Assumption("shrinking takes 180 s", ("restart.controller_s=180",)),
    Assumption(
        "a watchdog of 600 s notices", ("detection.mode=watchdog", "detection.watchdog_s=600")
    ),
    Assumption("a state of 14 bytes a parameter", (f"protection.state_bytes={14 * _PARAMETERS}",)),
)


def run_sensitivity(
    seeds: int,
    workers: int | None,
    on_done: Callable[[], None] | None = None,
    steps: int | None = None,
) -> pd.DataFrame:
    """Play N = 200 under each assumption with each candidate; a row a run, ``assumption`` in it.

    The checkpoint interval is the closed form's for each of them, not the study's.

    Parameters
    ----------
    seeds : int
        Seeds of each.
    workers : int or None
        Worker processes; as many as there are cores if None.
    on_done : callable, optional
        Called after each run.
    steps : int, optional
        Steps of the job; by default the scenario's.
    """
    length = [] if steps is None else [f"job.steps={steps}"]
    tasks = [
        Point.of(question, seed, (("assumption", assumption.name),))
        for assumption in ASSUMPTIONS
        for scheme, candidates in CANDIDATES.items()
        for redundancy in candidates
        for question in [
            resolve(
                load_scenario(
                    "spare-sound",
                    [
                        f"job.groups={GROUPS}",
                        f"strategy.name={scheme}",
                        f"strategy.redundancy={redundancy}",
                        *length,
                        *assumption.settings,
                    ],
                )
            )
        ]
        for seed in range(seeds)
    ]
    return pd.DataFrame(play(tasks, workers=workers, on_done=on_done))


def number_of_runs(seeds: int) -> int:
    """Return the number of runs that `run_sensitivity` makes."""
    return seeds * len(ASSUMPTIONS) * sum(map(len, CANDIDATES.values()))


def at_best(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row an assumption and scheme, each at the redundancy of the least mean ratio.

    Columns: ``assumption``, ``scheme``, ``redundancy``, ``interval_steps`` (of checkpoints),
    ``time_to_train_ratio`` (mean over seeds) with its 95 % interval ``low`` and ``high``,
    ``availability``, and ``seeds``.
    """
    return pd.DataFrame(
        [
            {
                "assumption": mine.assumption.iloc[0],
                "scheme": row.scheme,
                "redundancy": mine.redundancy.iloc[0],
                "interval_steps": mine.checkpoint_interval_steps.iloc[0],
                "time_to_train_ratio": row.simulated,
                "low": row.low,
                "high": row.high,
                "availability": mine.availability.mean(),
                "seeds": len(mine),
            }
            for row, mine in _best(runs)
        ]
    )


def sensitivity_rows(runs: pd.DataFrame) -> list[Row]:
    """Return the ratios of `at_best` as rows; nobody has published any."""
    return [row for row, _ in _best(runs)]


def _best(runs: pd.DataFrame) -> Iterator[tuple[Row, pd.DataFrame]]:
    for (assumption, scheme), mine in runs.groupby(["assumption", "strategy"], sort=False):
        best = mine.groupby("redundancy").time_to_train_ratio.mean().idxmin()
        chosen = mine[mine.redundancy == best]
        setting = f"N={GROUPS} r={best} weibull spare-sound, {assumption}"
        ratios = list(chosen.time_to_train_ratio)
        yield row_of("time_to_train_ratio", str(scheme), setting, None, ratios, "1"), chosen
