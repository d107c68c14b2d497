"""From a grid to its results: validate all points, name all runs, execute the missing runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from faultline.experiments.config.distribution import own_version
from faultline.experiments.config.errors import EXPLAINED, UserError
from faultline.experiments.config.grid import Grid, Settings, dotted_leaves
from faultline.experiments.config.keys import path_of, set_keys, value_at
from faultline.experiments.config.reference import why_idle
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import read_source, scenario_from
from faultline.experiments.job.durations import is_measured
from faultline.experiments.job.job_shape import check_layout, job_shape
from faultline.experiments.job.platform_files import check_platform
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.execution import progress_of_runs
from faultline.experiments.runs.executor import RunExecutor, simulate_requests
from faultline.experiments.runs.point import Limits, Point, Request
from faultline.experiments.runs.provenance import code_digest
from faultline.experiments.runs.single_run import stated_hash
from faultline.experiments.runs.store import Plan, PlannedRun, StoredRun, open_store
from faultline.strategies.plugins.registry import build_strategy
from rich.console import Console

NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The runs of a grid."""

    origin: str  # Name of the grid in messages.
    stored: Plan  # The plan as it is stored with its results.
    base: dict[str, Any]  # Tables that all points start from: the scenario's, and ``[set]``.
    changes: dict[str, Settings]  # Dotted keys and values that each point changes, by its hash.

    def requests(self, wanted: Collection[str], limits: Limits = NO_LIMITS) -> Iterator[Request]:
        """Yield the requests of the wanted runs.

        All points come with the first seed before any point comes with the second. So an unfinished
        sweep already covers the whole grid.
        """
        runs = [run for run in self.stored.runs() if run[0] in wanted]
        order = {seed: place for place, seed in enumerate(self.stored.seeds)}
        for run_id, point, seed in sorted(runs, key=lambda run: order[run[2]]):
            scenario = _scenario_at(self.base, self.changes[point], self.origin)
            yield Request(run_id, Point(scenario, seed, self.stored.engine), limits)


def make_plan(grid: Grid) -> SweepPlan:
    """Validate every point of a grid, and name its runs.

    A point in several cases is simulated once. All checks that need no measurement on a platform
    happen here, so that a sweep does not fail after hours: a UserError names the first bad point
    and its mistake.
    """
    source = read_source(grid.scenario_source())
    base = source.tables
    scenario_from(base, source.origin)
    set_keys(base, grid.fixed, f"{grid.origin}: [set] ")
    fixed = scenario_from(base, f"{grid.origin}: [set]").model_dump(mode="json")
    keys = grid.varied_keys()
    built: set[tuple[object, ...]] = set()
    changes: dict[str, Settings] = {}
    points: dict[str, dict[str, Any]] = {}
    # Keys of the grid that have had no effect so far, and why.
    idle: dict[str, str | None] = dict.fromkeys((*keys, *grid.fixed))
    for settings in grid.points():
        point = name_point(settings)
        where = f"{grid.origin}: point {point}" if point else grid.origin
        scenario = _scenario_at(base, settings, where)
        try:
            _check(scenario, built)
        except EXPLAINED as error:
            raise UserError(f"{where}: {error}") from error
        why = {key: why_idle(path_of(key), scenario) for key in idle}
        idle = {key: text for key, text in why.items() if text is not None}
        named = stated_hash(scenario)
        if named not in points:
            changes[named] = settings
            tables = scenario.model_dump(mode="json")
            points[named] = {key: value_at(tables, tuple(key.split("."))) for key in keys}
    for key, text in idle.items():
        raise UserError(f"{grid.origin}: {key}: {text}")
    plan = Plan(
        faultline=own_version(),
        grid=grid.as_tables(),
        engine=grid.engine,
        fixed=dict(dotted_leaves(fixed)),
        keys=keys,
        seeds=list(grid.seeds),
        points=points,
    )
    return SweepPlan(grid.origin, plan, base, changes)


