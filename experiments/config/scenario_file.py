"""Scenarios from files and from the command line, with errors that say what would be right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import Schema
from faultline.experiments.config.mistakes import Location, Mistake, mistakes_in, quote
from faultline.experiments.config.paths import resolve_paths
from faultline.experiments.config.scenario import Scenario, and_more, set_key
from faultline.experiments.config.text_file import read_text_file
from faultline.experiments.config.toml_text import SyntaxMistake, parse_toml, parse_toml_value
from faultline.experiments.config.version import version_mistake
from faultline.platforms.errors import nearest
from faultline.platforms.toml_lines import key_lines
from pydantic import ValidationError

_SHIPPED = files("faultline.experiments.config").joinpath("scenarios")


@dataclass
class ScenarioSource:
    """A scenario as it was written.

    Attributes
    ----------
    origin : str
        How messages call it: the path of its file, or the name of a shipped scenario.
    tables : dict
        Nested tables, with the settings applied so far.
    syntax_mistakes : list of SyntaxMistake
        What makes its text no TOML; the tables are then those that could be read.
    text : str
        The text of its file; empty where it comes from none.
    settings : dict of tuple to str
        How messages call what was set after it was read, by its path.
    """

    origin: str
    tables: dict[str, Any]
    syntax_mistakes: list[SyntaxMistake] = field(default_factory=list)
    text: str = ""
    settings: dict[tuple[str, ...], str] = field(default_factory=dict)

    @cached_property
    def lines(self) -> Mapping[tuple[str, ...], int]:
        """The line of every key and table of the text, by its path; found when it is asked for."""
        return key_lines(self.text)

    def apply(self, setting: str) -> None:
        """Apply ``key=value`` with a dotted key and a TOML value, whose quotes may be left out.

        Raises
        ------
        UserError
            If it has no key or no equals sign, or its way leads through a value.
        """
        key, equals, text = setting.partition("=")
        keys = [part.strip() for part in key.split(".")]
        if not equals or not all(keys):
            raise UserError(f"--set {setting}: write key=value, for example job.groups=600")
        set_key(self.tables, keys, parse_toml_value(text.strip()), f"--set {setting}")
        self.settings[tuple(keys)] = f"--set {setting}"

    def change(self, changes: Mapping[str, object]) -> None:
        """Set values by their dotted keys; None leaves a key out.

        Raises
        ------
        UserError
            If the way to a key leads through a value.
        """
        for key, value in changes.items():
            keys = key.split(".")
            set_key(self.tables, keys, value, f"{self.origin}: {key}")
            self.settings[tuple(keys)] = self.origin

    def setting_of(self, location: Location) -> str | None:
        """Return what set a value after it was read; None if it stands in the file."""
        for length in range(len(location), 0, -1):
            setting = self.settings.get(tuple(map(str, location[:length])))
            if setting is not None:
                return setting
        return None

    def line_of(self, location: Location) -> int | None:
        """Return the line of a key, or of the closest table around it; None if there is none."""
        names = tuple(part for part in location if isinstance(part, str))
        for length in range(len(names), 0, -1):
            if names[:length] in self.lines:
                return self.lines[names[:length]]
        return None

    def place_of(self, location: Location) -> str:
        """Return where a key was given its value: file and line, or setting."""
        setting = self.setting_of(location)
        if setting is not None:
            return setting
        return self.place(self.line_of(location))

    def place(self, line: int | None) -> str:
        """Return a line of the file as a message names it."""
        return self.origin if line is None else f"{self.origin}:{line}"

    def validate(self) -> tuple[Scenario | None, list[Mistake]]:
        """Return the scenario that the tables stand for, or all that is wrong with them."""
        wrong_version = version_mistake(self.tables)
        if wrong_version is not None:
            # What another version calls its keys is none of this one's business.
            what = f"version = {quote(self.tables['version'])}: {wrong_version}"
            return None, [Mistake(("version",), lambda: what)]
        try:
            return Scenario.model_validate(self.tables), []
        except ValidationError as error:
            return None, mistakes_in(error, Scenario)

    def scenario(self) -> Scenario:
        """Return the validated scenario.

        Raises
        ------
        UserError
            Names the first mistake and how many more there are.
        """
        self.check_syntax()
        scenario, mistakes = self.validate()
        if scenario is None:
            raise UserError(self.told(mistakes[0]) + and_more(len(mistakes) - 1))
        return scenario.completed()

    def check_syntax(self) -> None:
        """Refuse a text that is no TOML.

        Raises
        ------
        UserError
            Names the first mistake and how many more there are.
        """
        if self.syntax_mistakes:
            raise UserError(
                self.told_syntax(self.syntax_mistakes[0]) + and_more(len(self.syntax_mistakes) - 1)
            )

    def told_syntax(self, mistake: SyntaxMistake) -> str:
        """Return a mistake of the text with its place, as one line."""
        return f"{self.place(mistake.line)}: this is no TOML: {mistake.what}"

    def told(self, mistake: Mistake) -> str:
        """Return a mistake with its place, as one line."""
        return f"{self.place_of(mistake.location)}: {mistake.describe()}"


def shipped_scenarios() -> list[str]:
    """Return the names of the scenarios that come with Faultline."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in _SHIPPED.iterdir()
        if entry.name.endswith(".toml")
    )


