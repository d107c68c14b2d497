"""The API of ``import faultline``: functions from ``run`` to ``timeline``, ``Job``, ``Platform``.

A scenario is a name or a TOML file. Changes are keys and values: ``{"job.groups": 600}``, or
keyword arguments with two underscores instead of a dot, ``job__groups=600``.
"""

from __future__ import annotations

import json
import operator
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast, get_args

from faultline.experiments.analysis.quantities import time_text
from faultline.experiments.config.errors import UserError, quote
from faultline.experiments.config.grid import EngineName, dotted_leaves, grid_from
from faultline.experiments.config.numbers import plain, read_number, why_no_number
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import ScenarioSource, read_source
from faultline.experiments.notebook.results import Comparison, Plan, Record, Timeline, png_of

if TYPE_CHECKING:
    import pandas as pd
    from faultline.experiments.job.resolved_job import ResolvedJob
    from faultline.platforms.platform_data import Platform as PlatformData
    from matplotlib.figure import Figure


def scenario_with(
    scenario: str | Path | Scenario,
    changes: Mapping[str, object] | None = None,
    more: Mapping[str, object] | None = None,
) -> Scenario:
    """Return a scenario with changes, by dotted keys or by names with two underscores.

    Raises
    ------
    UserError
        If there is no such scenario, or a change is invalid or has no effect.
    """
    dotted = plain({**keys_of(changes or {}), **keys_of(more or {})})
    if isinstance(scenario, Scenario):
        source = ScenarioSource(scenario.name, scenario.stated())
    else:
        source = read_source(str(scenario))
    for key, value in dotted.items():
        source.change({key: value}, f"{key}={json.dumps(value, default=str)}")
    return source.used_scenario()


def keys_of(changes: Mapping[str, object]) -> dict[str, object]:
    """Return changes by dotted keys, from nested tables or names with two underscores.

    Raises
    ------
    UserError
        If they are not a mapping.
    """
    if not isinstance(changes, Mapping):
        raise UserError(f"{_quoted(changes)}: use a mapping for changes: {{'job.steps': 500}}")
    return {key.replace("__", "."): value for key, value in dotted_leaves(changes)}


def _quoted(value: object) -> str:
    return quote(value) if isinstance(value, (str, int, float)) else f"{value!r:.80}"


def whole(name: str, value: object, least: int = 0) -> int:
    """Return an argument as an int; a UserError if it is not an integer, or below the least."""
    value = read_number(plain(value), "1", is_whole=True)
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(cast(int, value))
    except TypeError:
        number = least - 1
    if number < least:
        raise UserError(f"{name} = {_quoted(value)}: use a whole number from {least}")
    return number


def _seconds(name: str, value: object) -> float | None:
    """Return a time such as "5min" in seconds; None stays."""
    time_s = read_number(plain(value), "s", is_whole=False)
    if time_s is None:
        return None
    is_number = isinstance(time_s, int | float) and not isinstance(time_s, bool)
    if not is_number or not time_s > 0:
        why = "must be above 0" if is_number else why_no_number(value, "s", is_whole=False)
        raise UserError(f"{name} = {_quoted(value)}: {why}")
    return float(time_s)


def _engine(name: EngineName) -> EngineName:
    if name not in get_args(EngineName):
        known = " or ".join(map(repr, get_args(EngineName)))
        raise UserError(f"engine = {_quoted(name)}: use {known}")
    return name


def run(
    scenario: str | Path | Scenario,
    changes: Mapping[str, object] | None = None,
    /,
    *,
    seed: int = 0,
    engine: EngineName = "replay",
    **more: object,
) -> Record:
    """Simulate a scenario with one seed.

    Parameters
    ----------
    scenario : str, Path or Scenario
        A shipped scenario's name, a TOML file, or a scenario.
    changes : mapping, optional
        Values by dotted keys.
    seed : int
        Seed of the random numbers; it determines the record.
    engine : {"replay", "simgrid"}
        The engine.
    **more
        Changes as ``job__steps=500``.

    Returns
    -------
    Record
        Names, settings and metrics.
    """
    from faultline.experiments.runs.single_run import run as simulate

    chosen = scenario_with(scenario, changes, more)
    return Record(simulate(chosen, whole("seed", seed), _engine(engine)))


def timeline(
    scenario: str | Path | Scenario,
    changes: Mapping[str, object] | None = None,
    /,
    *,
    seed: int = 0,
    engine: EngineName = "replay",
    **more: object,
) -> Timeline:
    """Simulate a scenario as `run` does, and keep its events."""
    from faultline.experiments.runs.single_run import run as simulate
    from faultline.simulator.accounting.timeline import Event

    events: list[Event] = []
    chosen = scenario_with(scenario, changes, more)
    record = simulate(chosen, whole("seed", seed), _engine(engine), events.append)
    return Timeline(Record(record), tuple(events))


