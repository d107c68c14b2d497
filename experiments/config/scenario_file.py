"""Scenarios from files and from the command line, with errors that name the remedy."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from faultline.experiments.config.errors import QUIET, Location, Mistake, UserError, and_more, quote
from faultline.experiments.config.keys import (
    KeyPath,
    mistakes_in,
    path_of,
    remedy_for,
    schema_keys,
    set_keys,
    value_at,
)
from faultline.experiments.config.reference import why_idle
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.toml_text import Library, TomlSource, parse_toml_value
from faultline.experiments.streams import print_note
from faultline.platforms.preset_library import preset_names
from pydantic import ValidationError

CURRENT_VERSION = 2
"""Version of the schema; scenarios of other versions are refused."""

_SCENARIOS = Library("scenario", "scenarios")


@dataclass
class ScenarioSource(TomlSource):
    """The tables of a scenario file, with later changes."""

    # Names in messages of the settings that changed keys, by the paths of the keys.
    settings: dict[KeyPath, str] = field(default_factory=dict)
    # Keys that options of the command line have set.
    options: set[KeyPath] = field(default_factory=set)

    def change(
        self, changes: Mapping[str, object] | Iterable[str], option: str | None = None
    ) -> None:
        """Set values by their dotted keys, or by ``key=value`` as on the command line.

        ``~key``, or None as a value, leaves a key open, as if it were not stated. Messages about
        these keys name `option`, an option of the command line, if it is given.

        Raises UserError if a setting has no key or no equals sign, or if a part of a key is a value
        and no table.
        """
        where, origins = f"{option or self.origin}: ", {}
        if not isinstance(changes, Mapping):
            settings = [(*_read_setting(setting), f"--set {setting}") for setting in changes]
            changes = {key: value for key, value, _ in settings}
            where, origins = "--set ", {key: setting for key, _, setting in settings}
        elif option is not None:
            origins = dict.fromkeys(changes, option)
        set_keys(self.tables, changes, where)
        for key in changes:
            self.settings[path_of(key)] = origins.get(key, where.rstrip(": "))
            if key in origins:
                self.options.add(path_of(key))

    def setting_of(self, location: Location) -> str | None:
        """Return the setting that changed a value; None if the value is that of the file."""
        for length in range(len(location), 0, -1):
            setting = self.settings.get(tuple(map(str, location[:length])))
            if setting is not None:
                return setting
        return None

    def place_of(self, location: Location) -> str:
        """Return the place of a value: file and line, or setting."""
        return self.setting_of(location) or super().place_of(location)

    def validate(self) -> tuple[Scenario | None, list[Mistake]]:
        """Return the scenario, or all mistakes in its tables."""
        version = self.tables.get("version", CURRENT_VERSION)
        if type(version) is not int or version != CURRENT_VERSION:
            # Other versions have other keys, so that messages about keys would mislead.
            reason = (
                f"this Faultline reads version {CURRENT_VERSION} of scenarios only; "
                "docs/scenario-reference.md has its keys"
            )
            return None, [Mistake(("version",), lambda: f"version = {quote(version)}: {reason}")]
        try:
            return Scenario.model_validate(self.tables), []
        except ValidationError as error:
            return None, mistakes_in(error, Scenario)

    def scenario(self) -> Scenario:
        """Return the validated scenario.

        Raises UserError, which names the first mistake and the number of others.
        """
        self.check_syntax()
        scenario, mistakes = self.validate()
        if scenario is None:
            raise self.refusal(mistakes)
        return scenario.completed()

    def used_scenario(self, open_keys: Mapping[str, str | None] | None = None) -> Scenario:
        """Return the validated scenario of a command; each option must have an effect on it.

        The command gives its `open_keys` (dotted) several values by the options to which they map;
        None if the key may be stated too. Keys of the file that have no effect are named on the
        standard error.

        Raises UserError as `scenario`, or for an option without an effect.
        """
        scenario, open_keys = self.scenario(), open_keys or {}
        stated = [path for path in self.options if value_at(self.tables, path) is not None]
        # In the order in which they were stated.
        for path in sorted(stated, key=list(self.settings).index):
            if instead := open_keys.get(".".join(path)):
                raise UserError(
                    f"{self.settings[path]}: has no effect here; name those to compare by {instead}"
                )
            if (why := why_idle(path, scenario, open_keys)) is not None:
                raise UserError(f"{self.settings[path]}: {why}")
        self._name_idle_keys(scenario, open_keys)
        return scenario

    def _name_idle_keys(self, scenario: Scenario, open_keys: Collection[str]) -> None:
        """Print a line if keys of the file have no effect, in the file alone and in the scenario.

        Options of schemes and protections do not count: the command may choose these.
        """
        written = ScenarioSource.of_text(self.origin, self.text)
        alone, _ = written.validate()
        if alone is None:
            return
        chosen_later = {*open_keys, "strategy.name", "protection.name"}
        idle = [
            f"{written.place_of(path)}: {'.'.join(path)}: {why}"
            for path, key in schema_keys(Scenario).items()
            if not key.tables
            and value_at(written.tables, path) is not None
            and self.setting_of(path) is None
            and (why := why_idle(path, alone, chosen_later)) is not None
            and why_idle(path, scenario, chosen_later) is not None
        ]
        if idle:
            _print_note(f"{idle[0]}{and_more(len(idle) - 1)}")


def _read_setting(setting: str) -> tuple[str, object]:
    """Return the dotted key and the value of ``key=value``, with a TOML value, or of ``~key``."""
    key, equals, text = setting.removeprefix("~").partition("=")
    keys = [part.strip() for part in key.split(".")]
    is_left_open = setting.startswith("~")
    if bool(equals) == is_left_open or not all(keys):
        raise UserError(
            f"--set {setting}: write key=value, for example job.groups=600, or ~key to leave "
            "a key open"
        )
    dotted, path = ".".join(keys), tuple(keys)
    if is_left_open and path not in schema_keys(Scenario):
        raise UserError(f"--set {setting}: unknown key; {remedy_for(path, Scenario)}")
    return dotted, None if is_left_open else parse_toml_value(text.strip())


@cache
def _print_note(line: str) -> None:
    """Print a line on the standard error once, unless `QUIET` is set."""
    if QUIET not in os.environ:
        print_note(line)


def shipped_scenarios() -> list[str]:
    """Return the names of the shipped scenarios."""
    return _SCENARIOS.names()


def load_scenario(
    name_or_path: str,
    changes: Mapping[str, object] | Iterable[str] = (),
) -> Scenario:
    """Read a scenario and change some of its values.

    Parameters
    ----------
    name_or_path : str
        The name of a shipped scenario, or a TOML file.
    changes : mapping of str to value, or iterable of str
        Values by their dotted keys, as for `Scenario.change`; or ``key=value`` as on the command
        line, with values as in TOML, where quotes may be left out.

    Raises
    ------
    UserError
        If the file or a change is invalid; the message is one line.
    """
    return read_source(name_or_path, changes).scenario()


def command_scenario(
    name_or_path: str,
    settings: Iterable[str],
    open_keys: Mapping[str, str | None] | None = None,
) -> Scenario:
    """Read the scenario of a command; see `load_scenario` and `ScenarioSource.used_scenario`."""
    return read_source(name_or_path, settings).used_scenario(open_keys)


def read_source(
    name_or_path: str, changes: Mapping[str, object] | Iterable[str] = ()
) -> ScenarioSource:
    """Read the tables of a scenario file, and change some of their values.

    Mistakes of its text are kept and not raised.

    Raises UserError if there is no such file, it is a grid, or a change is no ``key=value``.
    """
    source = ScenarioSource.of_text(name_or_path, _SCENARIOS.text(name_or_path))
    if {"scenario", "grid"} <= source.tables.keys():
        raise UserError(f"{name_or_path}: that is a grid, for faultline sweep; name a scenario")
    source.tables.setdefault("name", Path(name_or_path).stem)
    if name_or_path not in shipped_scenarios():
        _resolve_paths(source.tables, Path(name_or_path).parent)
    source.change(changes)
    return source


def scenario_from(tables: Mapping[str, Any], origin: str) -> Scenario:
    """Return the scenario of nested mappings.

    Raises UserError, which names the first mistake and the number of others.
    """
    return ScenarioSource(origin, deepcopy(dict(tables))).scenario()


def _resolve_paths(tables: dict[str, Any], directory: Path) -> None:
    """Make the paths in the tables of a scenario file relative to the working directory.

    Names of shipped clusters and mixes, and absolute paths, do not change. The schema refuses
    values that are no text.
    """
    shipped: dict[tuple[str, str], Callable[[], Collection[str]]] = {
        ("platform", "file"): preset_names,
        ("failures", "mix"): _mix_names,
        ("failures", "trace"): tuple,
    }
    for (table, key), names in shipped.items():
        inner = tables.get(table)
        stated = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and isinstance(stated, str) and stated not in names():
            inner[key] = str(directory / stated)


def _mix_names() -> Collection[str]:
    from faultline.experiments.config.mix_file import plugged_mixes, shipped_mixes

    return *shipped_mixes(), *plugged_mixes()