def _check(scenario: Scenario, built: set[tuple[object, ...]]) -> None:
    """Refuse a point that cannot be simulated; the scheme is checked once for equal points."""
    check_layout(scenario)
    redundancy = scenario.strategy.redundancy
    if is_measured(scenario):
        check_platform(scenario)
    else:
        redundancy = resolve(scenario).redundancy
    if redundancy is None:
        return
    strategy = scenario.strategy
    groups, options, shape = scenario.job.groups, strategy.options(), job_shape(scenario)
    scheme = (strategy.name, groups, redundancy, options.model_dump_json(), shape)
    if scheme not in built:
        build_strategy(strategy.name, groups, redundancy, options, shape)
        built.add(scheme)


def _scenario_at(base: dict[str, Any], settings: Settings, where: str) -> Scenario:
    tables = deepcopy(base)
    set_keys(tables, settings, f"{where}: ")
    return scenario_from(tables, where)


@dataclass(frozen=True, slots=True)
class PointOutcome:
    """Summary of an executed plan."""

    simulated: int  # Runs executed now.
    already_there: int  # Runs that existed before.
    failed: int  # Runs of both kinds that have an error instead of a record.
    first_error: str | None  # Point, seed and error of the first failed run in the plan's order.


def simulate_plan(
    plan: SweepPlan,
    file: Path,
    executor: Callable[[], AbstractContextManager[RunExecutor]],
    console: Console,
    limits: Limits = NO_LIMITS,
    *,
    retry_failed: bool = False,
) -> PointOutcome:
    """Execute the missing runs of a plan, and store each result as it arrives.

    A failed run has its error as its result. The executor is opened only if a run is missing. The
    console shows the progress. Runs of other grids stay in the file.

    It is a UserError if the file is something else, damaged or not writable, or has results of
    other source code. Stored results stay, and the same call resumes.
    """
    code = code_digest()
    stored, print_line = plan.stored, partial(console.print, soft_wrap=True)
    with open_store(file) as store:
        runs = {run.run_id: run for run in stored.runs()}
        if other := sum(made_by != code for (made_by,) in store.runs("code")):
            raise UserError(
                f"{file}: {other} of its runs were made by other code: a scheme, the simulator or "
                "a platform has changed; name another file"
            )
        there: dict[str, str | None] = dict(store.runs("run_id", "error"))
        if others := len(there.keys() - runs.keys()):
            print_line(f"{file}: keeps {others} runs of another grid")
        errors = {name: there[name] for name in runs if name in there}
        if retry_failed:
            errors = {name: error for name, error in errors.items() if error is None}
        before, failed = len(errors), sum(error is not None for error in errors.values())
        store.write_plan(stored)
        if before < len(runs):
            name = stored.grid["name"]
            requests = plan.requests(runs.keys() - errors.keys(), limits)
            with (
                executor() as workers,
                progress_of_runs(console, name, len(runs), before) as show,
                closing(simulate_requests(workers, requests)) as outcomes,
            ):
                for one in outcomes:
                    run, record = runs[one.run_id], one.value or {}
                    store.save_run(StoredRun(*run, code, one.error, one.wall_s, record))
                    errors[one.run_id] = one.error
                    failed += one.error is not None
                    show(len(errors), failed)
            if code_digest() != code:
                print_line(
                    f"{file}: the simulation's source has changed while this sweep ran, and "
                    "results may mix both; repeat it in another file"
                )
        first = next(
            (_described(stored, run, errors) for run in runs.values() if errors[run.run_id]), None
        )
        return PointOutcome(len(runs) - before, before, failed, first)


def _described(plan: Plan, run: PlannedRun, errors: Mapping[str, str | None]) -> str:
    place = ", ".join(filter(None, (name_point(plan.points[run.stated_hash]), f"seed {run.seed}")))
    return f"{place}: {errors[run.run_id]}"


def name_point(settings: Mapping[str, Any]) -> str:
    """Return a point as text: ``job.groups = 200, strategy.name = 'spare'``."""
    return ", ".join(f"{key} = {value!r}" for key, value in settings.items())