def sweep(
    scenario: str | Path,
    grid: Mapping[str, Sequence[object]],
    /,
    *,
    seeds: int | Sequence[int] = 3,
    engine: EngineName = "replay",
    file: str | Path | None = None,
    workers: int | None = None,
    **changes: object,
) -> pd.DataFrame:
    """Simulate every point of a grid with every seed.

    Parameters
    ----------
    scenario : str or Path
        A shipped scenario's name, or a TOML file.
    grid : mapping of str to sequence
        Values of dotted keys, also as an array: ``{"job.groups": np.arange(24, 97, 24)}``.
    seeds : int or sequence of int
        Number of seeds, or the seeds.
    engine : {"replay", "simgrid"}
        The engine.
    file : str or Path, optional
        File of the results; a repeated call executes only missing runs.
    workers : int, optional
        Runs at a time; by default one per core. A single worker is this process, which saves the
        seconds to start others.
    **changes
        Changes of all points, as ``job__steps=500``.

    Returns
    -------
    DataFrame
        A row per run, as ``faultline export`` writes it. The column ``error`` has the
        reason of a failed run.

    Raises
    ------
    UserError
        If the grid is invalid, or every run failed.
    """
    from faultline.experiments.runs.execution import open_executor
    from faultline.experiments.runs.executor import InThisProcess
    from faultline.experiments.runs.sweep_plan import make_plan, simulate_plan
    from faultline.experiments.runs.table import read_sweep
    from rich.console import Console

    workers = None if workers is None else whole("workers", workers, 1)
    axes = {key: plain(values) for key, values in keys_of(grid).items()}
    for key, values in axes.items():
        if not isinstance(values, Iterable) or isinstance(values, str):
            raise UserError(f"{key} = {_quoted(values)}: list its values")
    tables: dict[str, Any] = {
        "scenario": str(scenario),
        "seeds": [whole("seeds", seed) for seed in seeds]
        if isinstance(seeds, Iterable)
        else whole("seeds", seeds, 1),
        "engine": engine,
        "set": keys_of(changes),
        "grid": {key: list(cast("Iterable[object]", values)) for key, values in axes.items()},
    }
    planned = make_plan(grid_from(tables, "sweep"))
    with TemporaryDirectory() as temporary:
        place = Path(file or Path(temporary, "sweep.sqlite"))
        simulate_plan(
            planned,
            place,
            lambda: nullcontext(InThisProcess()) if workers == 1 else open_executor(workers),
            Console(quiet=True),
        )
        frame = read_sweep(place).frame
    failed = frame[frame["status"] == "failed"]
    if len(failed) == len(frame):
        raise UserError(f"every run failed; the first: {failed['error'].iloc[0]}")
    if len(failed):
        message = f"{len(failed)} of {len(frame)} runs failed: see the column 'error'"
        warnings.warn(message, stacklevel=2)
    return frame


