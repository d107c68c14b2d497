"""From a grid to its tables: validate all points, name all runs, execute the missing runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
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
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.platform_files import check_platform
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.execution import line_printer, progress_of_runs
from faultline.experiments.runs.manifest import FORMAT, Manifest, axes_of, name_point
from faultline.experiments.runs.point import Executor, Limits, Point, Request, name_run
from faultline.experiments.runs.provenance import code_digest
from faultline.experiments.runs.single_run import stated_hash
from faultline.experiments.runs.store import Store, StoredRun, check_own, open_store
from faultline.experiments.runs.table import (
    CSV,
    PARQUET,
    remove_tables,
    tables_stand,
    write_tables,
)
from faultline.strategies.plugins.registry import build_strategy
from rich.console import Console

NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The runs of a grid."""

    origin: str  # Name of the grid in messages.
    manifest: Manifest  # The plan as it is stored with its results.
    base: dict[str, Any]  # Tables that all points start from: the scenario's, and ``[set]``.
    points: list[Settings]  # Dotted keys and values that each point changes.

    def requests(self, wanted: Collection[str]) -> Iterator[Request]:
        """Yield the requests of the wanted runs.

        All points come with the first seed before any point comes with the second. So an unfinished
        sweep already covers the whole grid.
        """
        manifest = self.manifest
        seeds = manifest.seeds
        for offset, seed in enumerate(seeds):
            for run_id, settings in zip(
                manifest.run_ids[offset :: len(seeds)], self.points, strict=True
            ):
                if run_id in wanted:
                    scenario = _scenario_at(self.base, settings, self.origin)
                    yield Request(run_id, Point(scenario, seed, manifest.engine))


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
    points: list[Settings] = []
    values: list[list[Any]] = []
    hashes: dict[str, None] = {}
    # Keys of the grid that have had no effect so far, and why.
    idle: dict[str, str | None] = dict.fromkeys((*keys, *grid.fixed))
    for settings in grid.points():
        point = name_point(settings, settings.values())
        where = f"{grid.origin}: point {point}" if point else grid.origin
        scenario = _scenario_at(base, settings, where)
        try:
            _check(scenario, built)
        except EXPLAINED as error:
            raise UserError(f"{where}: {error}") from error
        why = {key: why_idle(path_of(key), scenario) for key in idle}
        idle = {key: text for key, text in why.items() if text is not None}
        named = stated_hash(scenario)
        if named in hashes:
            continue
        hashes[named] = None
        points.append(settings)
        tables = scenario.model_dump(mode="json")
        values.append([value_at(tables, tuple(key.split("."))) for key in keys])
    for key, text in idle.items():
        raise UserError(f"{grid.origin}: {key}: {text}")
    manifest = Manifest(
        format=FORMAT,
        faultline=own_version(),
        grid=grid.as_tables(),
        engine=grid.engine,
        fixed=dict(dotted_leaves(fixed)),
        keys=keys,
        axes=axes_of(keys, values),
        points=values,
        seeds=list(grid.seeds),
        run_ids=[name_run(named, seed, grid.engine) for named in hashes for seed in grid.seeds],
    )
    return SweepPlan(grid.origin, manifest, base, points)


def _check(scenario: Scenario, built: set[tuple[object, ...]]) -> None:
    """Refuse a point that cannot be simulated; the scheme is checked once for equal points."""
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
    directory: Path,
    executor: Callable[[], Executor],
    console: Console,
    limits: Limits = NO_LIMITS,
    *,
    retry_failed: bool = False,
) -> PointOutcome:
    """Execute the missing runs of a plan, store each result as it arrives, and write the tables.

    A failed run becomes a row with its error. The executor is made only if a run is missing. The
    console shows the progress, and a line per damaged file.

    It is a UserError if the directory contains other files, or results of other source code, or is
    not writable. Stored results stay, and the same call resumes.
    """
    print_line = line_printer(console)
    code = code_digest()
    manifest = plan.manifest
    with open_store(directory, manifest, print_line) as store:
        for name in (PARQUET, CSV):
            check_own(directory / name)
        missing = store.missing(retry_failed=retry_failed)
        staying = store.staying(missing)
        _check_code(store, staying, code)
        if missing:
            with store.writing():
                remove_tables(directory)
        store.begin()
        if missing:
            done, failed = len(staying), sum(run.failed for run in staying)
            results = executor().simulate(plan.requests(missing), limits)
            name, total = manifest.grid["name"], len(manifest.run_ids)
            with closing(results), progress_of_runs(console, name, total, done) as show:
                for result in results:
                    value, error = result.value, result.error
                    store.save(StoredRun(result.run_id, value, error, code, result.wall_s))
                    done += 1
                    failed += error is not None
                    show(done, failed)
            if code_digest() != code:
                print_line(
                    f"{directory}: the simulation's source has changed while this sweep ran, and "
                    "results may mix both; choose another -o DIR to repeat all runs"
                )
        if missing or not tables_stand(directory, manifest):
            if left := len(store.missing()):
                raise UserError(
                    f"{directory}: {left} runs have no result; repeat the command to execute them"
                )
            with store.writing():
                write_tables(directory, manifest, store.runs)
        return PointOutcome(
            simulated=len(missing),
            already_there=len(manifest.run_ids) - len(missing),
            failed=sum(run.failed for run in store.runs.values()),
            first_error=_first_error(manifest, store.runs),
        )


def _check_code(store: Store, staying: list[StoredRun], code: str) -> None:
    other = sum(run.code != code for run in staying)
    if other:
        raise UserError(
            f"{store.directory}: {other} of its results were made by other code: a scheme, the "
            "simulator or a platform has changed; choose another -o DIR"
        )


def _first_error(manifest: Manifest, runs: dict[str, StoredRun]) -> str | None:
    for run_id, values, seed in manifest.rows():
        if runs[run_id].failed:
            point = ", ".join(filter(None, [name_point(manifest.keys, values), f"seed {seed}"]))
            return f"{point}: {runs[run_id].error}"
    return None
