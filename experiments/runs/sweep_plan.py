"""From a grid to its runs: every point validated, every run named, before anything is played."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from copy import deepcopy
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.grid import Grid, Settings, dotted_leaves
from faultline.experiments.config.scenario import Scenario, set_key
from faultline.experiments.config.scenario_file import read_scenario_tables, scenario_from
from faultline.experiments.job.platform_files import check_platform
from faultline.experiments.job.resolved_job import is_measured, resolve
from faultline.experiments.runs.manifest import FORMAT, Manifest, name_point
from faultline.experiments.runs.point import Point, Request, name_run
from faultline.experiments.runs.single_run import asked_hash
from faultline.platforms.errors import PlatformError
from faultline.simulator.failures.distributions import DistributionError
from faultline.strategies.errors import StrategyError
from faultline.strategies.registry import strategy_class


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs of a grid.

    Attributes
    ----------
    origin : str
        How to call the grid in messages.
    manifest : Manifest
        The plan as it is kept with its results.
    base : dict
        The tables that all points start from: the scenario's, and ``[set]``.
    points : list of dict
        Dotted keys and values that each point sets on top of them.
    """

    origin: str
    manifest: Manifest
    base: dict[str, Any]
    points: list[Settings]

    def requests(self, wanted: Collection[str]) -> Iterator[Request]:
        """Yield the requests of the wanted runs.

        All points come with the first seed before any comes with the second, so that a sweep which
        is under way already shows the whole grid.
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


def make_plan(grid: Grid) -> Plan:
    """Validate every point of a grid, and name its runs.

    Points that several cases have in common are played once. Whatever can be found out without
    measuring on a platform is: a point that cannot be played is refused here, not after hours.

    Raises
    ------
    UserError
        Names the first bad point and its mistake.
    """
    base, described = read_scenario_tables(grid.scenario_source())
    scenario_from(base, described)
    for key, value in grid.fixed.items():
        set_key(base, key.split("."), value, f"{grid.origin}: [set] {key}")
    fixed = scenario_from(base, f"{grid.origin}: [set]").model_dump(mode="json")
    keys = grid.varied_keys()
    check = _Check()
    points: list[Settings] = []
    values: list[list[Any]] = []
    hashes: dict[str, None] = {}
    for settings in grid.points():
        point = name_point(settings, settings.values())
        where = f"{grid.origin}: point {point}" if point else grid.origin
        scenario = _scenario_at(base, settings, where)
        check(scenario, where)
        named = asked_hash(scenario)
        if named in hashes:
            continue
        hashes[named] = None
        points.append(settings)
        tables = scenario.model_dump(mode="json")
        values.append([_value_at(tables, key) for key in keys])
    manifest = Manifest(
        format=FORMAT,
        faultline=version("faultline"),
        grid=grid.as_tables(),
        engine=grid.engine,
        fixed=dict(dotted_leaves(fixed)),
        keys=keys,
        axes=_axes(keys, values),
        points=values,
        seeds=list(grid.seeds),
        run_ids=[name_run(named, seed, grid.engine) for named in hashes for seed in grid.seeds],
    )
    return Plan(grid.origin, manifest, base, points)


class _Check:
    """Refuses points that cannot be played; what points have in common is looked at once."""

    def __init__(self) -> None:
        self._built: set[tuple[object, ...]] = set()

    def __call__(self, scenario: Scenario, where: str) -> None:
        try:
            self._check(scenario)
        except (UserError, PlatformError, StrategyError, DistributionError) as error:
            raise UserError(f"{where}: {error}") from error

    def _check(self, scenario: Scenario) -> None:
        redundancy = scenario.strategy.redundancy
        if is_measured(scenario):
            check_platform(scenario)
        else:
            redundancy = resolve(scenario).redundancy
        if redundancy is None:
            return
        strategy = scenario.strategy
        groups, options = scenario.job.groups, strategy.options()
        scheme = (strategy.name, groups, redundancy, options.model_dump_json())
        if scheme not in self._built:
            strategy_class(strategy.name)(groups, redundancy, options)
            self._built.add(scheme)


def _scenario_at(base: dict[str, Any], settings: Settings, where: str) -> Scenario:
    tables = deepcopy(base)
    for key, value in settings.items():
        set_key(tables, key.split("."), value, where)
    return scenario_from(tables, where)


def _axes(keys: list[str], points: list[list[Any]]) -> dict[str, list[Any]]:
    axes = {
        key: list(dict.fromkeys(values[position] for values in points))
        for position, key in enumerate(keys)
    }
    return {key: values for key, values in axes.items() if len(values) > 1}


def _value_at(tables: dict[str, Any], key: str) -> Any:
    value: Any = tables
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