def compare(
    runs: pd.DataFrame | str | Path,
    metric: str = "time_to_train_ratio",
    *,
    by: str | None = None,
    baseline: object = None,
) -> Comparison:
    """Compare the values of an axis of a sweep, paired by seed and setting.

    Parameters
    ----------
    runs : DataFrame, str or Path
        Result of `sweep`, or the file of a sweep.
    metric : str
        A column.
    by : str, optional
        The compared axis; by default the scheme if it is varied, else the first axis.
    baseline : object, optional
        Value of the axis with which others are compared; by default the first.
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
    gpus: int | str | None = None,
    mtbf_s: float | str | None = None,
    restart_s: float | str | None = None,
    schemes: Sequence[str] | None = None,
    protections: Sequence[str] | None = None,
    at_values: bool = False,
    worlds: int = 64,
    seed: int = 0,
    steps: int | None = None,
    price_per_gpu_hour: float | None = None,
    **changes: object,
) -> Plan:
    """Recommend a scheme with its set-up, by simulation in worlds of uncertain inputs.

    Parameters
    ----------
    scenario : str or Path
        A shipped scenario's name, or a TOML file.
    gpus : int or str, optional
        Size of the job, instead of the scenario's; also as ``"100k"``.
    mtbf_s, restart_s : float or str, optional
        Mean time between failures of the whole job, and time of a restart: in seconds, or with a
        unit as in ``"5min"``.
    schemes, protections : sequence of str, optional
        Candidates; by default all for which the scenario has enough data.
    at_values : bool
        Whether the values of the scenario are exact; by default inputs are drawn from priors.
    worlds, seed, steps : int
        Most worlds, their seed, and steps of a simulated job.
    price_per_gpu_hour : float, optional
        Price in any currency, for a column of costs.
    **changes
        Values of the scenario, as ``failures__clock="from-detection"``.
    """
    from faultline.experiments.planner.planning import Effort, answer_plan
    from faultline.experiments.planner.situation import read_situation

    worlds, seed = whole("worlds", worlds, 4), whole("seed", seed)
    steps = None if steps is None else whole("steps", steps, 1)
    # JSON's values are valid TOML.
    settings = [
        f"~{key}" if value is None else f"{key}={json.dumps(plain(value), default=str)}"
        for key, value in keys_of(changes).items()
    ]
    situation = read_situation(
        str(scenario),
        settings,
        None if gpus is None else whole("gpus", gpus, 1),
        _seconds("mtbf_s", mtbf_s),
        _seconds("restart_s", restart_s),
    )
    effort = Effort(worlds, steps=steps, seed=seed)
    answer = answer_plan(situation, schemes, protections, effort, at_values=at_values)
    return Plan(answer, price_per_gpu_hour)


class Job:
    """A scenario with every value filled in: stated, derived, or measured on its platform.

    Parameters
    ----------
    scenario : str, Path or Scenario
        A shipped scenario's name, a TOML file, or a scenario.
    changes : mapping, optional
        Values by dotted keys.
    **more
        Changes as ``job__steps=500``.
    """

    def __init__(
        self,
        scenario: str | Path | Scenario,
        changes: Mapping[str, object] | None = None,
        /,
        **more: object,
    ) -> None:
        self.scenario = scenario_with(scenario, changes, more)

    @cached_property
    def resolved(self) -> ResolvedJob:
        """The job with every value filled in."""
        from faultline.experiments.job.resolving import resolve

        return resolve(self.scenario)

    @property
    def gpus(self) -> int:
        """GPUs of all groups."""
        return self.scenario.job.all_gpus

    @property
    def step_s(self) -> float:
        """Time of an undisturbed step of all groups, in seconds."""
        return self.resolved.ideal_step_s

    @property
    def mfu(self) -> float | None:
        """Model FLOP utilization of an undisturbed step; None without a model."""
        from faultline.experiments.job.workload import model_flop_utilisation

        return model_flop_utilisation(self.scenario, self.step_s)

    def rows(self) -> list[tuple[str, str]]:
        """Return a summary of the job, as names and values."""
        resolved = self.resolved
        table, durations, sources = self.scenario.job, resolved.durations, resolved.sources
        mfu = [] if self.mfu is None else [("MFU", f"{self.mfu:.1%}")]
        simulated = []
        if resolved.step is not None:
            parts = {one.name: getattr(resolved.step, one.name) for one in fields(resolved.step)}
            simulated = [
                (f"  {name.removesuffix('_s').replace('_', ' ')}", f"{value:.4g} s")
                for name, value in parts.items()
                if name.endswith("_s") and value
            ]
        return [
            ("GPUs", f"{self.gpus:,} in {table.groups:,} groups of {table.gpus_of_group:,}"),
            ("steps", f"{table.steps:,}"),
            (f"step ({sources['compute']})", f"{self.step_s:.4g} s"),
            *simulated,
            *mfu,
            ("without failures", time_text(table.steps * self.step_s)),
            (f"a failure every ({sources['failures']})", time_text(resolved.failures.mtbf_s)),
            (f"restart ({sources['restart']})", time_text(resolved.restart_s + durations.load_s)),
            (f"checkpoint ({sources['checkpoint']})", f"{durations.save_s:.4g} s"),
            (
                f"checkpoint every ({sources['checkpoint_interval']})",
                f"{resolved.interval_steps:,} steps",
            ),
            ("scheme", self.scenario.strategy.name),
            (f"redundancy ({sources['redundancy']})", f"{resolved.redundancy}"),
            ("protection", self.scenario.protection.name),
        ]

    def __repr__(self) -> str:
        lines = (f"{name}: {value}" for name, value in self.rows())
        return "\n".join((self.scenario.name, *lines))


class Platform:
    """A cluster: a SimGrid XML, or a shipped one by name.

    Parameters
    ----------
    file : str or Path
        A platform XML, or the name of a shipped cluster.
    **changes
        Keys of a shipped cluster's spec, dotted or short, such as ``domains=2``. Two underscores
        replace a dot.
    """

    def __init__(self, file: str | Path, /, **changes: Any) -> None:
        from faultline.platforms.cache_folder import platform_in_cache
        from faultline.platforms.errors import PlatformError
        from faultline.platforms.preset_library import load_preset, preset_names
        from faultline.platforms.xml_reader import read_platform
        from faultline.platforms.xml_writer import xml_text

        name = str(file)
        if name in preset_names():
            dotted = {key.replace("__", "."): plain(value) for key, value in changes.items()}
            path = platform_in_cache(xml_text(load_preset(name, **dotted)).encode())
        elif changes:
            raise UserError(f"{name}: keys change only shipped clusters; edit the XML")
        else:
            path = Path(file)
        self.path = path
        try:
            self.data: PlatformData = read_platform(path)
        except PlatformError as error:
            raise UserError(str(error)) from error

    @property
    def gpus(self) -> int:
        """GPUs that the platform represents."""
        return len(self.data.gpus) * self.data.gpus_per_rank

    def save(self, path: str | Path) -> Path:
        """Copy the XML to a file, to edit it and to name it as ``platform.file``."""
        from faultline.platforms.files import read_file, write_file
        from faultline.platforms.xml_reader import LARGEST_BYTES

        write_file(Path(path), read_file(self.path, LARGEST_BYTES))
        return Path(path)

    def figure(self) -> Figure:
        """Draw the topology."""
        from faultline.experiments.figures.platform_drawing import platform_figure

        return platform_figure(self.data)

    def __repr__(self) -> str:
        return f"Platform({str(self.path)!r}): {self.gpus:,} GPUs, {len(self.data.links):,} links"

    def _repr_png_(self) -> bytes:
        return png_of(self.figure())
