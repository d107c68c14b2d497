"""``run``, ``sweep``, ``compare``, ``plan`` and ``timeline``, as ``import faultline`` has them.

A scenario is named, or is a TOML file. Changes are its keys: ``{"job.groups": 600}``, or as keyword
arguments with two underscores for the dot, ``job__groups=600``.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.grid import EngineName, dotted_leaves, grid_from, read_grid
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.notebook.results import Comparison, Plan, Record, Timeline

if TYPE_CHECKING:
    import pandas as pd


def scenario_with(
    scenario: str | Path | Scenario,
    changes: Mapping[str, object] | None = None,
    more: Mapping[str, object] | None = None,
) -> Scenario:
    """Return a scenario with changes, given by dotted keys or as keyword arguments are.

    Raises
    ------
    UserError
        If there is no such scenario, or a change is no good; the message is one line.
    """
    dotted = {**keys_of(changes or {}), **keys_of(more or {})}
    if isinstance(scenario, Scenario):
        return scenario.with_(dotted)
    return load_scenario(str(scenario), dotted)


def keys_of(changes: Mapping[str, object]) -> dict[str, object]:
    """Return changes by dotted keys: of nested tables, and of names with two underscores."""
    return {key.replace("__", "."): value for key, value in dotted_leaves(changes)}


def run(
    scenario: str | Path | Scenario,
    changes: Mapping[str, object] | None = None,
    /,
    *,
    seed: int = 0,
    engine: EngineName = "replay",
    **more: object,
) -> Record:
    """Play a scenario with one seed.

    Parameters
    ----------
    scenario : str, Path or Scenario
        A shipped scenario's name, a TOML file, or a scenario.
    changes : mapping, optional
        Values by dotted keys.
    seed : int
        Names the random numbers; one seed, one record.
    engine : {"replay", "simgrid"}
        Which engine plays.
    **more
        Changes as ``job__steps=500``.

    Returns
    -------
    Record
        Names, settings and metrics.
    """
    from faultline.experiments.runs.single_run import run as play

    return Record(play(scenario_with(scenario, changes, more), seed, engine))


def timeline(
    scenario: str | Path | Scenario,
    changes: Mapping[str, object] | None = None,
    /,
    *,
    seed: int = 0,
    engine: EngineName = "replay",
    **more: object,
) -> Timeline:
    """Play a scenario as `run` does, and keep what happened when."""
    from faultline.experiments.runs.single_run import run as play
    from faultline.simulator.timeline import Event

    events: list[Event] = []
    chosen = scenario_with(scenario, changes, more)
    record = play(chosen, seed, engine, events.append)
    return Timeline(Record(record), tuple(events))


def sweep(
    scenario: str | Path,
    grid: Mapping[str, Sequence[object]] | None = None,
    /,
    *,
    seeds: int | Sequence[int] = 3,
    engine: EngineName = "replay",
    folder: str | Path | None = None,
    workers: int | None = None,
    progress: bool = False,
    **changes: object,
) -> pd.DataFrame:
    """Play every point of a grid with every seed.

    Parameters
    ----------
    scenario : str or Path
        A shipped scenario's name, or a TOML file; without a `grid`, a grid: by name, or as a file.
    grid : mapping of str to sequence, optional
        Dotted keys and the values that each takes.
    seeds : int or sequence of int
        How many, or which.
    engine : {"replay", "simgrid"}
        Which engine plays.
    folder : str or Path, optional
        Where results are kept: the same call plays only what is missing.
    workers : int, optional
        Runs at a time; one a core by default. A single one plays in this process, which saves the
        seconds that it takes to start others.
    progress : bool
        Whether stderr shows how far it has come.
    **changes
        What all points have in common, as ``job__steps=500``.

    Returns
    -------
    DataFrame
        A row a run, as ``table.csv`` of ``faultline sweep`` has them; a run that failed has its
        reason in the column ``error``.

    Raises
    ------
    UserError
        If the grid is no good, or every run failed.
    """
    from faultline.experiments.runs.local import InThisProcess, LocalExecutor
    from faultline.experiments.runs.sweep_plan import make_plan, play_plan
    from faultline.experiments.runs.table import read_sweep
    from rich.console import Console

    if grid is None:
        if changes:
            raise UserError("sweep: a grid says itself what is set; give changes with a scenario")
        asked = read_grid(str(scenario))
    else:
        tables: dict[str, Any] = {
            "scenario": str(scenario),
            "seeds": seeds if isinstance(seeds, int) else list(seeds),
            "engine": engine,
            "set": keys_of(changes),
            "grid": {key.replace("__", "."): list(values) for key, values in grid.items()},
        }
        asked = grid_from(tables, "sweep")
    plan = make_plan(asked)
    console = Console(stderr=True, quiet=not progress)
    with TemporaryDirectory() as temporary:
        place = Path(folder or Path(temporary, "sweep"))
        play_plan(
            plan,
            place,
            lambda: InThisProcess() if workers == 1 else LocalExecutor(workers),
            console,
        )
        frame = read_sweep(place).frame
    failed = frame[frame["status"] == "failed"]
    if len(failed) == len(frame):
        raise UserError(f"every run failed; the first: {failed['error'].iloc[0]}")
    if len(failed):
        said = f"{len(failed)} of {len(frame)} runs failed: see the column 'error'"
        warnings.warn(said, stacklevel=2)
    return frame


def compare(
    runs: pd.DataFrame | str | Path,
    metric: str = "time_to_train_ratio",
    *,
    by: str | None = None,
    baseline: object = None,
) -> Comparison:
    """Compare the values of an axis of a sweep, seed by seed and setting by setting.

    Parameters
    ----------
    runs : DataFrame, str or Path
        What `sweep` returned, or the folder of a sweep.
    metric : str
        A column.
    by : str, optional
        The axis whose values are compared; the scheme where it was varied, else the first.
    baseline : object, optional
        One of its values; the first by default.
    """
    from faultline.experiments.analysis.comparison import make_report
    from faultline.experiments.analysis.quantities import value_text
    from faultline.experiments.runs.table import read_sweep

    frame = read_sweep(Path(runs)).frame if isinstance(runs, str | Path) else runs
    against = baseline if baseline is None else value_text(baseline)
    return Comparison(make_report(frame, metric, by, against))


def plan(
    scenario: str | Path,
    /,
    *,
    gpus: int | None = None,
    groups: int | None = None,
    mtbf_s: float | None = None,
    restart_s: float | None = None,
    save_s: float | None = None,
    schemes: Sequence[str] | None = None,
    protections: Sequence[str] | None = None,
    seeds: int = 3,
    verify: int = 3,
    steps: int | None = None,
    price_per_gpu_hour: float | None = None,
    **changes: object,
) -> Plan:
    """Say which scheme to take: the best of each by closed forms, verified by simulation.

    Parameters
    ----------
    scenario : str or Path
        A shipped scenario's name, or a TOML file.
    gpus, groups : int, optional
        Size of the job, instead of the scenario's.
    mtbf_s, restart_s, save_s : float, optional
        Mean time between failures of the whole job, time of a restart, time to write a checkpoint,
        in seconds.
    schemes, protections : sequence of str, optional
        Those that come into question; by default all that need no layout.
    seeds, verify, steps : int
        Seeds of a verification, choices to verify (0: closed forms alone), steps of a simulated
        job.
    price_per_gpu_hour : float, optional
        In any currency; tells the cost.
    **changes
        Values of the scenario, as ``failures__clock="survives"``.
    """
    from dataclasses import replace

    from faultline.experiments.planner.advice import advise
    from faultline.experiments.planner.plan import (
        chosen_protections,
        chosen_schemes,
        make_plan,
    )
    from faultline.experiments.planner.situation import read_situation

    chosen, not_named = chosen_schemes(schemes)
    # What JSON writes of a key's value, TOML reads.
    settings = [
        f"~{key}" if value is None else f"{key}={json.dumps(value)}"
        for key, value in keys_of(changes).items()
    ]
    situation = read_situation(str(scenario), settings, gpus, groups, mtbf_s, restart_s, save_s)
    kept = chosen_protections(protections)
    planned = make_plan(situation, chosen, kept, range(seeds), verify, steps)
    planned = replace(planned, left_out=(*planned.left_out, *not_named))
    return Plan(planned, advise(planned), price_per_gpu_hour)
