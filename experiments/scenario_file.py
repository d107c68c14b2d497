"""Scenarios from files and from the command line, with errors that say what would be right."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from experiments.errors import UserError, did_you_mean
from experiments.scenario import Scenario

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_SHIPPED = files("experiments").joinpath("scenarios")


def shipped_scenarios() -> list[str]:
    """Return the names of the scenarios that come with Faultline."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in _SHIPPED.iterdir()
        if entry.name.endswith(".toml")
    )


def load_scenario(name_or_path: str, settings: Iterable[str] = ()) -> Scenario:
    """Read a scenario and apply settings to it.

    Parameters
    ----------
    name_or_path : str
        The name of a shipped scenario, or a TOML file.
    settings : iterable of str
        ``key=value`` with dotted keys; values as in TOML, where quotes may be left out.

    Raises
    ------
    UserError
        If the file or a setting is no good; the message is one line.
    """
    text, origin = _read(name_or_path)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{origin}: this is no TOML: {error}") from error
    table.setdefault("name", Path(name_or_path).stem)
    for setting in settings:
        _apply(table, setting)
    return scenario_from(table, origin)


def scenario_from(table: Mapping[str, Any], origin: str) -> Scenario:
    """Validate a scenario given as nested mappings.

    Raises
    ------
    UserError
        Names the first mistake and how many more there are.
    """
    try:
        return Scenario.model_validate(table)
    except ValidationError as error:
        mistakes = describe_mistakes(error)
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        raise UserError(f"{origin}: {mistakes[0]}{more}") from error


def describe_mistakes(error: ValidationError) -> list[str]:
    """Return each mistake of a scenario as one line: key, what is wrong, what would be right."""
    return [_describe(mistake) for mistake in error.errors()]


def _read(name_or_path: str) -> tuple[str, str]:
    if name_or_path in shipped_scenarios():
        resource = _SHIPPED.joinpath(f"{name_or_path}.toml")
        return resource.read_text(encoding="utf-8"), f"scenario {name_or_path}"
    path = Path(name_or_path)
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: this is no TOML: it is not UTF-8 text") from error
    except (OSError, ValueError) as error:
        reason = _reason(error)
        raise UserError(
            f"{path}: {reason}; name a TOML file or a shipped scenario "
            f"({', '.join(shipped_scenarios())})"
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return getattr(error, "strerror", None) or str(error)


def _apply(table: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.partition("=")
    keys = [part.strip() for part in key.split(".")]
    if not equals or not all(keys):
        raise UserError(f"--set {setting}: write key=value, for example job.groups=600")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    inner = table
    for part in keys[:-1]:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise UserError(f"--set {setting}: {part} is a value, not a table")
    inner[keys[-1]] = value


def _describe(mistake: Any) -> str:
    location = [str(part) for part in mistake["loc"]]
    key = ".".join(location)
    given = mistake["input"]
    if mistake["type"] == "extra_forbidden":
        known = [".".join((*location[:-1], name)) for name in _known_keys(location[:-1])]
        return f"{key}: unknown key; {did_you_mean(key, known)}"
    message = mistake["msg"][0].lower() + mistake["msg"][1:]
    if isinstance(given, Mapping):
        return f"{key}: {message}"
    return f"{key} = {given!r}: {message}"


def _known_keys(location: list[str]) -> list[str]:
    model: Any = Scenario
    for part in location:
        fields = getattr(model, "model_fields", {})
        if part not in fields:
            return []
        model = fields[part].annotation
    if isinstance(model, type) and issubclass(model, BaseModel):
        return list(model.model_fields)
    return []
