"""A scenario with every value filled in, the origin of each value, and its TOML file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import tomlkit
from faultline.experiments.config.distribution import own_version
from faultline.experiments.config.keys import Key, KeyPath, schema_keys, value_at
from faultline.experiments.config.reference import unmet_condition
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import ScenarioSource
from faultline.experiments.config.toml_text import toml_item, written
from faultline.experiments.config.uncertain import TABLE
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve_runnable
from faultline.experiments.job.stated_job import filled_in
from pydantic import BaseModel
from tomlkit.items import KeyType, SingleKey, Table

_WIDEST_KEY = 40
_LINE_LENGTH = 120

Origin = Literal["stated", "--set", "derived", "default", "unset"]


@dataclass(frozen=True, slots=True)
class ResolvedKey:
    """A key of a resolved scenario."""

    reference: Key  # Its documentation.
    value: Any  # Its value; None if it is unset.
    # Origin of the value: the file ("stated"), the command line ("--set"), the model, the platform
    # or closed forms ("derived"), the default ("default"), or none ("unset").
    origin: Origin
    counts: bool  # Whether the key has an effect under the scenario's choices.
    outcome: str  # The number that a choice leads to, such as a measured time; may be empty.


@dataclass(frozen=True, slots=True)
class ResolvedScenario:
    """A scenario with every value filled in."""

    resolved: ResolvedJob  # The scenario, with the values found for its open keys.
    scenario: Scenario  # The same with every value stated: it gives the same records.
    keys: dict[KeyPath, ResolvedKey]  # Every key by its path, in the order of the schema.


def resolve_source(source: ScenarioSource) -> ResolvedScenario:
    """Fill in the open keys of a scenario; errors are those of `resolved_job.resolve_runnable`."""
    # A shown scenario must be one that can be simulated.
    resolved = resolve_runnable(source.scenario())
    filled = filled_in(resolved)
    outcomes = _outcomes(resolved)
    defaults = Scenario()
    keys = {
        path: ResolvedKey(
            reference,
            value_at(filled, path),
            _origin(source, value_at(filled, path), value_at(defaults, path), path),
            unmet_condition(path, filled) is None,
            outcomes.get(reference.dotted, ""),
        )
        for path, reference in schema_keys(Scenario).items()
        if _has_value(filled, reference)
    }
    return ResolvedScenario(resolved, filled, keys)


def _outcomes(resolved: ResolvedJob) -> dict[str, str]:
    """Return the number that each derived or measured key leads to, by dotted key."""
    scenario, durations = resolved.scenario, resolved.durations
    groups, sources = scenario.job.groups, resolved.sources
    times = {
        "compute_s": (sources["compute"], resolved.compute_s),
        "all_reduce_s": (sources["all_reduce"], durations.all_reduce_s(groups)),
        "checkpoint_write_s": (sources["checkpoint"], durations.save_s),
        "checkpoint_load_s": (sources["load"], durations.load_s),
        "restart_s": (sources["restart"], resolved.restart_s),
    }
    outcomes = {
        f"times.{key}": f"{value_s:.6g} s, {source}"
        for key, (source, value_s) in times.items()
        if source != "stated"
    }
    if scenario.failures.model != "independent":
        outcomes["failures.model"] = f"a failure every {resolved.failures.mtbf_s:.6g} s"
    if resolved.protected.in_background:
        outcomes["protection.name"] = _protection_outcome(resolved)
    return outcomes


def _protection_outcome(resolved: ResolvedJob) -> str:
    protected, details = resolved.protected, []
    if resolved.snapshot_interval_steps:
        cost = protected.snapshot_cost
        details.append(
            f"a snapshot stalls for {cost.stall_s:.3g} s and is complete after {cost.lag_s:.3g} s"
        )
    if protected.protection.peers is not None:
        load = protected.protection.load_times(protected.times)
        details.append(f"loads in {load.local_s:.3g} s, {load.peers_s:.3g} s if a node was lost")
    if not details:
        details.append(f"a checkpoint stalls for {protected.persist_cost.stall_s:.3g} s")
    return "; ".join(details)


def _has_value(scenario: Scenario, reference: Key) -> bool:
    """Return whether a key exists and is not a table; a list of tables is one value."""
    above, value = value_at(scenario, reference.path[:-1]), value_at(scenario, reference.path)
    return isinstance(above, BaseModel) and not isinstance(value, (BaseModel, dict))


def _origin(source: ScenarioSource, value: Any, default: Any, path: KeyPath) -> Origin:
    if source.setting_of(path) is not None:
        return "--set"
    if value_at(source.tables, path) is not None:
        return "stated"
    if value is None:
        return "unset"
    return "default" if value == default else "derived"


def scenario_toml(resolved: ResolvedScenario, *, everything: bool = False) -> str:
    """Return a TOML file equivalent to the scenario, with every value stated.

    A comment at each key has its unit, the origin of its value and its meaning. With `everything`,
    the file also has keys without effect that were not stated.
    """
    document = tomlkit.document()
    by = f"Resolved by Faultline {own_version()}."
    document.add(tomlkit.comment(f"{by} Each comment has [unit, origin] meaning."))
    document.add(tomlkit.comment("`faultline scenario explain KEY` prints details."))
    document.add(tomlkit.nl())
    tables: dict[KeyPath, tomlkit.TOMLDocument | Table] = {(): document}
    for path, keys in _by_table(resolved, everything).items():
        if path not in tables:
            tables[path] = tomlkit.table()
            tables[path[:-1]].add(path[-1], tables[path])
        _fill(tables[path], keys)
    if resolved.scenario.uncertain:
        document.add(TABLE, _priors(resolved.scenario))
    return tomlkit.dumps(document)


def _priors(scenario: Scenario) -> Table:
    """Return the priors of a scenario, each in a line."""
    table = tomlkit.table()
    for dotted, prior in scenario.uncertain.items():
        line = toml_item(prior.model_dump(exclude_none=True))
        table.add(SingleKey(dotted, KeyType.Basic), line)
    return table


def _by_table(resolved: ResolvedScenario, everything: bool) -> dict[KeyPath, list[ResolvedKey]]:
    """Return the keys of each table; a table comes after its parent."""
    tables: dict[KeyPath, list[ResolvedKey]] = {(): []}
    for path, key in resolved.keys.items():
        if everything or key.counts or key.origin in ("stated", "--set"):
            for length in range(1, len(path)):
                tables.setdefault(path[:length], [])
            tables[path[:-1]].append(key)
    return tables


def _fill(table: tomlkit.TOMLDocument | Table, keys: list[ResolvedKey]) -> None:
    widths = [_width(key) for key in keys if key.value is not None]
    column = max((width for width in widths if width <= _WIDEST_KEY), default=0) + 2
    for key in keys:
        name = key.reference.path[-1]
        if key.value is None:
            table.add(tomlkit.comment(f"{name}: ".ljust(column) + remark(key)))
            continue
        item = toml_item(key.value)
        if _width(key) <= _WIDEST_KEY:
            item.comment(remark(key, _LINE_LENGTH - column))
            item.trivia.comment_ws = " " * (column - _width(key))
        table.add(name, item)


def _width(key: ResolvedKey) -> int:
    """Return the width of a key and its value; a text of several lines is too wide to align."""
    text = f"{key.reference.path[-1]} = {written(key.value)}"
    return len(text) if "\n" not in text else len(text) + _WIDEST_KEY


def remark(key: ResolvedKey, longest: int = 1000) -> str:
    """Return a key's unit, the origin of its value and its meaning, in a line.

    The meaning of a choice is left out if the line would become longer than `longest`.
    """
    reference = key.reference
    details: list[str] = [reference.unit] if reference.unit not in (None, "1") else []
    details.append(key.origin)
    if not key.counts:
        details.append("not in force")
    start, end = f"[{', '.join(details)}] {reference.summary}", ""
    if key.outcome:
        end = f": here {key.outcome}"
    elif key.origin == "derived" and not reference.choices:
        end = f": {reference.source.removeprefix('derived: ')}"
    elif isinstance(key.value, str) and reference.choices.get(key.value):
        end = f": {reference.choices[key.value]}"
    return start + end if len(start + end) <= longest else start