def load_scenario(
    name_or_path: str, changes: Mapping[str, object] | Iterable[str] = ()
) -> Scenario:
    """Read a scenario and change some of its values.

    Parameters
    ----------
    name_or_path : str
        The name of a shipped scenario, or a TOML file.
    changes : mapping of str to value, or iterable of str
        Values by their dotted keys, as for `Scenario.with_`; or ``key=value`` as on the command
        line, with values as in TOML, where quotes may be left out.

    Raises
    ------
    UserError
        If the file or a change is no good; the message is one line.
    """
    return read_source(name_or_path, changes).scenario()


def read_source(
    name_or_path: str, changes: Mapping[str, object] | Iterable[str] = ()
) -> ScenarioSource:
    """Read the tables of a scenario as they stand in its file, and change some of their values.

    Mistakes of its text are kept and not raised.

    Raises
    ------
    UserError
        If there is no such file, or a change is no ``key=value``.
    """
    text = _text_of(name_or_path)
    tables, mistakes = parse_toml(text)
    tables.setdefault("name", Path(name_or_path).stem)
    if name_or_path not in shipped_scenarios():
        resolve_paths(tables, Path(name_or_path).parent)
    source = ScenarioSource(name_or_path, tables, mistakes, text)
    if isinstance(changes, Mapping):
        source.change(changes)
    else:
        for setting in changes:
            source.apply(setting)
    return source


def read_scenario_tables(name_or_path: str) -> tuple[dict[str, Any], str]:
    """Return the tables of a scenario as they stand in its file, and how to call it in messages.

    Parameters
    ----------
    name_or_path : str
        The name of a shipped scenario, or a TOML file.

    Raises
    ------
    UserError
        If there is no such file, or it is no TOML.
    """
    source = read_source(name_or_path)
    source.check_syntax()
    return source.tables, source.origin


def scenario_from(tables: Mapping[str, Any], origin: str) -> Scenario:
    """Validate a scenario given as nested mappings.

    Raises
    ------
    UserError
        Names the first mistake and how many more there are.
    """
    return ScenarioSource(origin, dict(tables)).scenario()


def describe_mistakes(error: ValidationError, schema: Schema = Scenario) -> list[str]:
    """Return each mistake of a file as one line: key, what is wrong, what would be right."""
    return [mistake.describe() for mistake in mistakes_in(error, schema)]


def _text_of(name_or_path: str) -> str:
    shipped = shipped_scenarios()
    if name_or_path in shipped:
        return _SHIPPED.joinpath(f"{name_or_path}.toml").read_text(encoding="utf-8")
    try:
        return read_text_file(Path(name_or_path))
    except UserError:
        raise
    except (OSError, ValueError) as error:
        raise UserError(
            f"{name_or_path}: {_reason(error)}{nearest(name_or_path, shipped)}; name a TOML file "
            f"or a shipped scenario ({', '.join(shipped)})"
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return getattr(error, "strerror", None) or str(error)
